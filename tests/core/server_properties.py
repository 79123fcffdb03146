"""What must hold of a server by itself, as plain functions of the class under test."""

from __future__ import annotations

import gc
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from crescendo.core.messages import ConflictingUpdate, DuplicateUpdate, Update
from crescendo.core.terms import Terms
from crescendo.errors import PeerError
from tests.core.play import accepted, plain_shares
from tests.core.properties import same
from tests.core.strategies import seeds, terms, unhurried
from tests.paper import PaperServer, Vector, paper_server

SIZE = 4


@dataclass(frozen=True)
class Scene:
    """Terms, and a seed from which everything else of the scene is drawn."""

    terms: Terms
    seed: int


scenes = st.builds(Scene, terms(), seeds)
unhurried_scenes = st.builds(Scene, unhurried, seeds)


def delta_of(scene: Scene, i: int, c: int) -> Vector:
    """The one update that client c has for round i, of very different magnitudes."""
    rng = np.random.default_rng((scene.seed, i, c))
    return rng.normal(size=SIZE) * 10.0 ** rng.integers(-3, 3)


def all_updates(scene: Scene) -> list[Update]:
    shares = plain_shares(scene.terms)
    return [
        Update(i, c, delta_of(scene, i, c))
        for i in range(scene.terms.rounds)
        for c in range(scene.terms.clients)
        if shares[i][c]
    ]


def any_order_gives_the_paper_s_model(server_class: Any, scene: Scene) -> None:
    """All updates in any order, with repeats: the model to 1e-12, k and the broadcasts are those of the pseudo-code."""
    rng, model = random.Random(scene.seed), np.random.default_rng(scene.seed).normal(size=SIZE)
    updates = all_updates(scene)
    order = updates + rng.sample(updates, k=len(updates) // 2)
    rng.shuffle(order)
    server, literal = server_class(scene.terms, model), PaperServer(model, plain_shares(scene.terms))
    for update in order:
        before = len(literal.broadcasts)
        rose = receive_or_repeat(server, update)
        literal.isr_receive("update", update.round, update.client, update.delta)
        assert server.k == literal.k, f"k is {server.k}, the paper's is {literal.k}"
        assert rose == (len(literal.broadcasts) > before), "a broadcast is due exactly when k rose"
    assert server.finished and server.k == scene.terms.rounds
    for oracle in (
        literal,
        paper_server(model, [(u.round, u.client, np.asarray(u.delta, float)) for u in updates], literal.shares),
    ):
        scale = np.abs(model) + sum(np.abs(update.delta) for update in updates)
        assert (np.abs(server.model - oracle.v) <= 1e-12 * scale).all(), "not the paper's model"


def receive_or_repeat(server: Any, update: Update) -> bool:
    try:
        rose = server.receive(update)
        assert isinstance(rose, bool)
        return rose
    except DuplicateUpdate:
        return False


def yours_tells_what_is_inside(server_class: Any, scene: Scene) -> None:
    """A broadcast's ``yours`` names the receiver's rounds that are in the model (or will never be), and no others."""
    rng, model = random.Random(scene.seed), np.zeros(SIZE)
    server, literal = server_class(scene.terms, model), PaperServer(model, plain_shares(scene.terms))
    for update in rng.sample(all_updates(scene), k=len(all_updates(scene))):
        server.receive(update)
        literal.isr_receive("update", update.round, update.client, update.delta)
        for c in range(scene.terms.clients):
            told = server.broadcast(c)
            mine = [
                i for i in range(scene.terms.rounds) if literal.shares[i][c]
            ]  # a round without a share may be in or out
            inside, truth = [i for i in mine if i in told.yours], [i for i in mine if i in literal.rounds_of(c)]
            assert inside == truth, f"yours of client {c} says {inside}, in it are {truth}"
            assert told.k == literal.k and same(told.model, server.model)


def follows_any_churn(server_class: Any, scene: Scene) -> None:
    """Updates, voids, absences, returns and departures in any order: k, model and acknowledgements are the oracle's."""
    rng, terms = random.Random(scene.seed), scene.terms
    model, shares = np.zeros(SIZE), plain_shares(terms)
    server, literal = server_class(terms, model), PaperServer(model, shares)
    sent = [-1] * terms.clients  # the last round each client sent or passed over
    left: set[int] = set()
    for _ in range(60):
        c = rng.randrange(terms.clients)
        i = rng.randrange(terms.rounds)
        what = rng.choices(["update", "void", "absent", "back", "leave"], weights=[12, 2, 2, 3, 0.3])[0]
        if c in left or (what in ("update", "void") and (i > terms.furthest(server.k) or not shares[i][c])):
            continue
        settled, k = (i, c) in literal.applied or (i, c) in literal.void, literal.k
        if what == "update":
            if settled:
                continue
            rose = accepted(server.receive, Update(i, c, delta_of(scene, i, c)))
            literal.isr_receive("update", i, c, delta_of(scene, i, c))
            sent[c] = max(sent[c], i)
        elif what == "void":
            if settled:
                continue
            rose = accepted(server.void, i, c)
            literal.isr_receive("void", i, c)
            sent[c] = max(sent[c], i)
        elif what == "back":
            start = accepted(server.back, c, sent[c])
            assert start == literal.returns_at(sent[c]), f"back at {start}, not at max(k, last + 1)"
            literal.isr_receive("back", c, sent[c])
            sent[c] = max(sent[c], start - 1)
            rose = None
        else:
            rose = accepted(getattr(server, what), c)
            literal.isr_receive(what, c)
            left |= {c} if what == "leave" else set()
        assert server.k == literal.k, f"after {what} of {i, c}: k is {server.k}, not {literal.k}"
        assert rose is None or rose == (literal.k > k), "True exactly when k rose"
        np.testing.assert_allclose(server.model, literal.v, rtol=1e-12, atol=1e-12)


# -- what is refused


def hostile(scene: Scene, server: Any, rng: random.Random) -> list[Update]:
    """Messages that nobody may send now, of every kind."""
    terms, shares = scene.terms, plain_shares(scene.terms)
    ok = np.zeros(SIZE)
    n, furthest = terms.clients, terms.furthest(server.k)
    bad = [Update(0, c, ok) for c in (-1, n, n + 7, 10**9)]
    bad += [Update(i, 0, ok) for i in (-1, -5, furthest + 1, terms.rounds, terms.rounds + 3, 10**12)]
    bad += [Update(i, c, ok) for i in range(terms.rounds) for c in range(n) if not shares[i][c]]
    open_pairs = [(u.round, u.client) for u in all_updates(scene) if u.round not in server.broadcast(u.client).yours]
    for i, c in [pair for pair in open_pairs if pair[0] <= furthest][:3]:
        for odd in (np.nan, np.inf, -np.inf):
            bad.append(Update(i, c, np.where(np.arange(SIZE) == rng.randrange(SIZE), odd, 1.0)))
        bad += [Update(i, c, np.zeros(shape)) for shape in (0, 1, SIZE - 1, SIZE + 1, (SIZE, 1), (1, SIZE), (2, SIZE))]
    return bad


def halfway(server_class: Any, scene: Scene, rng: random.Random) -> tuple[Any, list[Update]]:
    """A server that has taken some of the updates, and those."""
    server, taken = server_class(scene.terms, np.ones(SIZE)), []
    updates = all_updates(scene)
    for update in rng.sample(updates, k=rng.randint(0, len(updates))):
        if update.round <= scene.terms.furthest(server.k):
            server.receive(update)
            taken.append(update)
    return server, taken


def refuses(server: Any, update: Update, *kinds: type[PeerError]) -> None:
    """The message is refused with an error of ours, and the server is as it was, to the last bit."""
    before, model, k = server.export(), server.model, server.k
    try:
        server.receive(update)
    except PeerError as error:
        assert not kinds or isinstance(error, kinds), f"refused with {type(error).__name__}: {error}"
        assert len(str(error)) > 20, "an error says what happened and what to do"
    else:
        raise AssertionError(f"taken: {update}")
    assert same(server.export(), before) and server.model is model and server.k == k, f"left a trace: {update}"


def a_refused_message_changes_nothing(server_class: Any, scene: Scene) -> None:
    rng = random.Random(scene.seed)
    server, taken = halfway(server_class, scene, rng)
    for update in hostile(scene, server, rng):
        refuses(server, update)
    for update in taken:
        refuses(server, update, DuplicateUpdate)
        refuses(server, Update(update.round, update.client, update.delta.copy()), DuplicateUpdate)
        other = update.delta.copy()
        other[rng.randrange(SIZE)] += 1.0
        refuses(server, Update(update.round, update.client, other), ConflictingUpdate)


def deep_size(thing: Any, leave_out: tuple[Any, ...]) -> int:
    """How many objects, and bytes of arrays, hang on ``thing`` (classes and ``leave_out`` aside)."""
    seen, todo, total = {id(item) for item in leave_out}, [thing], 0
    while todo:
        item = todo.pop()
        if id(item) in seen or isinstance(item, type) or callable(item):
            continue
        seen.add(id(item))
        total += 100 + (
            item.nbytes if isinstance(item, np.ndarray) else len(item) if isinstance(item, bytes | str) else 0
        )
        todo += gc.get_referents(item)
    return total


def memory_is_bounded(server_class: Any, scene: Scene) -> None:
    """However many messages a peer makes up, the server holds no more than before."""
    rng = random.Random(scene.seed)
    server, taken = halfway(server_class, scene, rng)
    before = deep_size(server, leave_out=(scene.terms,))
    for number in range(20):
        made_up = [Update(scene.terms.rounds + number, number % scene.terms.clients, np.zeros(SIZE))]
        made_up += [Update(0, scene.terms.clients + number, np.zeros(SIZE)), Update(-1 - number, 0, np.zeros(SIZE))]
        made_up += [Update(u.round, u.client, u.delta + number) for u in taken]
        for update in made_up + hostile(scene, server, rng):
            try:
                server.receive(update)
            except PeerError:
                continue
            raise AssertionError(f"taken: {update}")
    assert deep_size(server, leave_out=(scene.terms,)) <= before + 500, "the server grows with what a peer makes up"


def nobody_present_nothing_moves(server_class: Any, scene: Scene) -> None:
    """k stands still while nobody is present, even if all updates of its round are in."""
    rng, terms = random.Random(scene.seed), scene.terms
    server, _ = halfway(server_class, scene, rng)
    for c in range(terms.clients):
        k = server.k
        accepted(server.absent, c)
    assert server.k == k, "k rose as the last client went"
    for update in all_updates(scene):
        if update.round <= terms.furthest(server.k) and update.round not in server.broadcast(update.client).yours:
            assert accepted(server.receive, update) is False, "late updates are applied, but k waits for somebody"
            assert server.k == k, "k rose with nobody present"


def the_gone_are_not_heard(server_class: Any, scene: Scene) -> None:
    """One who left holds nothing up, cannot come back, and nothing more is taken from it."""
    rng = random.Random(scene.seed)
    server, _ = halfway(server_class, scene, rng)
    gone = rng.randrange(scene.terms.clients)
    accepted(server.leave, gone)
    for update in all_updates(scene):
        if update.client == gone:
            refuses(server, update)
    before = server.export()
    for call, arguments in (
        (server.back, (gone, scene.terms.rounds - 1)),
        (server.void, (0, gone)),
        (server.absent, (gone,)),
    ):
        try:
            call(*arguments)
        except PeerError:
            assert same(server.export(), before), "left a trace"
        else:
            raise AssertionError("one who left for good was heard")
    for update in all_updates(scene):  # oldest first, so that none is too far ahead
        if update.client != gone and update.round not in server.broadcast(update.client).yours:
            accepted(server.receive, update)
    assert server.finished or scene.terms.clients == 1, "one who left holds the run up"
