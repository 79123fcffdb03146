# ruff: noqa
# fmt: off
# mypy: disable-error-code="type-arg"
from crescendo.network.protocol import wire_pb2 as _wire_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Up(_message.Message):
    __slots__ = ("hello", "below", "sum", "alive")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    BELOW_FIELD_NUMBER: _ClassVar[int]
    SUM_FIELD_NUMBER: _ClassVar[int]
    ALIVE_FIELD_NUMBER: _ClassVar[int]
    hello: NodeHello
    below: Below
    sum: SumPart
    alive: Alive
    def __init__(self, hello: _Optional[_Union[NodeHello, _Mapping]] = ..., below: _Optional[_Union[Below, _Mapping]] = ..., sum: _Optional[_Union[SumPart, _Mapping]] = ..., alive: _Optional[_Union[Alive, _Mapping]] = ...) -> None: ...

class NodeHello(_message.Message):
    __slots__ = ("name", "federation", "digest", "token", "carries", "version", "held")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FEDERATION_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    CARRIES_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    name: str
    federation: str
    digest: str
    token: str
    carries: _containers.RepeatedScalarFieldContainer[int]
    version: _wire_pb2.Version
    held: _wire_pb2.Held
    def __init__(self, name: _Optional[str] = ..., federation: _Optional[str] = ..., digest: _Optional[str] = ..., token: _Optional[str] = ..., carries: _Optional[_Iterable[int]] = ..., version: _Optional[_Union[_wire_pb2.Version, _Mapping]] = ..., held: _Optional[_Union[_wire_pb2.Held, _Mapping]] = ...) -> None: ...

class Below(_message.Message):
    __slots__ = ("name", "message")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    name: str
    message: _wire_pb2.ToServer
    def __init__(self, name: _Optional[str] = ..., message: _Optional[_Union[_wire_pb2.ToServer, _Mapping]] = ...) -> None: ...

class Pair(_message.Message):
    __slots__ = ("round", "client")
    ROUND_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    round: int
    client: int
    def __init__(self, round: _Optional[int] = ..., client: _Optional[int] = ...) -> None: ...

class SumPart(_message.Message):
    __slots__ = ("id", "pairs", "part")
    ID_FIELD_NUMBER: _ClassVar[int]
    PAIRS_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    id: str
    pairs: _containers.RepeatedCompositeFieldContainer[Pair]
    part: _wire_pb2.UpdatePart
    def __init__(self, id: _Optional[str] = ..., pairs: _Optional[_Iterable[_Union[Pair, _Mapping]]] = ..., part: _Optional[_Union[_wire_pb2.UpdatePart, _Mapping]] = ...) -> None: ...

class Alive(_message.Message):
    __slots__ = ("number", "heard", "nodes")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    HEARD_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    number: int
    heard: _containers.RepeatedScalarFieldContainer[int]
    nodes: _containers.RepeatedCompositeFieldContainer[NodeVersion]
    def __init__(self, number: _Optional[int] = ..., heard: _Optional[_Iterable[int]] = ..., nodes: _Optional[_Iterable[_Union[NodeVersion, _Mapping]]] = ...) -> None: ...

class NodeVersion(_message.Message):
    __slots__ = ("name", "program")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    name: str
    program: str
    def __init__(self, name: _Optional[str] = ..., program: _Optional[str] = ...) -> None: ...

class Down(_message.Message):
    __slots__ = ("welcome", "above", "word", "acks", "refused", "refusal", "ping", "over")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    ABOVE_FIELD_NUMBER: _ClassVar[int]
    WORD_FIELD_NUMBER: _ClassVar[int]
    ACKS_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    OVER_FIELD_NUMBER: _ClassVar[int]
    welcome: NodeWelcome
    above: Above
    word: WordPart
    acks: Acks
    refused: SumRefusal
    refusal: _wire_pb2.Refusal
    ping: _wire_pb2.Ping
    over: Over
    def __init__(self, welcome: _Optional[_Union[NodeWelcome, _Mapping]] = ..., above: _Optional[_Union[Above, _Mapping]] = ..., word: _Optional[_Union[WordPart, _Mapping]] = ..., acks: _Optional[_Union[Acks, _Mapping]] = ..., refused: _Optional[_Union[SumRefusal, _Mapping]] = ..., refusal: _Optional[_Union[_wire_pb2.Refusal, _Mapping]] = ..., ping: _Optional[_Union[_wire_pb2.Ping, _Mapping]] = ..., over: _Optional[_Union[Over, _Mapping]] = ...) -> None: ...

class Over(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class NodeWelcome(_message.Message):
    __slots__ = ("terms", "federation", "version", "held")
    TERMS_FIELD_NUMBER: _ClassVar[int]
    FEDERATION_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    terms: str
    federation: str
    version: _wire_pb2.Version
    held: _wire_pb2.Held
    def __init__(self, terms: _Optional[str] = ..., federation: _Optional[str] = ..., version: _Optional[_Union[_wire_pb2.Version, _Mapping]] = ..., held: _Optional[_Union[_wire_pb2.Held, _Mapping]] = ...) -> None: ...

class Above(_message.Message):
    __slots__ = ("name", "message")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    name: str
    message: _wire_pb2.ToClient
    def __init__(self, name: _Optional[str] = ..., message: _Optional[_Union[_wire_pb2.ToClient, _Mapping]] = ...) -> None: ...

class Yours(_message.Message):
    __slots__ = ("client", "ack")
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    client: int
    ack: _wire_pb2.Ack
    def __init__(self, client: _Optional[int] = ..., ack: _Optional[_Union[_wire_pb2.Ack, _Mapping]] = ...) -> None: ...

class WordPart(_message.Message):
    __slots__ = ("yours", "part")
    YOURS_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    yours: _containers.RepeatedCompositeFieldContainer[Yours]
    part: _wire_pb2.BroadcastPart
    def __init__(self, yours: _Optional[_Iterable[_Union[Yours, _Mapping]]] = ..., part: _Optional[_Union[_wire_pb2.BroadcastPart, _Mapping]] = ...) -> None: ...

class Acks(_message.Message):
    __slots__ = ("yours",)
    YOURS_FIELD_NUMBER: _ClassVar[int]
    yours: _containers.RepeatedCompositeFieldContainer[Yours]
    def __init__(self, yours: _Optional[_Iterable[_Union[Yours, _Mapping]]] = ...) -> None: ...

class SumRefusal(_message.Message):
    __slots__ = ("id", "pairs", "reason")
    ID_FIELD_NUMBER: _ClassVar[int]
    PAIRS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    id: str
    pairs: _containers.RepeatedCompositeFieldContainer[Pair]
    reason: str
    def __init__(self, id: _Optional[str] = ..., pairs: _Optional[_Iterable[_Union[Pair, _Mapping]]] = ..., reason: _Optional[str] = ...) -> None: ...
