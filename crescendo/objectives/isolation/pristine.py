"""Isolate one record from another: put everything that a user's own code can reach back to its state before any record.

A certificate needs that the gradient of a record depends on the model and that record alone. Code may keep records in
its object, in the class, in a global, a closure, a default argument, a cache or a generator of random numbers; a copy
of the object alone leaves most of these shared. It cannot be proved from outside that code never does so, and a check
of some calls would certify a memory that begins later, such as a mean over a million records. Isolation makes memory
harmless: before every call, everything that the code can reach returns to its state at set-up, when the code had seen
terms and made-up records only.

How. `Pristine` follows all that the code of an object or function can name: attributes, slots, classes, the globals
that its functions use, closures, defaults, and modules other than libraries. It notes the contents of each thing that
can change, once, and writes them back in place (`put_back`). Nothing is copied deeply, as the parts of a container
are restored by themselves, and identities stay: two names of one list both see it restored. A thing that Python
cannot open (a tensor, an iterator) is replaced by a deep copy each time. A model is refused at set-up if it keeps a
thing without a copy (a generator, an open file, a connection). An array of more than a megabyte is locked: code that
writes into it fails, and the record counts as a gradient of 0, which depends on that record alone.

Why not a process. A fork for each record would also forget the state that libraries keep in C, but takes 1 ms in a
small process and 4.5 ms beside a gigabyte of records, 10 to 200 times the gradient of a small model, and is unsafe
with the threads of gRPC, torch or XLA. Restoring does not reach the state inside libraries, files, sockets, the
environment, other processes and threads, nor code that hides on purpose (frames, the garbage collector, ctypes).
`history` looks for memory in any of these.
"""

from __future__ import annotations

import copy
import gc
import logging
import random
import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable
from functools import _lru_cache_wrapper, cached_property, partial, partialmethod
from types import (
    BuiltinFunctionType,
    CellType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any
from weakref import ReferenceType

import numpy as np

from crescendo.core.arrays import Array
from crescendo.errors import Refused
from crescendo.objectives.isolation import put_back
from crescendo.objectives.isolation.library_settings import settings
from crescendo.objectives.isolation.put_back import Back, Memo
from crescendo.objectives.isolation.reached_code import (
    all_names,
    global_names,
    imported_modules,
    is_library,
    is_library_class,
    package,
    packages_of,
    stored_names,
    unseen_by,
)
from crescendo.objectives.isolation.reached_code import is_library_module as is_library_of

_LOCKED = 1 << 20  # bytes from which an array is locked and not written back
_MOST = 200_000  # things that can be followed
_ATOMS = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    range,
    slice,
    np.generic,
    np.dtype,
)
_HARMLESS = (type(threading.Lock()), type(threading.RLock()))  # they keep no record
_UNCHANGING = (int, float, complex, str, bytes)  # apart from attributes that a subclass gives them
_ELSEWHERE = ("parent", "manager", "root", "stream", "lock")  # of a logger: parts of other loggers, or without records
_BY_TEXT = frozenset(
    {"getattr", "setattr", "delattr", "vars"}
)  # with these, code names attributes that it does not spell out
_UNLOCKING = frozenset({"setflags", "writeable"})


class Pristine:
    """The state of all that the code of ``roots`` reaches. A ``with`` block begins and ends with that state.

    ``apart`` are things that the caller copies.

    >>> class Mean:
    ...     seen = []
    ...     def gradient(self, x):
    ...         self.seen.append(x)
    ...         return sum(self.seen)
    >>> mean = Mean()
    >>> with Pristine(mean):
    ...     mean.gradient(1), mean.gradient(2)
    (1, 3)
    >>> mean.seen
    []
    """

    def __init__(self, *roots: Any, name: str = "the model", apart: Iterable[Any] = ()) -> None:
        self._name, self._lock = name, threading.RLock()
        self._apart = {id(one): one for one in apart}
        self._met: dict[int, Any] = {}  # kept alive, so that an id stays its own
        self._opaque: set[int] = set()
        self._back: list[Back] = []
        self._locked: list[Array] = []
        self._read_only = False  # True if a read-only array is kept
        self._modules: list[ModuleType] = []
        self._names: set[str] = set()
        self._stored: set[str] = set()  # attribute names that the code sets
        self._own = frozenset(
            name for root in roots for name in packages_of(root)
        )  # an installed model is not a library either
        try:
            for root in roots:
                if self._follow(root, ""):
                    raise self._refused(
                        f"is built on {_kept_in_c(root)}, whose state cannot be put back between records"
                    )
            self._follow_modules()
        except RecursionError:
            raise self._refused("nests what it keeps too deeply to be put back between records") from None
        if (self._locked or self._read_only) and self._names & _UNLOCKING:
            raise self._refused("changes whether arrays may be written, and keeps some that may not")
        self._locked.sort(key=lambda array: not array.flags.owndata)  # a view is unlocked after its base
        self._add_generators()
        self._back += settings(self._names, self.libraries, self._stored)

    @property
    def libraries(self) -> list[ModuleType]:
        """Return the library modules that the code names, which are not followed."""
        return [one for one in self._met.values() if isinstance(one, ModuleType) and self._is_library(one)]

    def _is_library(self, module: ModuleType) -> bool:
        return package(module.__name__) not in self._own and is_library_of(module)

    def in_libraries(self) -> dict[str, dict[str, Any]]:
        """Return the present contents of these modules."""
        return {module.__name__: dict(vars(module)) for module in self.libraries}

    def __enter__(self) -> None:
        self._lock.acquire()
        self.restore()
        for array in self._locked:
            array.flags.writeable = False

    def __exit__(self, *_: object) -> None:
        try:
            for array in self._locked:
                array.flags.writeable = True
            self.restore()
        finally:
            self._lock.release()

    def restore(self) -> None:
        """Put everything back."""
        memo: Memo = {}
        for back in self._back:
            back(memo)

    def _refused(self, says: str) -> Refused:
        return Refused(f"{self._name} {says}, so no privacy can be certified for it")

    # -- following ----------------------------------------------------------------------------------------------------

    def _follow(self, value: Any, where: str) -> bool:
        """Note a value and all that it reaches; return True if it cannot be opened and must be replaced by a copy."""
        if value is put_back.NOTHING or id(value) in self._apart or _is_atom(value):
            return False
        if id(value) in self._met:
            return id(value) in self._opaque
        self._met[id(value)] = value
        if len(self._met) > _MOST:
            raise self._refused(f"reaches more than {_MOST:,} objects, too many to be put back between records")
        if self._noted(value, where):
            return False
        self._opaque.add(id(value))
        self._follow(type(value), where)
        return True

    def _noted(self, value: Any, where: str) -> bool:
        """Note one value by its kind; return False if it cannot be opened."""
        if isinstance(value, tuple | frozenset | MappingProxyType):
            inside = list(value.items()) if isinstance(value, MappingProxyType) else list(value)
            opaque = [self._follow(one, where) for one in inside]
            if type(value) not in (tuple, frozenset, MappingProxyType):
                self._attributes(value, where)
            return not any(opaque)
        for kind, note in _KINDS:
            if isinstance(value, kind):
                note(self, value, where)
                return True
        if isinstance(value, _CONTAINERS):
            self._container(value, where)
            return True
        if _is_plain(type(value)):
            self._attributes(value, where)
            return True
        if hasattr(value, "py_func") or isinstance(getattr(value, "__wrapped__", None), FunctionType):
            self._follow(getattr(value, "py_func", None) or value.__wrapped__, where)  # compiled, or the like
            self._follow(getattr(value, "__dict__", None), where)
            return True
        return self._is_constant(value, where)

    def _is_constant(self, value: Any, where: str) -> bool:
        """Return True if copying returns the thing itself; refuse a thing without copies."""
        if type(value).__module__.partition(".")[0] in ("jaxlib", "_abc"):
            return True  # arrays that cannot change
        try:
            constant = copy.deepcopy(value) is value
        except Exception:
            raise self._kept(value, where) from None
        if constant and not is_library_class(type(value)):  # by its own claim only
            if not isinstance(value, _UNCHANGING):
                raise self._kept(value, where)
            self._attributes(value, where)
        return constant

    def _kept(self, value: Any, where: str) -> Refused:
        return self._refused(
            f"keeps a {type(value).__name__}{f' in {where}' if where else ''}, which cannot be put back before each record "
            "(numbers, arrays, lists and dictionaries can)"
        )

    def _attributes(self, value: Any, where: str) -> None:
        kind = type(value)
        self._follow(kind, where)
        self._back.append(put_back.class_of(value))
        inside = getattr(value, "__dict__", None)
        if isinstance(inside, dict):
            for name, one in inside.items():
                self._follow(one, name)
            self._back += [put_back.mapping(inside, self._opaque), put_back.dictionary_of(value)]
        for base in kind.__mro__:
            for name, slot in vars(base).items() if "__slots__" in vars(base) else ():
                if isinstance(slot, MemberDescriptorType):
                    self._follow(put_back.in_slot(value, slot), name)
                    self._back.append(put_back.slot_of(value, slot, self._opaque))

    def _container(self, value: Any, where: str) -> None:
        for one in value:
            self._follow(one, where)
        if isinstance(value, dict):
            for name, one in dict.items(value):
                self._follow(one, name if isinstance(name, str) else where)
            self._back.append(put_back.mapping(value, self._opaque))
        elif isinstance(value, set):
            self._back.append(put_back.elements(value, self._opaque))
        else:
            self._back.append(put_back.sequence(value, self._opaque))
        if type(value) not in (*_CONTAINERS, OrderedDict):
            self._attributes(value, where)
            self._follow(getattr(value, "default_factory", None), where)

    def _array(self, array: Array, where: str) -> None:
        if array.dtype.hasobject:
            for one in array.flat:
                self._follow(one, where)
        if type(array) is not np.ndarray:
            self._attributes(array, where)
        if isinstance(array.base, np.ndarray):
            self._follow(array.base, where)
        if (array.flags.writeable and array.nbytes <= _LOCKED) or array.dtype.hasobject:
            self._back.append(put_back.numbers(array, self._opaque))
            return
        self._back.append(put_back.layout(array))
        if array.flags.writeable:
            self._locked.append(array)
        else:
            self._read_only = True

    def _function(self, function: FunctionType, where: str) -> None:
        code, name = function.__code__, function.__name__
        for cell in function.__closure__ or ():
            self._follow(cell, where)
        self._follow(function.__dict__, name)
        if is_library(code.co_filename) and package(function.__module__) not in self._own:
            return
        if (unseen := unseen_by(code, function.__globals__)) is not None:
            raise self._refused(f"uses {unseen} in {name}, with which code may keep what cannot be seen")
        self._follow(function.__defaults__, name)
        self._follow(function.__kwdefaults__, name)
        self._back.append(put_back.function(function, self._opaque))
        self._names |= all_names(code)
        self._stored |= stored_names(code)
        self._named(function.__globals__, global_names(code))
        for imported in imported_modules(code, function.__globals__.get("__package__")):
            self._follow(imported, imported.__name__)

    def _cell(self, cell: CellType, where: str) -> None:
        self._follow(put_back.in_cell(cell), where)
        self._back.append(put_back.cell(cell, self._opaque))

    def _named(self, inside: dict[str, Any], names: Collection[str]) -> None:
        """Follow these names of a module, some of which may not exist yet."""
        for name in names & inside.keys():
            self._follow(inside[name], name)
        self._back.append(put_back.names(inside, names, self._opaque))

    def _class(self, kind: type, where: str) -> None:
        for base in kind.__mro__[1:]:
            self._follow(base, where)
        if is_library_class(kind) and package(kind.__module__) not in self._own:
            return
        self._follow(type(kind), where)
        for name, one in vars(kind).items():
            if name not in put_back.SKIPPED:
                self._follow(one, name)
        self._follow(vars(kind).get("__annotations__"), where)
        self._back.append(put_back.own_attributes(kind, self._opaque))

    def _module(self, module: ModuleType, where: str) -> None:
        if not self._is_library(module):
            self._modules.append(module)

    def _follow_modules(self) -> None:
        """Follow the attributes of the user's modules that any of the code names, until no new names appear."""
        done = -1
        while done != (done := len(self._names) + len(self._modules)):
            for module in tuple(self._modules):
                for name in self._attributes_of(module):
                    self._follow(vars(module).get(name), f"{module.__name__}.{name}")
        for module in self._modules:
            self._named(vars(module), frozenset(self._names | self._attributes_of(module)))
            if self._names & _BY_TEXT:
                self._back.append(put_back.no_more(vars(module)))

    def _attributes_of(self, module: ModuleType) -> set[str]:
        """Return the attributes that the code may reach: those it names, or all if it can reach unnamed ones."""
        named = self._names & vars(module).keys()
        if not self._names & _BY_TEXT:
            return named
        own = (name for name, one in vars(module).items() if not (name.startswith("__") or isinstance(one, ModuleType)))
        return named | set(own)

    def _cache(self, cache: Any, where: str) -> None:
        self._follow(cache.__wrapped__, where)
        self._follow(cache.__dict__, where)
        code = getattr(cache.__wrapped__, "__code__", None)
        if code and (not is_library(code.co_filename) or package(cache.__wrapped__.__module__) in self._own):
            self._back.append(lambda memo: cache.cache_clear())

    def _parts(self, value: Any, where: str) -> None:
        """Follow the functions and arguments that a method, a property or a partial is made of."""
        for name in ("__func__", "__self__", "fget", "fset", "fdel", "func", "args", "keywords", "__dict__"):
            if self._follow(getattr(value, name, None), where):
                raise self._refused(
                    f"keeps a method of {where or 'an object'} that cannot be put back before each record"
                )

    def _reference(self, reference: Any, where: str) -> None:
        kept = reference()
        if not self._follow(kept, where):
            return
        torch = sys.modules.get("torch")
        if torch is None or not isinstance(kept, torch.Tensor) or isinstance(kept, torch.nn.UninitializedParameter):
            raise self._kept(reference, where)
        self._back.append(put_back.tensor(kept))  # as an LSTM refers to its weights

    def _universal(self, function: np.ufunc, where: str) -> None:
        """Follow the Python function behind a numpy ufunc, if any; only the garbage collector can find it."""
        for one in gc.get_referents(function):
            self._follow(one, where)

    def _log(self, log: Any, where: str) -> None:
        """Follow a library's logger or handler: its settings and records; a user's handlers may keep anything too."""
        if not is_library_class(type(log)):
            self._attributes(log, where)
            return
        for name, one in vars(log).items():
            if name not in _ELSEWHERE and (isinstance(one, _CONTAINERS) or not is_library_class(type(one))):
                self._follow(one, name)
        self._back.append(put_back.mapping(vars(log), self._opaque))

    # -- generators of random numbers ---------------------------------------------------------------------------------

    def _bits(self, generator: Any, where: str) -> None:
        self._back.append(put_back.bits(generator))

    def _python_random(self, generator: random.Random, where: str) -> None:
        if not isinstance(generator, random.SystemRandom):
            saved = generator.getstate()
            self._back.append(lambda memo: generator.setstate(saved))
        if type(generator) not in (random.Random, random.SystemRandom):
            self._attributes(generator, where)

    def _add_generators(self) -> None:
        """Add the global generators of the libraries that the code names."""
        if "random" in self._names or "seed" in self._names:
            self._bits(np.random.mtrand._rand, "numpy.random")
            self._python_random(getattr(random, "_inst"), "random")  # noqa: B009 (no stub has it)
        torch = sys.modules.get("torch")
        if torch is not None and torch in self.libraries:
            state = torch.get_rng_state()
            self._back.append(lambda memo: torch.set_rng_state(state))


_CONTAINERS = (list, dict, set, deque, bytearray)
_KINDS: tuple[tuple[Any, Callable[[Pristine, Any, str], None]], ...] = (
    (type, Pristine._class),
    (FunctionType, Pristine._function),
    (ModuleType, Pristine._module),
    (CellType, Pristine._cell),
    (ReferenceType, Pristine._reference),
    (np.ufunc, Pristine._universal),
    ((logging.Logger, logging.Handler), Pristine._log),
    (np.ndarray, Pristine._array),
    (_lru_cache_wrapper, Pristine._cache),
    ((np.random.Generator, np.random.BitGenerator, np.random.RandomState), Pristine._bits),
    (random.Random, Pristine._python_random),
    (
        (MethodType, BuiltinFunctionType, staticmethod, classmethod, property, cached_property, partial, partialmethod),
        Pristine._parts,
    ),
    ((GetSetDescriptorType, MemberDescriptorType), lambda *_: None),
)


def _is_atom(value: Any) -> bool:
    """Return True if a value cannot change, or cannot keep a record; a user's subclass of such a type may."""
    kind = type(value)
    return (
        kind in _ATOMS
        or kind in _HARMLESS  # by identity: a subclass may keep records
        or isinstance(value, np.generic | np.dtype)
    )


def _kept_in_c(value: Any) -> str:
    """Return the Python or library class on which a user's object is built."""
    return next(kind.__name__ for kind in type(value).__mro__ if is_library_class(kind))


def _is_plain(kind: type) -> bool:
    """Return True if objects of the class have only attributes and slots, and no state in C."""
    made = [base for base in kind.__mro__ if "__slots__" in vars(base)]
    slots = sum(isinstance(slot, MemberDescriptorType) for base in made for slot in vars(base).values())
    extra = slots + (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0)
    return kind.__itemsize__ == 0 and kind.__basicsize__ <= object.__basicsize__ + 8 * extra
