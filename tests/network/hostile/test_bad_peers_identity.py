"""Peers that lie about who they are, what they know and what they speak of."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from crescendo.core.messages import Settled
from crescendo.network.protocol import wire_pb2 as pb
from crescendo.network.protocol.wire_messages import TO_SERVER, UpdatePart, VoidRound
from crescendo.network.transport.security.authenticator import Authenticator
from crescendo.network.transport.security.tokens import TokenBook
from crescendo.storage.journal.server_state import ServerState
from tests.network.attacks import Attack, Patch, attacked, each, each_without, refused, run_attack, succeeds
from tests.network.raw_streams import RawStream, check_clear

pytestmark = pytest.mark.slow


def doorkeeper(folder: Path, agreed_names: int) -> Authenticator:
    book = [
        {"name": f"client {c}", "role": "client", "sha256": TokenBook.hash(f"token {c}")} for c in range(agreed_names)
    ]
    (folder / "tokens.json").write_text(json.dumps(book))
    return Authenticator(folder / "tokens.json")


async def a_wrong_token_or_name_is_refused(folder: Path) -> None:
    async with attacked(folder, admit=doorkeeper(folder, 3)) as here:
        for c, token, name in ((0, "", None), (0, "token 1", None), (0, "x", None), (1, "token 1", "client 0")):
            line = RawStream(here.channel)
            changes = {} if name is None else {"name": name}
            await line.say(TO_SERVER.encode(here.client(c, token).hello(**changes)))
            answer = await line.hear()
            assert isinstance(answer, pb.ToClient) and answer.refusal.final, answer
            check_clear(answer.refusal.reason)
            assert "token 1" not in answer.refusal.reason
        welcome = await here.client(0, "token 0").join()
        assert isinstance(welcome, pb.ToClient) and welcome.HasField("welcome"), welcome
        assert here.server.service.durable.instances == {0: here.client(0).instance}


async def a_second_instance_is_refused_and_the_first_stays(folder: Path) -> None:
    async with attacked(folder) as here:
        good = here.client(0)
        await good.join()
        line = RawStream(here.channel)
        await line.say(TO_SERVER.encode(good.hello(instance="f" * 32)))
        answer = await line.hear()
        assert isinstance(answer, pb.ToClient) and "another instance" in answer.refusal.reason, answer
        assert await good.fire() == [], "the first stream is cut"
        await here.finish(0, 1, 2)


async def claims_of_what_was_acknowledged_only_begin_epochs(folder: Path) -> None:
    """A server may have been opened from a backup, so it believes such claims; a liar gains nothing by them."""
    async with attacked(folder) as here:
        good = [here.client(c) for c in (1, 2)]
        for client in good:
            await client.join()
        bad = here.client(0)
        for n in range(20):
            answer = await bad.join(epoch=bad.epoch + n % 3, k=n % 5, acknowledged=Settled(n % 5))
            assert isinstance(answer, pb.ToClient)
        for lie in ({"k": 5}, {"acknowledged": Settled(5)}, {"epoch": 2**52}, {"last": 4}):
            answer = await bad.join(**lie)
            assert isinstance(answer, pb.ToClient) and answer.refusal.final, (lie, answer)
        assert here.server.service.durable.epoch > 5 and here.received() == []
        await here.finish(1, 2)


async def messages_about_another_federation_are_refused(folder: Path) -> None:
    async with attacked(folder) as here:
        bad = here.client(0)
        for about in ({"federation": "other"}, {"digest": "0" * 64}):
            assert "another federation" in refused(await bad.fire(*bad.update(0, **about)))  # type: ignore[arg-type]
        await here.finish(0, 1, 2)
        assert len(here.received()) == 12


async def a_liar_does_not_write_to_the_journal_at_will(folder: Path) -> None:
    async with attacked(folder) as here:
        bad = here.client(0)
        for _ in range(200):
            await bad.join(epoch=bad.epoch, acknowledged=Settled(4))
        assert 0 < here.epochs_begun() < 100


@each(
    a_wrong_token_or_name_is_refused,
    a_second_instance_is_refused_and_the_first_stays,
    claims_of_what_was_acknowledged_only_begin_epochs,
    messages_about_another_federation_are_refused,
)
def test_bad_peer(attack: Attack, tmp_path: Path) -> None:
    run_attack(attack, tmp_path)


@each(a_liar_does_not_write_to_the_journal_at_will)
def test_what_once_was_a_hole(attack: Attack, tmp_path: Path) -> None:
    run_attack(attack, tmp_path)


# -- guards taken away ---------------------------------------------------------------------------------------------------


def the_name_in_the_message_is_trusted(patch: Patch) -> None:
    patch.setattr(Authenticator, "__call__", lambda *told: None)


def any_instance_will_do(patch: Patch) -> None:
    patch.setattr(ServerState, "_join", lambda self, c, instance: self.instances.update({c: instance}) is None)


def every_claim_is_believed(patch: Patch) -> None:
    patch.setattr(ServerState, "epoch_after", lambda self, client, epoch, k, acknowledged: self.server.epoch + 1)


def nobody_asks_what_it_is_about(patch: Patch) -> None:
    patch.setattr(UpdatePart, "check_about", lambda *told: None)
    patch.setattr(VoidRound, "check_about", lambda *told: None)


@each_without(
    (the_name_in_the_message_is_trusted, a_wrong_token_or_name_is_refused),
    (any_instance_will_do, a_second_instance_is_refused_and_the_first_stays),
    (every_claim_is_believed, claims_of_what_was_acknowledged_only_begin_epochs),
    (nobody_asks_what_it_is_about, messages_about_another_federation_are_refused),
)
def test_without_the_guard_the_attack_is_seen_to_succeed(
    planted: Callable[[Patch], None], attack: Attack, tmp_path: Path, monkeypatch: Patch
) -> None:
    planted(monkeypatch)
    succeeds(attack, tmp_path)
