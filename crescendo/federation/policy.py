"""A client's policy file: the server's terms must pass it before any record is used.

The server is honest but curious, so the client protects itself. A refusal names only the policy and the terms, never
the data, so both sides may log it.
"""

import hashlib
import math
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from crescendo.errors import ConfigError, Refused
from crescendo.federation.agreement import Agreement
from crescendo.privacy.mechanisms.mechanism_kinds import MECHANISMS, NONE, is_mechanism
from crescendo.tables import AS_TUPLE, COUNT, POSITIVE, KnownWord, Section, key, one_of, read_toml
from crescendo_dp.ledger.budget import Budget

Words = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], AS_TUPLE]
Kinds = Annotated[
    tuple[str, ...],
    AS_TUPLE,
    KnownWord(is_mechanism, lambda: f"a list of {' and '.join(one_of(NONE, *MECHANISMS).rsplit(' or ', 1))}"),
]
_EXAMPLES = {"epsilon": "epsilon = 1.0", "delta": "delta = 1e-6"}


class Policy(Section):
    """The contents of a policy file."""

    mechanisms: Kinds = key(
        ("minibatch", "local", "batch-clip"),
        "",
        'the mechanisms that may use the records; "none" gives no privacy at all',
        min_length=1,
    )
    epsilon: float | None = key(
        None, POSITIVE, "the total that may ever be spent on these records, over all federations", gt=0
    )
    delta: float | None = key(None, "a number between 0 and 1", "the delta of that epsilon", gt=0, lt=1)
    dataset: str = key("", "a name", "the data set that the budget belongs to; set once in the ledger")
    ledger: str | None = key(
        None, "a path", "the path of the ledger, relative to this file; left out, in the state folder"
    )
    witness: str | None = key(
        None, "a path", "a file on other storage that records the ledger's progress, relative to this file"
    )
    max_epsilon: float | None = key(None, POSITIVE, "the most that one federation may spend", gt=0)
    max_delta: float | None = key(None, "a number between 0 and 1", "the largest delta of one federation", gt=0, lt=1)
    min_sigma: float | None = key(None, POSITIVE, "the least noise of a round, whatever it costs", gt=0)
    max_open_federations: int = key(
        1, COUNT, "the most federations signed off but not ended; `crescendo account --close` ends one", ge=1
    )
    max_offers: int = key(
        10,
        COUNT,
        "the most different terms priced against the ledger within 24 hours; others are declined",
        ge=1,
    )
    max_rounds: int | None = key(None, COUNT, "the most rounds of a federation", ge=1)
    federations: Words | None = key(None, "a list of names", "the federations that this client may join; left out, any")
    objectives: Words | None = key(
        None,
        'a list of kinds such as "logistic" or "softmax", "file.py:Name" and SHA-256 of model files in hex',
        "the objectives that may be learned; left out, any of ours and the model that --model names",
    )
    server: str | None = key(None, "a certificate's SHA-256 in hex", "the only server to talk to")

    @model_validator(mode="after")
    def _a_budget_for_privacy(self) -> Self:
        private = [kind for kind in self.mechanisms if kind != NONE]
        missing = [name for name in ("epsilon", "delta") if getattr(self, name) is None]
        if not private and len(missing) < 2:
            raise ValueError(
                'mechanisms = ["none"] gives no protection and has no budget; remove epsilon and delta, or allow "minibatch"'
            )
        if private and missing:
            lines = " and ".join(_EXAMPLES[name] for name in missing)
            raise ValueError(
                f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing; add, for example, {lines}: epsilon and "
                f'delta are the total that "{private[0]}" may ever spend on these records (or allow mechanisms = ["none"] only, '
                "which gives no protection)"
            )
        return self

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a policy file; raise ConfigError if it is invalid."""
        raw = read_toml(path, "policy file", "it states what this client allows, and `crescendo join --help` shows one")
        if "data" in raw and "schedule" in raw:
            raise ConfigError(f"{path} is a run file, not a policy; `crescendo join --help` shows a policy")
        try:
            policy = cls.checked(raw, "a policy has")
        except ConfigError as error:
            raise ConfigError(f"the policy {path} is wrong: {error}") from None
        here = path.resolve().parent  # the same budget from any working directory
        named = {"ledger": policy.ledger, "witness": policy.witness}
        return policy.model_copy(
            update={key: str(here / Path(place).expanduser()) for key, place in named.items() if place is not None}
        )

    def budget(self) -> Budget:
        """Return the data set's budget; without privacy it is unlimited."""
        if self.epsilon is None or self.delta is None:
            return Budget(math.inf, 0.5)
        return Budget(self.epsilon, self.delta)

    def check_terms(self, agreed: Agreement) -> None:
        """Refuse terms that the policy does not allow. The ledger, not the policy, checks the total cost."""
        terms, made = agreed.terms, agreed.certificate
        if self.federations is not None and agreed.federation not in self.federations:
            raise _refused(f'the federation "{agreed.federation}"', f"federations = {list(self.federations)}")
        if agreed.mechanism not in self.mechanisms:
            raise _refused(f'mechanism = "{agreed.mechanism}"', f"mechanisms = {list(self.mechanisms)}")
        if self.objectives is not None and not set(agreed.learns) & set(self.objectives):
            hashed = f" with the SHA-256 {agreed.learns[1]}" if len(agreed.learns) > 1 else ""
            raise _refused(f'objective.kind = "{agreed.learns[0]}"{hashed}', f"objectives = {list(self.objectives)}")
        if self.max_rounds is not None and terms.rounds > self.max_rounds:
            raise _refused(f"{terms.rounds} rounds", f"max_rounds = {self.max_rounds}")
        if made is None or agreed.delta is None:
            return
        if self.min_sigma is not None and made.sigma.least < self.min_sigma:
            raise _refused(f"sigma = {made.sigma.least:g}", f"min_sigma = {self.min_sigma:g}")
        most = self.max_delta if self.max_delta is not None else self.delta
        if most is not None and agreed.delta > most:
            raise _refused(f"delta = {agreed.delta:g}", f"delta of at most {most:g}")

    def check_epsilon(self, agreed: Agreement, epsilon: float) -> None:
        """Refuse if the whole plan costs more, by this client's own accountant, than one federation may."""
        if self.max_epsilon is not None and epsilon > self.max_epsilon:
            raise _refused(f"epsilon {epsilon:.4g} at delta {agreed.delta:g}", f"max_epsilon = {self.max_epsilon:g}")

    def check_server(self, certificate: bytes | None) -> None:
        """Refuse a server that did not show the certificate named in the policy."""
        if self.server is None:
            return
        shown = "none" if certificate is None else hashlib.sha256(certificate).hexdigest()
        if shown != self.server.lower().replace(":", ""):
            raise _refused(f"a server whose certificate has the SHA-256 {shown}", f"server = {self.server}")


def _refused(asked: str, allowed: str) -> Refused:
    """Return a refusal whose public text omits the policy's values, which name other federations and budgets."""
    refused = Refused(f"the terms ask for {asked}, and this client's policy allows {allowed}")
    refused.public = f"the terms ask for {asked}, which this client's policy does not allow"
    return refused
