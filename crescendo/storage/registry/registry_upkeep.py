"""Commands on the registry: `account --registry` lists it, `--register` and `--forget` record its owner's statements."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from crescendo import system
from crescendo.errors import CrescendoError, UsageError
from crescendo.storage.ledger.open_ledger import open_ledger
from crescendo.storage.registry.ledger_registry import KnownLedger, KnownLedgers, LedgerRegistry


def registered_ledgers() -> dict[str, Any]:
    """List the ledgers in this user's registry, each with its present spending, as plain data."""
    registry = LedgerRegistry.here()
    return {"registry": str(registry.folder), "ledgers": [_described(one) for one in registry.read().ledgers]}


def _described(one: KnownLedger) -> dict[str, Any]:
    facts = {
        "dataset": one.dataset,
        "ledger": one.path,
        "epsilon": one.epsilon,
        "delta": one.delta,
        "signed": one.signed,
    }
    count = None if one.records is None else one.records.count
    return {**facts, "different_records": count, **_as_it_is(one)}


def _as_it_is(one: KnownLedger) -> dict[str, Any]:
    try:
        with open_ledger(one.path, read_only=True) as ledger:
            if ledger.id == one.id:
                summary = ledger.summary()
                return {"state": "there", "spent": summary["spent"]["epsilon"], "left": summary["left"]["epsilon"]}
    except CrescendoError:
        pass
    state = "not begun" if one.id is None else "unreadable" if Path(one.path).exists() else "gone"
    return {"state": state, "spent": None, "left": None}


def register_apart(path: Path) -> str:
    """Record the owner's statement that the ledger at ``path`` has other records than all known ones; return a message."""
    path, registry = path.resolve(), LedgerRegistry.here()
    with registry.changing() as known:
        own = _meant(known, path)
        if own is None:
            known.ledgers.append(own := KnownLedger(str(path), None))
        apart = {one.id for one in known.ledgers if one is not own and one.id is not None}
        own.others = sorted(apart | set(own.others))
    count = f"the {len(apart)} other ledgers" if len(apart) != 1 else "the one other ledger"
    return f"noted that {path} is for other records than {count} of the registry {registry.folder}"


def forget_ledger(path: Path) -> str:
    """Remove a ledger and its records from the registry; return a message."""
    path, registry = path.resolve(), LedgerRegistry.here()
    with registry.changing() as known:
        own = _meant(known, path)
        if own is None:
            paths = ", ".join(one.path for one in known.ledgers) or "none"
            raise UsageError(f"the registry {registry.folder} has no ledger {path}; it knows {paths}")
        known.ledgers.remove(own)
        if own.id is not None:
            with suppress(OSError):
                system.unlink(registry.head_of(own.id))
    signed = ", and what it has spent of them counts no longer" if own.signed else ""
    return f"the registry {registry.folder} has forgotten {path} and its records{signed}"


def _meant(known: KnownLedgers, path: Path) -> KnownLedger | None:
    """Find the entry of the ledger at a path, or of the ledger that used to be there."""
    with suppress(CrescendoError), open_ledger(path, read_only=True) as ledger:
        return known.by_id(ledger.id)
    return known.awaited(path) or known.at(path)
