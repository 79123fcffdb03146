"""Log events: declares every event once, with its level, its sentences and the advice for it.

A terminal shows the sentence (`words`), the table in docs/deploy.md is generated from the declarations, and a test compares every
call of a log with them. From the root of the project, ``python -m crescendo.logs.log_events`` writes the table into the page.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Level = Literal["info", "warn", "error"]
NOTHING = "nothing: this is normal"
NOT_AT_ONCE = "nothing yet: it tries again after `again_in` seconds. If this continues, read `reason` and `without_it`"


@dataclass(frozen=True)
class LogEvent:
    """One event. The log uses the first of its ``sentences`` whose facts are all known: the parties know different facts."""

    name: str
    level: Level
    sentences: tuple[str, ...]
    what_to_do: str = NOTHING

    def sentence(self, facts: Mapping[str, Any]) -> str | None:
        """Return the first template whose facts are all given, or None. A fact that is None or empty counts as missing.

        >>> left = LogEvent("left", "info", ("{client} has left: {reason}", "{client} has left"))
        >>> left.sentence({"client": "bob", "reason": ""}), left.sentence({"reason": "tired"})
        ('{client} has left', None)
        """
        known = {name for name, value in facts.items() if value is not None and value != ""}
        return next((one for one in self.sentences if fields_of(one) <= known), None)

    @property
    def row(self) -> str:
        """The event's row of the table in the documentation."""
        says = "; or: ".join(re.sub(r"\{(\w+)\}", r"*\1*", one) for one in self.sentences)
        return f"| `{self.name}` | {self.level} | {says} | {self.what_to_do} |"


def fields_of(template: str) -> set[str]:
    """Return the names of the facts in a sentence.

    >>> sorted(fields_of("{client} has joined at round {start}"))
    ['client', 'start']
    """
    return {name for _, name, _, _ in string.Formatter().parse(template) if name}


_DECLARED = (
    # -- the life of a federation
    LogEvent("accounting", "info", ("computing {says}",)),
    LogEvent("registered", "info", ("the ledger {ledger} {says}",)),
    LogEvent(
        "serving", "info", ("serving {federation} to {clients} clients on port {port}, at round {k} of {rounds}",)
    ),
    LogEvent("aggregating", "info", ("adding up the clients' updates for {parent}, listening on port {port}",)),
    LogEvent(
        "joined",
        "info",
        (
            "{client} has joined and goes on at round {start}",
            "joined {federation} at {parent}",
            "joined {federation}, going on at round {start}",
        ),
    ),
    LogEvent(
        "signed",
        "info",
        (
            "signed the terms of {federation}: they cost epsilon {epsilon} at delta {delta} at most",
            "signed the terms of {federation}, which have no privacy mechanism: no epsilon holds",
        ),
    ),
    LogEvent("left", "info", ("{client} has left for good: {reason}", "{client} has left for good")),
    LogEvent("aggregator_joined", "info", ("the aggregator {aggregator} has joined",)),
    LogEvent("aggregator_left", "info", ("the aggregator {aggregator} has left",)),
    LogEvent(
        "finished",
        "info",
        (
            "all {rounds} rounds of {federation} are done: {why}",
            "all {rounds} rounds of {federation} are done",
            "all {rounds} rounds are done",
        ),
    ),
    LogEvent("stopped", "info", ("stopped at round {k}", "stopped; the last round of this client is {last}")),
    # -- a client's records
    LogEvent(
        "records",
        "info",
        ("{used} records are used, {left_out} are left out",),
        "check that the number `used` is what you expect. Records are `left_out` because a line cannot be read (`unreadable`: a "
        "missing cell, or text where a number belongs), its label is not one of the agreed classes (`other_label`), or a feature "
        "is not a finite number (`not_finite`). These counts are in your own log only",
    ),
    LogEvent(
        "held_out",
        "info",
        ("{records} records are held out from training, to measure the last model here",),
        "nothing: `--test` asked for it. The count is in your own log only",
    ),
    LogEvent(
        "measured",
        "info",
        ("the last model, on the {of}: {says}",),
        "keep it to yourself if the records are private: no epsilon covers it, and it is never sent. A server measures on the "
        "public set of `serve.test`",
    ),
    LogEvent(
        "not_measured",
        "warn",
        ("the last model was not measured: {reason}",),
        "the model is sound; `crescendo predict` measures it on any table with labels",
    ),
    LogEvent(
        "most_left_out",
        "warn",
        ("{says}",),
        "stop, and look at `--data` and `--label`: more records are left out than used",
    ),
    LogEvent(
        "mind_records",
        "warn",
        ("{says}",),
        "look at the column that it names; this is in the client's own log only and is never sent",
    ),
    # -- connections
    LogEvent("unreachable", "warn", ("no answer from {server}, next attempt in {again_in} s: {reason}",), NOT_AT_ONCE),
    LogEvent(
        "disconnected",
        "warn",
        (
            "lost {server}, next attempt in {again_in} s: {reason}",
            "lost {parent}, next attempt in {again_in} s: {reason}",
            "{client} has lost its connection",
        ),
        NOT_AT_ONCE,
    ),
    LogEvent(
        "sent_away",
        "warn",
        ("sent away by {server}, next attempt in {again_in} s: {reason}",),
        "nothing yet, as above: the other side, such as a server that is stopping, closed the stream and gave the reason. If "
        "`reason` blames this client, look into it",
    ),
    LogEvent(
        "unanswered",
        "warn",
        ("{server} is connected and has not answered for {seconds} s; this client waits without charging anything",),
        "if this continues, ask the server's operator: the server, or a proxy in between, receives this client's messages and "
        "does not answer. The line is repeated each time the silence has doubled",
    ),
    LogEvent(
        "lingering",
        "info",
        ("waiting for {clients}, at most {at_most} s: {why}",),
        "nothing: the run is over, and these clients have not yet confirmed the end to this process; it waits for them for "
        "`at_most` seconds",
    ),
    LogEvent(
        "end_not_confirmed",
        "warn",
        ("{clients}: {why}; {what_to_do}",),
        "the server is exiting, and these clients have still not confirmed the end. If one of them waits for the server, start "
        "the server again. After a restart this also names clients that had confirmed before: a client with its last model "
        "needs nothing",
    ),
    LogEvent(
        "keys_changed",
        "info",
        ("files in {folder} have changed; {ended} open streams were ended because of it",),
        "nothing: certificates, tokens or the list of revoked certificates were replaced, and every valid file is in use",
    ),
    LogEvent(
        "keys_unusable",
        "error",
        ("a changed file cannot be used, so its previous content stays in force: {reason}",),
        "mend that file, or copy it again: until then a renewed certificate is not in use, and a revoked one is still accepted",
    ),
    # -- refusals
    LogEvent(
        "certificate_expires",
        "warn",
        ("the certificate of {party} expires in {days} days",),
        "sign a new one and copy it to that party, which needs no restart: when it expires its stream is ended",
    ),
    LogEvent(
        "certificate_expired",
        "error",
        ("the certificate of {party} has expired, so its stream is ended",),
        "sign a new one: until then that party is not let in",
    ),
    LogEvent(
        "refused",
        "warn",
        (
            "{client} is refused: {reason}",
            "the aggregator {aggregator} is refused: {reason}",
            "a stream from {peer} is refused: {reason}",
            "a sum is refused: {reason}",
            "refused by the server: {reason}",
        ),
        "read `reason`: a party sent, or received, a message that is not allowed",
    ),
    LogEvent(
        "declined",
        "warn",
        ("{client} declines the terms: {reason}", "declined the terms: {reason}"),
        "read `reason`: it names the terms that are not allowed",
    ),
    LogEvent(
        "refused_broadcast",
        "warn",
        ("the model at round {k} is not taken: {reason}",),
        "read `reason`: the server sent an invalid broadcast",
    ),
    LogEvent(
        "connections_closed",
        "warn",
        ("{count} connections from {address} were closed: {reason}",),
        "if this continues, block that address in the packet filter",
    ),
    LogEvent(
        "repeated",
        "warn",
        ("{kind}: {count} more of them from {among} within {within_seconds} s",),
        "as for the event that `kind` names: events that a peer can cause repeatedly get ten lines a minute for each address or "
        "name, and then this one; the newest of them is `last`",
    ),
    LogEvent(
        "alarm",
        "error",
        ("{client} may run twice, or be forged: {reason}", "a sum may be forged: {reason}"),
        "look into it: two different updates came for one round of one client, so it runs twice, or its updates are forged",
    ),
    # -- clients that hold rounds up, and rounds that are lost
    LogEvent(
        "absent",
        "warn",
        ("{client} is absent; the others go on without it",),
        "find out why that client is silent; the others go on without it",
    ),
    LogEvent(
        "held_up",
        "warn",
        ("{client} has held up round {round} for {seconds} s and {joins} joins",),
        "that client did not send its update for so long, however often it joined: it is too slow for its share, crashes as it "
        "joins, or holds the others up. `serve.hold_after` and `serve.hold_least` limit how long rounds wait",
    ),
    LogEvent(
        "on_probation",
        "warn",
        (
            "{client} is back after {joins} joins without an update; no round waits for it while it goes on with round {start}",
        ),
        "find out why that client exits or is cut off before it completes a round; its rounds do not become void meanwhile",
    ),
    LogEvent(
        "off_probation",
        "info",
        ("an update of {client} has arrived; it joins again and rounds wait for it",),
        "nothing: that client was absent twice without an update, and has sent one",
    ),
    LogEvent(
        "rounds_void",
        "info",
        (
            "{client} was absent and goes on at round {next}; its rounds from {first} on are void",
            "going on at round {next}; rounds from {first} on were not computed and cost nothing",
        ),
        "nothing: this client was absent, and its next round is `next`; those between were not computed and cost nothing",
    ),
    LogEvent(
        "void_update",
        "warn",
        ("round {round} of {client} came after it was void: {reason}",),
        "a client sent a round that was declared void while it was away: the client may have charged it, and the model does not "
        "contain it; clients of this version cannot do that, so ask for that client's version and its log",
    ),
    LogEvent(
        "void",
        "warn",
        ("rounds {rounds} of {client} are void: {reason}", "rounds {rounds} are void: {reason}"),
        "this client lost the bytes of these rounds before they arrived; their budget stays spent, and no party waits for them",
    ),
    LogEvent(
        "round_failed",
        "error",
        ("round {round} failed with {error} at {at}: {says}",),
        "read `error` and `at`: a private round raised an error before it was charged. It is charged, void and never computed "
        "again, and the client goes on; after three in a row it exits, so that a fault of the machine does not use up the budget",
    ),
    LogEvent(
        "checkpoint_resumed",
        "info",
        ("round {round} resumes from its checkpoint at slot {slot}",),
        "nothing: this client was stopped or killed in the middle of that round",
    ),
    LogEvent(
        "checkpoint_discarded",
        "warn",
        ("round {round} is drawn again, since its checkpoint cannot be used: {reason}",),
        "nothing: the round is computed once more. If you did not mean to change the part that `reason` names (the records, "
        "say), look into it; a damaged checkpoint points to the disk",
    ),
    LogEvent(
        "checkpoint_failed",
        "warn",
        ("{path} cannot be written or removed: {reason}",),
        "mend what `reason` names: the client goes on, and a kill would cost it the current round. If a checkpoint could not be "
        "removed, remove the file: it holds numbers computed from records, before noise",
    ),
    # -- the server's state and model
    LogEvent(
        "new_epoch",
        "warn",
        ("a new epoch begins: {client} has seen round {k} of epoch {epoch}, and this server had not",),
        "the server's state was older than the state that a client has seen: see *Backups*",
    ),
    LogEvent(
        "journal",
        "warn",
        ("{note}",),
        "the end of the server's journal, or another of its files, was damaged: see *Backups*",
    ),
    LogEvent(
        "accounting_failed",
        "warn",
        ("no tight epsilon for the status: {reason}",),
        "nothing at once: the status has a quick bound instead, and the next request tries again; if this continues, read "
        "`reason`. Rounds are not affected",
    ),
    LogEvent(
        "few_descriptors",
        "warn",
        ("{reason}",),
        "raise the limit of open files to the number in `reason`, or connect clients through aggregators; clients without room "
        "are asked to come back",
    ),
    LogEvent(
        "stream_failed",
        "error",
        ("a peer was turned away for a fault on this side: {reason}",),
        "mend what `reason` names, such as a `tokens.json` that cannot be read; peers are only asked to come back",
    ),
    LogEvent(
        "disk_low",
        "warn",
        ("{free} of the disk of {folder} is free; below {reserve} the server takes no updates",),
        "make room: with less than *reserve* free (`serve.disk_reserve`) the server takes no updates",
    ),
    LogEvent(
        "disk_full",
        "error",
        (
            "{free} of the disk of {folder} is free, less than {reserve}: the server takes no updates until there is room",
        ),
        "make room; nothing is lost: clients keep their updates, come back by themselves, and do not become absent meanwhile",
    ),
    LogEvent(
        "disk_room",
        "info",
        ("{free} of the disk of {folder} is free, so rounds go on",),
        "nothing: there is room again",
    ),
    LogEvent(
        "journal_damaged",
        "error",
        ("the journal is damaged: {reason}",),
        "read `reason`: the server goes on, as it has its state in memory, and its next two snapshots replace the damaged part; "
        "then verify and back up: see *Looking after the disk*",
    ),
    LogEvent(
        "long_model",
        "warn",
        ("{reason}",),
        "the model is longer than the terms expect, so clients shorten the model that they start from; look at step sizes and at "
        "the clients that send long updates",
    ),
    LogEvent("model_in_bounds", "info", ("{reason}",), "nothing: `long_model` is over"),
    LogEvent(
        "model_failed",
        "error",
        ("the model's own code failed: {reason}",),
        "correct your model's code; `reason` has the place where it failed",
    ),
    LogEvent(
        "simulated_noise",
        "error",
        ("{says}",),
        "never in a real federation: this client's noise can be computed again",
    ),
    # -- the log itself
    LogEvent(
        "library",
        "warn",
        ("{name} warns: {says}",),
        "read `says`: it is a warning from a library that the program uses",
    ),
    LogEvent(
        "lines_dropped",
        "warn",
        ("{lines} lines are missing here: the reader was too slow",),
        "the process that reads the log was too slow, so this many `lines` are missing here",
    ),
)
EVENTS: dict[str, LogEvent] = {event.name: event for event in _DECLARED}


def table() -> str:
    """Return the table of events for the documentation."""
    head = "| event | level | on a terminal | what to do |\n|---|---|---|---|\n"
    return head + "\n".join(event.row for event in EVENTS.values())


if __name__ == "__main__":
    page = Path("docs/deploy.md")
    before, _, after = page.read_text(encoding="utf-8").partition("| event |")
    page.write_text(before + table() + "\n\n" + after.partition("\n\n")[2], encoding="utf-8")
