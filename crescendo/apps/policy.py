"""What a client allows, in a file of its own: the server's terms are held against it before any record is read.

The server is honest but curious, so the client protects itself. A refusal names the policy and the terms only, never the data,
so both sides may log it.
"""

from __future__ import annotations

import difflib
import hashlib
import math
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from crescendo.apps.runfile import show
from crescendo.apps.sections import COUNT, POSITIVE, Section, as_tuple, key
from crescendo.apps.terms import Agreed
from crescendo.errors import ConfigError, Refused
from crescendo.privacy.budget import Budget

Words = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(as_tuple)]
Kinds = Annotated[tuple[Literal["none", "minibatch", "local"], ...], BeforeValidator(as_tuple)]


class Policy(Section):
    """A whole policy file."""

    mechanisms: Kinds = key(
        ("minibatch", "local"),
        'a list of "none", "minibatch" and "local"',
        'what may be done with the records; "none" gives no privacy at all',
        min_length=1,
    )
    epsilon: float | None = key(
        None, POSITIVE, "all that may ever be spent on these records, over all federations", gt=0
    )
    delta: float | None = key(None, "a number between 0 and 1", "the delta of that epsilon", gt=0, lt=1)
    dataset: str = key("", "a name", "of the records that the budget belongs to; set once in the ledger")
    ledger: str | None = key(
        None, "a path", "where the ledger lies, seen from this file; left out, in the state folder"
    )
    max_epsilon: float | None = key(None, POSITIVE, "the most that one federation may spend", gt=0)
    max_delta: float | None = key(None, "a number between 0 and 1", "the largest delta of one federation", gt=0, lt=1)
    min_sigma: float | None = key(None, POSITIVE, "the least noise of a round, whatever it costs", gt=0)
    max_open_federations: int = key(
        1, COUNT, "the most federations that are signed off and not over; `crescendo account --close` ends one", ge=1
    )
    max_offers: int = key(
        10,
        COUNT,
        "the most different terms within 24 hours that are held against the ledger; others are declined",
        ge=1,
    )
    max_rounds: int | None = key(None, COUNT, "the most rounds of a federation", ge=1)
    federations: Words | None = key(None, "a list of names", "the federations that may be joined; left out, any")
    objectives: Words | None = key(
        None,
        'a list of "logistic", "file.py:Name" and SHA-256 of model files in hex',
        "what may be learned; left out, logistic and the model that --model names",
    )
    server: str | None = key(None, "a certificate's SHA-256 in hex", "the only server to talk to")

    @model_validator(mode="after")
    def _a_budget_for_privacy(self) -> Self:
        private = [kind for kind in self.mechanisms if kind != "none"]
        if private and (self.epsilon is None or self.delta is None):
            raise ValueError(
                f'epsilon and delta are missing; they say what "{private[0]}" may ever spend on these records '
                f'(or allow mechanisms = ["none"] only, which protects nobody)'
            )
        return self

    def budget(self) -> Budget:
        """The data set's budget. Without privacy nothing is protected, and the ledger says so."""
        if self.epsilon is None or self.delta is None:
            return Budget(math.inf, 0.5)
        return Budget(self.epsilon, self.delta)


def read_policy(path: Path) -> Policy:
    """The policy of a file, or ConfigError in one sentence."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(
            f"there is no policy file {path}; it says what this client allows, and `crescendo join --help` shows one"
        ) from None
    except UnicodeDecodeError:
        raise ConfigError(f"the policy {path} is not a text file; it is TOML") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"the policy {path} is not valid TOML: {error}") from None
    except OSError as error:
        raise ConfigError(f"the policy {path} cannot be read: {(error.strerror or 'unknown reason').lower()}") from None
    try:
        policy = Policy.model_validate(raw)
    except ValidationError as error:
        raise ConfigError(f"the policy {path} is wrong: {_mistake(error, raw)}") from None
    if policy.ledger is None:
        return policy
    beside = path.resolve().parent / Path(policy.ledger).expanduser()  # from wherever it is used, the same budget
    return policy.model_copy(update={"ledger": str(beside)})


def check_policy(policy: Policy, agreed: Agreed, me: int) -> None:
    """Refused if the terms ask for what the policy does not allow. What the run costs is the ledger's to say."""
    terms, made = agreed.terms, agreed.certificate
    if policy.federations is not None and agreed.federation not in policy.federations:
        raise _refused(f'the federation "{agreed.federation}"', f"federations = {list(policy.federations)}")
    if agreed.mechanism not in policy.mechanisms:
        raise _refused(f'mechanism = "{agreed.mechanism}"', f"mechanisms = {list(policy.mechanisms)}")
    if policy.objectives is not None and not set(agreed.learns) & set(policy.objectives):
        hashed = f" with the SHA-256 {agreed.learns[1]}" if len(agreed.learns) > 1 else ""
        raise _refused(f'objective.kind = "{agreed.learns[0]}"{hashed}', f"objectives = {list(policy.objectives)}")
    if policy.max_rounds is not None and terms.rounds > policy.max_rounds:
        raise _refused(f"{terms.rounds} rounds", f"max_rounds = {policy.max_rounds}")
    if made is None or agreed.delta is None:
        return
    if policy.min_sigma is not None and made.sigma.least < policy.min_sigma:
        raise _refused(f"sigma = {made.sigma.least:g}", f"min_sigma = {policy.min_sigma:g}")
    most = policy.max_delta if policy.max_delta is not None else policy.delta
    if most is not None and agreed.delta > most:
        raise _refused(f"delta = {agreed.delta:g}", f"delta of at most {most:g}")


def check_epsilon(policy: Policy, agreed: Agreed, epsilon: float) -> None:
    """Refused if the whole plan, as this client's own accountant counts it, costs more than one federation may."""
    if policy.max_epsilon is not None and epsilon > policy.max_epsilon:
        raise _refused(f"epsilon {epsilon:.4g} at delta {agreed.delta:g}", f"max_epsilon = {policy.max_epsilon:g}")


def check_certificate(policy: Policy, certificate: bytes | None) -> None:
    """Refused unless the server showed the certificate that the policy names."""
    if policy.server is None:
        return
    shown = "none" if certificate is None else hashlib.sha256(certificate).hexdigest()
    if shown != policy.server.lower().replace(":", ""):
        raise _refused(f"a server whose certificate has the SHA-256 {shown}", f"server = {policy.server}")


def _mistake(error: ValidationError, raw: dict[str, Any]) -> str:
    """One sentence for the first mistake; a key we do not know goes first, as it often explains a missing one."""
    first = min(error.errors(include_url=False), key=lambda item: item["type"] != "extra_forbidden")
    if first["type"] == "value_error":
        return str(first["ctx"]["error"])
    name = str(first["loc"][0])
    field = Policy.model_fields.get(name)
    if field is None:
        close = difflib.get_close_matches(name, list(Policy.model_fields), 1)
        return f"there is no key {name}; " + (f"did you mean {close[0]}?" if close else ", ".join(Policy.model_fields))
    return f"{name} must be {field.title}, not {show(raw.get(name))}"


def _refused(asked: str, allowed: str) -> Refused:
    """What is allowed is for this client's own eyes: a policy names other federations and budgets."""
    refused = Refused(f"the terms ask for {asked}, and this client's policy allows {allowed}")
    refused.public = f"the terms ask for {asked}, which this client's policy does not allow"
    return refused
