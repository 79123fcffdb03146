"""`crescendo certs`: makes keys for a federation, requests certificates, signs and revokes them."""

from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from crescendo.cli.common import AsJson, one_sentence, print_json
from crescendo.errors import UsageError
from crescendo.whole_files import blamed_on

ALIKE = 0.82  # from this similarity on, a word is taken for a mistyped command
NO_COMMANDS = ("list", "show", "new")  # commands of similar tools


class _CertsGroup(TyperGroup):
    """`certs DIR` is short for `certs make DIR`; to make a folder that is called like a command, write ./request."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "-h", "--help"):
            with one_sentence():
                self._refuse_mistyped(args[0])
            args = ["make", *args]
        return super().parse_args(ctx, args)

    def _refuse_mistyped(self, word: str) -> None:
        """Refuse a word that was meant as a command, rather than make a folder of that name."""
        near = get_close_matches(word, self.commands, 1, ALIKE)
        if near or word in NO_COMMANDS:
            meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(self.commands)};"
            raise UsageError(f"{word} is not a command of certs; {meant} for a folder of that name write ./{word}")


certs = typer.Typer(
    name="certs",
    cls=_CertsGroup,
    help="Make keys for a federation, or ask for, sign and revoke certificates; `certs DIR` is short for `certs make DIR`.",
    epilog="Example: crescendo certs keys --host server.example.org --client alice --client bob",
    no_args_is_help=True,
    rich_markup_mode=None,
)


class PartyRole(StrEnum):
    """The role of a party."""

    client = "client"
    aggregator = "aggregator"
    server = "server"


Keys = Annotated[Path, typer.Option("--keys", metavar="DIR", help="The folder of keys.")]
Lasts = Annotated[int, typer.Option(help="How many days certificates last.")]
AsRole = Annotated[PartyRole, typer.Option("--role", help="The role of the party.")]


@certs.command("make", epilog="Example: crescendo certs keys --host server.example.org --client alice --client bob")
def _make(
    where: Annotated[str, typer.Argument(metavar="DIR", help="The folder to write to; run again to add parties.")],
    host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A name or address under which others reach the server, or the aggregator made by this command; may be "
            "repeated. By default localhost and 127.0.0.1 only.",
        ),
    ] = None,
    client: Annotated[list[str] | None, typer.Option(metavar="NAME", help="A client; may be repeated.")] = None,
    aggregator: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="An aggregator; name its own --host in the same command; may be repeated."),
    ] = None,
    tokens: Annotated[bool, typer.Option("--tokens", help="Clients show tokens instead of certificates.")] = False,
    days: Lasts = 90,
    as_json: AsJson = False,
) -> None:
    """Make an authority and a folder of certificates, or tokens, for each party of a trial."""
    with one_sentence():
        from crescendo.network.authority.certificate_checks import THIS_MACHINE
        from crescendo.network.authority.certificates import make_certificates

        if not where.strip():
            raise UsageError("the folder has no name; write for example crescendo certs keys")
        folder, hosts = Path(where), [*THIS_MACHINE, *(host or ())]
        with blamed_on(folder):
            found = make_certificates(
                folder, hosts=hosts, clients=client or (), aggregators=aggregator or (), tokens=tokens, days=days
            )
        if as_json:
            facts = {"made": [str(place) for place in found.made], "kept": [str(place) for place in found.kept]}
            print_json({**facts, "authority": str(folder / "authority")})
            return
        for place in found.made:
            typer.echo(f"made {place}: copy it to that party only")
        for place in found.kept:
            typer.echo(f"kept {place}")
        here_only = [str(place) for place in found.made if place.parent != folder / "clients"]
        if here_only and not host:
            typer.echo(f"{', '.join(here_only)} is valid on this machine only; for other machines give its --host")
        typer.echo(f"{folder / 'authority'} signs certificates: keep it off the machines that take part")


@certs.command("request", epilog="Example: crescendo certs request alice --keys keys")
def _request(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Your name in the federation's terms.")],
    keys: Keys = Path("keys"),
    role: AsRole = PartyRole.client,
    as_json: AsJson = False,
) -> None:
    """Make your key, which stays on this machine, and a request for its certificate; repeat it to renew the certificate."""
    with one_sentence():
        from crescendo.network.authority.certificate_requests import request_certificate
        from crescendo.network.transport.security.identity import Identity

        with blamed_on(keys):
            made = request_certificate(keys, Identity(role.value, name))
        if as_json:
            print_json({"request": str(made.path), "key_sha256": made.fingerprint})
            return
        typer.echo(f"made {made.path}: send it to the federation's authority; the key stays in {keys}")
        typer.echo(f"the key's fingerprint, to compare on the telephone: {made.fingerprint}")


@certs.command("sign", epilog="Example: crescendo certs sign alice-request.pem --keys keys --file federation.toml")
def _sign(
    request: Annotated[Path, typer.Argument(metavar="REQUEST", help="The request that the party sent.")],
    keys: Keys = Path("keys"),
    file: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="The run file; refuse clients that it does not name.")
    ] = None,
    role: AsRole = PartyRole.client,
    host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="The name or address under which others reach it, if it listens."),
    ] = None,
    days: Lasts = 90,
    renew: Annotated[bool, typer.Option("--renew", help="Give another certificate to a party that has one.")] = False,
    as_json: AsJson = False,
) -> None:
    """Sign a request at the authority, which takes only the name and the key from it."""
    with one_sentence():
        from crescendo.network.authority.certificate_requests import sign_request

        names = None
        if file is not None:
            from crescendo.config.loading import read_served

            names = read_served(file).serve.names or ()
        with blamed_on(keys):
            made = sign_request(keys, request, role=role.value, hosts=host or (), names=names, days=days, renew=renew)
        until = made.certificate.not_valid_after_utc
        serial = f"{made.certificate.serial_number:x}"
        before = None if made.before is None else f"{made.before:x}"
        if as_json:
            facts = {
                "folder": str(made.folder),
                "role": made.identity.role,
                "name": made.identity.name,
                "serial": serial,
            }
            print_json({**facts, "key_sha256": made.fingerprint, "until": until.isoformat(), "before": before})
            return
        typer.echo(f"signed for {made.identity.role} {made.identity.name} until {until:%Y-%m-%d}, serial {serial}")
        typer.echo(f"the key's fingerprint, which the party's `certs request` printed too: {made.fingerprint}")
        typer.echo(f"send back cert.pem and ca.pem from {made.folder}; neither is secret")
        if before is not None:
            typer.echo(
                f"the previous certificate stays valid until it expires; to end it now: crescendo certs revoke {before}"
            )


@certs.command("revoke", epilog="Example: crescendo certs revoke alice --keys keys")
def _revoke(
    what: Annotated[str, typer.Argument(metavar="NAME|SERIAL", help="A party, or one certificate.")],
    keys: Keys = Path("keys"),
    as_json: AsJson = False,
) -> None:
    """Revoke a party's certificates and tokens, or one certificate; a running server notices."""
    with one_sentence():
        from crescendo.network.authority.revoking import revoke

        with blamed_on(keys):
            found = revoke(keys, what)
        if as_json:
            print_json(
                {"serials": found.serials, "tokens": len(found.tokens), "files": [str(file) for file in found.files]}
            )
            return
        taken = [f"serial {serial}" for serial in found.serials] + ["its token"] * bool(found.tokens)
        typer.echo(f"revoked {', '.join(taken)}")
        typer.echo(
            "copy to the folders of the server and the aggregators, which notice it at once: "
            f"{', '.join(map(str, found.files))}"
        )
