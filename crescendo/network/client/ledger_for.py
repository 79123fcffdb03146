"""The ledger that is charged for some records: whoever spends anything on a file opens it here, and nowhere else."""

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
    """Open the ledger of ``records`` under a policy, or begin it: where the policy says, else in the ``state`` folder.

    Refused in one sentence if these records have another ledger, or if it is older than it once was: see
    `crescendo.storage.registry.registered_ledger`. The file is read for that here, before any server is asked, so that no
    message waits for it. ``records`` is None for a public set. A policy without a budget has nothing that is spent twice.
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
            f"{records.path} is no regular file, and can be read only once; save the records, so that they are known again and "
            f"their budget is spent once"
        )
    witness = None if policy.witness is None else Path(policy.witness)
    found = open_registered(path, budget, policy.dataset, None if records is None else sketched, witness)
    if found.news is not None:
        log("registered", ledger=str(found.ledger.path), says=found.news)
    return found.ledger
