"""Paid draft: signed off in the ledger of its records, charged and stored before it is shown, and never bought twice.

The order is that of a client's rounds. The certificate is signed off; the records are read and counted; the charge
and the draft go to disk in one transaction; then the draft is shown. The same request finds the stored draft, even if
the records have changed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from crescendo.data.formats.readers import RecordFile
from crescendo.data.tables.cells import Table
from crescendo.drafter.draft_certificate import DraftCertificate
from crescendo.drafter.draft_request import DraftRequest, Questions
from crescendo.drafter.noisy_counts import NoisyCounts
from crescendo.drafter.private_draft import PrivateDraft, private_draft
from crescendo.errors import DataError
from crescendo.federation.policy import Policy
from crescendo.network.client.ledger_for import ledger_for
from crescendo.privacy.mechanisms.noise import Source, SystemSource
from crescendo.storage.ledger.ledger_store import Ledger
from crescendo.whole_files import make_folder

_CLIENT = "data schema"  # the client's name in the ledger


@dataclass(frozen=True)
class ChargedDraft:
    """A draft and its ledger entry; ``again`` if it was already stored and nothing was charged now."""

    draft: PrivateDraft
    ledger: Path
    entry: str  # its name in the ledger
    again: bool
    left: tuple[float, float]  # epsilon and delta left after all plans


def charged_draft(
    path: Path, request: DraftRequest, policy: Policy, state: Path | None = None, *, source: Source | None = None
) -> ChargedDraft:
    """Draft a schema from private records, or find the draft already bought by this request.

    The ledger is the one that `join` opens for these records: at the policy's path, otherwise in the ``state``
    folder; one of them must be given. ``source`` is for tests.
    """
    file = table_file(path)
    if state is not None:
        make_folder(state)
    with ledger_for(file, policy, state or Path()) as ledger:
        return draft_from(file, request, ledger, source or SystemSource())


def draft_from(file: RecordFile, request: DraftRequest, ledger: Ledger, source: Source) -> ChargedDraft:
    """Draft with an open ledger."""
    table = file.table(alone=True)
    header, name = list(table.columns), file.path.name
    questions = request.questions(header, name, table.dates)
    certificate = DraftCertificate.of(request, questions)
    digest = request.digest(header, name)
    entry = f"draft {digest[:12]} of {name}"
    event, failure = certificate.event, certificate.failure
    ledger.sign(entry, digest, _CLIENT, (event,), request.delta, failure=failure)
    stored = ledger.released(entry, 0)
    if stored is None:
        counting = _Counting(table, request, questions, certificate, source)
        released = ledger.release(entry, 0, event, counting.paid_from(ledger, entry))
    else:
        released = stored
    if not _is_closed(ledger, entry):
        ledger.close_federation(entry)  # nothing more to send, so that federations may be joined
    draft, left = PrivateDraft.from_json(json.loads(released), certificate), ledger.left()
    return ChargedDraft(draft, ledger.path, entry, stored is not None, (left.left, left.delta_left))


@dataclass(frozen=True)
class _Counting:
    table: Table
    request: DraftRequest
    questions: Questions
    certificate: DraftCertificate
    source: Source

    def paid_from(self, ledger: Ledger, entry: str) -> bytes:
        """Return the stored draft. A failure of counting may depend on the records, so it is charged and final."""
        try:
            counts = NoisyCounts(self.certificate, self.source)
            draft = private_draft(self.table, self.request, self.questions, counts)
            return json.dumps(draft.to_json(), allow_nan=False).encode()
        except Exception:
            ledger.charge_void(entry, 0, self.certificate.event)
            ledger.close_federation(entry)
            raise


def _is_closed(ledger: Ledger, entry: str) -> bool:
    account = ledger.account(entry)
    return account is not None and account.closed


def table_file(path: Path) -> RecordFile:
    """Return the file of a table; raise DataError if there is none."""
    if not path.exists():
        raise DataError(f"there is no file {path}; name a table with a header line: .csv, .tsv or .parquet")
    file = RecordFile(path)
    if not file.is_table:
        raise DataError(f"{path} has no columns with names; a schema is drafted from a .csv, .tsv or .parquet")
    return file
