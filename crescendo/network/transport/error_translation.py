"""Translates gRPC errors into messages that say what to do."""

import asyncio

import grpc
import grpc.aio

from crescendo.logs.peer_text import cleaned

LONGEST = 300  # characters of a text from the other side

# Reasons why a connection was never made; the first match counts. Retrying does not help against those in UNRECOVERABLE.
CONNECTING = {
    "Connection refused": "nothing is listening there; is the server running, and is this its port?",
    "resolving": "there is no such host; check the address",
    "WRONG_VERSION_NUMBER": "it does not speak TLS; was it started without --certs?",
    "certificate has expired": "its certificate has expired; ask its operator to renew it",
    "Hostname Verification": "its certificate is for other names and addresses than this one; use one of those, or make a new "
    "certificate with `crescendo certs --host`",
    "Tls handshake failed": "its certificate is not of the authority in your --certs folder; check that it is the right server, "
    "and that both folders were made by the same `crescendo certs`",
    "Failed parsing HTTP/2": "something answers that is not a Crescendo server; check the port",
    "Socket closed": "it hung up; it does not accept the certificate in your --certs folder, or was just ending, or has no "
    "place for another connection",
    "reset by peer": "it hung up; is it a Crescendo server, and was it just ending?",
    "No route to host": "there is no route to it; check the address and the network",
    "Network is unreachable": "there is no route to it; check the address and the network",
    "imed out": "nothing answers there; check the address, and that no firewall is in between",
    "imeout": "nothing answers there; check the address, and that no firewall is in between",
}
IN_THE_CLEAR = CONNECTING | {
    "Socket closed": "it hung up; --certs was left out, and it wants TLS, or it was just ending, or has no place for another "
    "connection",
}
UNRECOVERABLE = (
    "WRONG_VERSION_NUMBER",
    "certificate has expired",
    "Hostname Verification",
    "Tls handshake failed",
    "Failed parsing HTTP/2",
)
OWN_CODES = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.DEADLINE_EXCEEDED,
)


def reason_of(error: BaseException, in_the_clear: bool = False) -> str:
    """Return why there is no connection, or no longer one. ``in_the_clear``: this side did not use TLS.

    >>> reason_of(ConnectionRefusedError(111, "Connection refused"))
    'nothing is listening there; is the server running, and is this its port?'
    """
    text = _details(error)
    if isinstance(error, asyncio.InvalidStateError) or (_by_grpc(error) and not _while_connecting(text)):
        return f"the connection broke ({text[:LONGEST]})" if text else "the connection broke"
    if isinstance(error, OSError) or _by_grpc(error):
        meanings = IN_THE_CLEAR if in_the_clear else CONNECTING
        text = next((meaning for words, meaning in meanings.items() if words in text), text)
    return text[:LONGEST] or type(error).__name__


def is_unrecoverable(error: BaseException) -> bool:
    """True if every further attempt will fail until an operator changes something."""
    text = _details(error)
    return _by_grpc(error) and _while_connecting(text) and any(words in text for words in UNRECOVERABLE)


def _by_grpc(error: BaseException) -> bool:
    """True if the error comes from gRPC itself, not from the other side."""
    return isinstance(error, grpc.aio.AioRpcError) and error.code() in OWN_CODES


def _details(error: BaseException) -> str:
    return cleaned((error.details() or "") if isinstance(error, grpc.aio.AioRpcError) else str(error))


def _while_connecting(text: str) -> bool:
    return "failed to connect" in text or "resolving" in text
