"""Opens the ledger of a file of records, for every command that spends a budget on it."""

import math
from pathlib import Path

from crescendo.data.formats.readers import RecordFile
from crescendo.data.record_hashes import smallest_hashes
from crescendo.errors import UsageError
from crescendo.federation.policy import Policy
from crescendo.logs import Log, quiet
from crescendo.storage.ledger.ledger_store import Ledger
from crescendo.storage.ledger.open_ledger import open_ledger
from crescendo.storage.registry.record_sketch import KEEP, RecordSketch
from crescendo.storage.registry.registered_ledger import open_registered


def ledger_for(records: RecordFile | None, policy: Policy, state: Path, log: Log = quiet) -> Ledger:
    """Open the ledger of ``records`` under a policy, or create it: at the policy's path, or in the ``state`` folder.

    Refuse if these records have another ledger, or if the ledger is an old copy: see
    `crescendo.storage.registry.registered_ledger`. This reads the file before the client contacts a server, so that no message
    has to wait for it. ``records`` is None for a public set. A policy without a budget registers no records.
    """
    path = Path(policy.ledger) if policy.ledger is not None else state / "ledger.sqlite"
    budget = policy.budget()
    if math.isinf(budget.epsilon):
        return open_ledger(path, budget, dataset=policy.dataset)

    def sketched(key: bytes) -> RecordSketch:
        assert records is not None
        return RecordSketch(smallest_hashes(records, key, KEEP))

    if records is not None and not records.path.is_file():
        raise UsageError(
            f"{records.path} is no regular file, and can be read only once; save the records in a file, so that they are "
            f"recognised the next time and their budget is spent once"
        )
    witness = None if policy.witness is None else Path(policy.witness)
    found = open_registered(path, budget, policy.dataset, None if records is None else sketched, witness)
    if found.news is not None:
        log("registered", ledger=str(found.ledger.path), says=found.news)
    return found.ledger
