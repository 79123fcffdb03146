# ruff: noqa
# fmt: off
# mypy: disable-error-code="type-arg"
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Floats(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    UNSTATED: _ClassVar[Floats]
    FLOAT32: _ClassVar[Floats]
    FLOAT64: _ClassVar[Floats]
    FLOAT16: _ClassVar[Floats]
    BFLOAT16: _ClassVar[Floats]
UNSTATED: Floats
FLOAT32: Floats
FLOAT64: Floats
FLOAT16: Floats
BFLOAT16: Floats

class Settled(_message.Message):
    __slots__ = ("below", "beyond", "ranges")
    BELOW_FIELD_NUMBER: _ClassVar[int]
    BEYOND_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    below: int
    beyond: _containers.RepeatedScalarFieldContainer[int]
    ranges: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, below: _Optional[int] = ..., beyond: _Optional[_Iterable[int]] = ..., ranges: _Optional[_Iterable[int]] = ...) -> None: ...

class Part(_message.Message):
    __slots__ = ("about", "part", "parts", "floats", "numbers", "data", "whole")
    ABOUT_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    FLOATS_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    WHOLE_FIELD_NUMBER: _ClassVar[int]
    about: int
    part: int
    parts: int
    floats: Floats
    numbers: int
    data: bytes
    whole: bytes
    def __init__(self, about: _Optional[int] = ..., part: _Optional[int] = ..., parts: _Optional[int] = ..., floats: _Optional[_Union[Floats, str]] = ..., numbers: _Optional[int] = ..., data: _Optional[bytes] = ..., whole: _Optional[bytes] = ...) -> None: ...

class Held(_message.Message):
    __slots__ = ("about", "length", "sha256")
    ABOUT_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    about: int
    length: int
    sha256: bytes
    def __init__(self, about: _Optional[int] = ..., length: _Optional[int] = ..., sha256: _Optional[bytes] = ...) -> None: ...

class Version(_message.Message):
    __slots__ = ("program", "lowest", "highest", "build")
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    LOWEST_FIELD_NUMBER: _ClassVar[int]
    HIGHEST_FIELD_NUMBER: _ClassVar[int]
    BUILD_FIELD_NUMBER: _ClassVar[int]
    program: str
    lowest: int
    highest: int
    build: str
    def __init__(self, program: _Optional[str] = ..., lowest: _Optional[int] = ..., highest: _Optional[int] = ..., build: _Optional[str] = ...) -> None: ...

class ToServer(_message.Message):
    __slots__ = ("hello", "update", "void", "leave", "pong")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    VOID_FIELD_NUMBER: _ClassVar[int]
    LEAVE_FIELD_NUMBER: _ClassVar[int]
    PONG_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    update: UpdatePart
    void: Void
    leave: Leave
    pong: Pong
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., update: _Optional[_Union[UpdatePart, _Mapping]] = ..., void: _Optional[_Union[Void, _Mapping]] = ..., leave: _Optional[_Union[Leave, _Mapping]] = ..., pong: _Optional[_Union[Pong, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("name", "instance", "federation", "digest", "last", "epoch", "k", "acknowledged", "token", "version", "held", "in_memory")
    NAME_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    FEDERATION_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    K_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    IN_MEMORY_FIELD_NUMBER: _ClassVar[int]
    name: str
    instance: str
    federation: str
    digest: str
    last: int
    epoch: int
    k: int
    acknowledged: Settled
    token: str
    version: Version
    held: Held
    in_memory: bool
    def __init__(self, name: _Optional[str] = ..., instance: _Optional[str] = ..., federation: _Optional[str] = ..., digest: _Optional[str] = ..., last: _Optional[int] = ..., epoch: _Optional[int] = ..., k: _Optional[int] = ..., acknowledged: _Optional[_Union[Settled, _Mapping]] = ..., token: _Optional[str] = ..., version: _Optional[_Union[Version, _Mapping]] = ..., held: _Optional[_Union[Held, _Mapping]] = ..., in_memory: bool = ...) -> None: ...

class UpdatePart(_message.Message):
    __slots__ = ("federation", "digest", "vector")
    FEDERATION_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    VECTOR_FIELD_NUMBER: _ClassVar[int]
    federation: str
    digest: str
    vector: Part
    def __init__(self, federation: _Optional[str] = ..., digest: _Optional[str] = ..., vector: _Optional[_Union[Part, _Mapping]] = ...) -> None: ...

class Void(_message.Message):
    __slots__ = ("round", "federation", "digest")
    ROUND_FIELD_NUMBER: _ClassVar[int]
    FEDERATION_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    round: int
    federation: str
    digest: str
    def __init__(self, round: _Optional[int] = ..., federation: _Optional[str] = ..., digest: _Optional[str] = ...) -> None: ...

class Leave(_message.Message):
    __slots__ = ("reason", "finished")
    REASON_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    reason: str
    finished: bool
    def __init__(self, reason: _Optional[str] = ..., finished: bool = ...) -> None: ...

class Pong(_message.Message):
    __slots__ = ("number",)
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    number: int
    def __init__(self, number: _Optional[int] = ...) -> None: ...

class ToClient(_message.Message):
    __slots__ = ("welcome", "broadcast", "ack", "refusal", "ping")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    BROADCAST_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    broadcast: BroadcastPart
    ack: Ack
    refusal: Refusal
    ping: Ping
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., broadcast: _Optional[_Union[BroadcastPart, _Mapping]] = ..., ack: _Optional[_Union[Ack, _Mapping]] = ..., refusal: _Optional[_Union[Refusal, _Mapping]] = ..., ping: _Optional[_Union[Ping, _Mapping]] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("terms", "federation", "epoch", "client", "start", "received", "version", "held")
    TERMS_FIELD_NUMBER: _ClassVar[int]
    FEDERATION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    terms: str
    federation: str
    epoch: int
    client: int
    start: int
    received: Settled
    version: Version
    held: Held
    def __init__(self, terms: _Optional[str] = ..., federation: _Optional[str] = ..., epoch: _Optional[int] = ..., client: _Optional[int] = ..., start: _Optional[int] = ..., received: _Optional[_Union[Settled, _Mapping]] = ..., version: _Optional[_Union[Version, _Mapping]] = ..., held: _Optional[_Union[Held, _Mapping]] = ...) -> None: ...

class BroadcastPart(_message.Message):
    __slots__ = ("epoch", "yours", "vector")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    YOURS_FIELD_NUMBER: _ClassVar[int]
    VECTOR_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    yours: Settled
    vector: Part
    def __init__(self, epoch: _Optional[int] = ..., yours: _Optional[_Union[Settled, _Mapping]] = ..., vector: _Optional[_Union[Part, _Mapping]] = ...) -> None: ...

class Ack(_message.Message):
    __slots__ = ("yours", "epoch")
    YOURS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    yours: Settled
    epoch: int
    def __init__(self, yours: _Optional[_Union[Settled, _Mapping]] = ..., epoch: _Optional[int] = ...) -> None: ...

class Refusal(_message.Message):
    __slots__ = ("reason", "final", "round")
    REASON_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    reason: str
    final: bool
    round: int
    def __init__(self, reason: _Optional[str] = ..., final: bool = ..., round: _Optional[int] = ...) -> None: ...

class Ping(_message.Message):
    __slots__ = ("number",)
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    number: int
    def __init__(self, number: _Optional[int] = ...) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ("token",)
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    token: str
    def __init__(self, token: _Optional[str] = ...) -> None: ...

class StatusReply(_message.Message):
    __slots__ = ("json",)
    JSON_FIELD_NUMBER: _ClassVar[int]
    json: str
    def __init__(self, json: _Optional[str] = ...) -> None: ...
