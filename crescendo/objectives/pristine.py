"""A user's own code as it was before it saw any record, and the way back to that: what isolates one record from another.

A certificate needs that the gradient of a record depends on the model and that record alone. Code may keep what it has seen in
its object, in the class, in a global, a closure, a default argument, a cache or a generator of random numbers; a copy of the
object alone leaves most of these shared. That code never does so cannot be proved from outside, and what a check of some calls
does not reach (a mean that begins to count after a million records) would be certified. So it is made harmless: before every
call, everything that the code can reach is put back to what it was at set-up, when there had been terms and made-up records only.

How. From the object (or function) all that its code can name is followed: attributes, slots, classes, the globals that its
functions use, closures, defaults, modules that are no library. Each thing on the way that can change has a note of its contents,
taken once; restoring writes them back in place. Nothing is copied deeply, as the parts of a container are restored by themselves,
and identities stay: of two names of one list both see it restored. What Python cannot open (a tensor, an iterator) is replaced by
a deep copy of the first one each time. Of what has no copy (a generator, an open file, a connection) the model is refused at set-up.
An array of more than a megabyte is not written back but locked: code that writes into it fails, which is a gradient of 0 that
depends on that record alone.

Why not a process. A fork for each record would forget even what libraries keep in C, but takes 1 ms where the process is small and
4.5 ms beside a gigabyte of records, 50 to 200 times the gradient of a small model, and is unsafe beside the threads of gRPC, torch or
XLA. What is left out by restoring: what libraries keep inside themselves, files, sockets, the environment, other processes and
threads, and code that hides on purpose (frames, the garbage collector, ctypes). `history` looks for the first of these at set-up.
"""

from __future__ import annotations

import copy
import logging
import random
import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
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

from crescendo.errors import Refused
from crescendo.objectives.reached_code import UNSEEN, all_names, global_names, is_library, is_library_class
from crescendo.objectives.reached_code import is_library_module as is_library_of

_LOCKED = 1 << 20  # bytes from which an array is locked in place of written back
_MOST = 200_000  # things that can be followed
_NOTHING = object()
_ATOMS = (type(None), bool, int, float, complex, str, bytes, range, slice, np.generic, np.dtype, np.ufunc, ReferenceType)
_HARMLESS = (logging.Logger, logging.Handler, type(threading.Lock()), type(threading.RLock()))  # they keep no record
_SKIPPED = {"__dict__", "__weakref__", "__annotations__", "__doc__", "__module__", "_abc_impl"}

_Memo = dict[int, Any]
_Back = Callable[[_Memo], None]


class Pristine:
    """All that the code of ``roots`` reaches, as it is now. A ``with`` block begins and ends with it as it was.

    ``apart`` are things that the caller copies by itself.

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
        self._back: list[_Back] = []
        self._locked: list[np.ndarray] = []
        self._modules: list[ModuleType] = []
        self._names: set[str] = set()
        try:
            for root in roots:
                self._follow(root, "")
            self._follow_modules()
        except RecursionError:
            raise self._refused("nests what it keeps too deeply to be put back between records") from None
        self._locked.sort(key=lambda array: not array.flags.owndata)  # a view is unlocked after what it is a view of
        self._add_generators()

    @property
    def libraries(self) -> list[ModuleType]:
        """The modules of others that the code names, which are left as they are."""
        return [one for one in self._met.values() if isinstance(one, ModuleType) and is_library_of(one)]

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
        memo: _Memo = {}
        for back in self._back:
            back(memo)

    def _refused(self, says: str) -> Refused:
        return Refused(f"{self._name} {says}, so no privacy can be certified for it")

    # -- what is followed ---------------------------------------------------------------------------------------------

    def _follow(self, value: Any, where: str) -> bool:
        """Take note of a value and of all that it reaches. Whether it must be replaced by a copy, as it cannot be opened."""
        if isinstance(value, _ATOMS + _HARMLESS) or id(value) in self._apart:
            return False
        if id(value) in self._met:
            return id(value) in self._opaque
        self._met[id(value)] = value
        if len(self._met) > _MOST:
            raise self._refused(f"reaches more than {_MOST:,} objects, too many to be put back between records")
        if self._noted(value, where):
            return False
        self._opaque.add(id(value))
        return True

    def _noted(self, value: Any, where: str) -> bool:
        """Take note of one value by its kind. False of one that cannot be opened."""
        if isinstance(value, tuple | frozenset | MappingProxyType):
            inside = list(value.items()) if isinstance(value, MappingProxyType) else list(value)
            opaque = [self._follow(one, where) for one in inside]
            return not any(opaque)
        for kind, note in _KINDS:
            if isinstance(value, kind):
                note(self, value, where)
                return True
        if isinstance(value, _Container):
            self._container(value, where)
            return True
        if hasattr(value, "py_func") or isinstance(getattr(value, "__wrapped__", None), FunctionType):
            self._follow(getattr(value, "py_func", None) or value.__wrapped__, where)  # compiled, or the like
            return True
        if _is_plain(type(value)):
            self._attributes(value, where)
            return True
        return self._is_constant(value, where)

    def _is_constant(self, value: Any, where: str) -> bool:
        """Whether copies are the thing itself; refused if there are none."""
        if type(value).__module__.partition(".")[0] in ("jaxlib", "_abc"):
            return True  # arrays that cannot change
        try:
            return copy.deepcopy(value) is value
        except Exception:
            kind = type(value).__name__
            raise self._refused(
                f"keeps {'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}{f' in {where}' if where else ''}, which cannot be put back to what "
                "it was before each record; let it keep numbers, arrays, lists and dictionaries"
            ) from None

    def _attributes(self, value: Any, where: str) -> None:
        kind = type(value)
        self._follow(kind, where)
        inside = getattr(value, "__dict__", None)
        if isinstance(inside, dict):
            for name, one in inside.items():
                self._follow(one, name)
            self._mapping(inside)
            self._back.append(lambda memo: _hold(value, inside))
        for base in kind.__mro__:
            for name, slot in vars(base).items():
                if isinstance(slot, MemberDescriptorType) and "__slots__" in vars(base):
                    self._slot(value, slot, name)

    def _slot(self, value: Any, slot: MemberDescriptorType, name: str) -> None:
        try:
            saved = slot.__get__(value)
        except AttributeError:
            saved = _NOTHING
        copied = self._follow(saved, name) if saved is not _NOTHING else False

        def back(memo: _Memo) -> None:
            if saved is not _NOTHING:
                slot.__set__(value, copy.deepcopy(saved, memo) if copied else saved)
                return
            try:
                slot.__delete__(value)
            except AttributeError:
                pass

        self._back.append(back)

    def _container(self, value: Any, where: str) -> None:
        for one in value:
            self._follow(one, where)
        if isinstance(value, dict):
            for name, one in dict.items(value):
                self._follow(one, name if isinstance(name, str) else where)
            self._mapping(value)
        elif isinstance(value, set):
            self._set(value)
        else:
            self._sequence(value)
        if type(value) not in (list, dict, set, deque, bytearray, OrderedDict):
            self._attributes(value, where)
            if hasattr(value, "default_factory"):
                self._follow(value.default_factory, where)

    def _mapping(self, inside: dict[Any, Any]) -> None:
        kind: Any = OrderedDict if isinstance(inside, OrderedDict) else dict
        saved = list(kind.items(inside))
        keys, values = tuple(id(key) for key, _ in saved), tuple(id(one) for _, one in saved)
        copied = [(key, one) for key, one in saved if id(one) in self._opaque]

        def back(memo: _Memo) -> None:
            if tuple(map(id, kind.values(inside))) != values or tuple(map(id, kind.keys(inside))) != keys:
                kind.clear(inside)
                for key, one in saved:
                    kind.__setitem__(inside, key, one)
            for key, one in copied:
                kind.__setitem__(inside, key, copy.deepcopy(one, memo))

        self._back.append(back)

    def _sequence(self, inside: Any) -> None:
        kind = next(base for base in (list, deque, bytearray) if isinstance(inside, base))
        saved = kind(inside)
        places = [k for k, one in enumerate(saved) if id(one) in self._opaque]

        def back(memo: _Memo) -> None:
            kind.clear(inside)
            kind.extend(inside, saved)  # type: ignore[arg-type]
            for k in places:
                inside[k] = copy.deepcopy(saved[k], memo)

        self._back.append(back)

    def _set(self, inside: set[Any]) -> None:
        saved = set(inside)
        copied = {one for one in saved if id(one) in self._opaque}

        def back(memo: _Memo) -> None:
            set.clear(inside)
            set.update(inside, saved - copied, [copy.deepcopy(one, memo) for one in copied])

        self._back.append(back)

    def _array(self, array: np.ndarray, where: str) -> None:
        if array.dtype.hasobject:
            for one in array.flat:
                self._follow(one, where)
        if type(array) is not np.ndarray:
            self._attributes(array, where)
        if not array.flags.writeable:
            return
        if array.nbytes > _LOCKED:
            self._locked.append(array)
            return
        saved = np.array(array, copy=True, subok=False)

        def back(memo: _Memo) -> None:
            if not array.flags.writeable:
                array.flags.writeable = True
            if array.dtype != saved.dtype:
                array.dtype = saved.dtype
            if array.shape != saved.shape:
                array.resize(saved.shape, refcheck=False)
            array[...] = saved

        self._back.append(back)

    def _function(self, function: FunctionType, where: str) -> None:
        code = function.__code__
        for cell in function.__closure__ or ():
            self._follow(cell, where)
        self._follow(function.__dict__, function.__name__)
        if is_library(code.co_filename):
            return
        if unseen := UNSEEN & (global_names(code) - function.__globals__.keys()):
            raise self._refused(f"uses {min(unseen)} in {function.__name__}, with which code may keep what no one can see")
        defaults, by_name = function.__defaults__, function.__kwdefaults__
        copied = self._follow(defaults, function.__name__)
        if by_name is not None:
            self._follow(by_name, function.__name__)

        def back(memo: _Memo) -> None:
            if function.__defaults__ is not defaults or copied:
                function.__defaults__ = copy.deepcopy(defaults, memo) if copied else defaults
            if function.__kwdefaults__ is not by_name:
                function.__kwdefaults__ = by_name
            if function.__code__ is not code:
                function.__code__ = code

        self._back.append(back)
        self._names |= all_names(code)
        self._named(function.__globals__, global_names(code))
        for name in all_names(code):
            if isinstance(sys.modules.get(name), ModuleType) and name not in function.__globals__:
                self._follow(sys.modules[name], name)  # which the function imports itself

    def _cell(self, cell: CellType, where: str) -> None:
        try:
            saved = cell.cell_contents
        except ValueError:
            saved = _NOTHING
        copied = self._follow(saved, where) if saved is not _NOTHING else False

        def back(memo: _Memo) -> None:
            if saved is _NOTHING:
                del cell.cell_contents
            else:
                cell.cell_contents = copy.deepcopy(saved, memo) if copied else saved

        self._back.append(back)

    def _named(self, inside: dict[str, Any], names: Iterable[str]) -> None:
        """These names of a module, some of which may not be there yet."""
        saved = [(name, inside.get(name, _NOTHING)) for name in names]
        for name, one in saved:
            if one is not _NOTHING:
                self._follow(one, name)
        copied = {name for name, one in saved if id(one) in self._opaque}

        def back(memo: _Memo) -> None:
            for name, one in saved:
                if name in copied:
                    inside[name] = copy.deepcopy(one, memo)
                elif inside.get(name, _NOTHING) is not one:
                    if one is _NOTHING:
                        del inside[name]
                    else:
                        inside[name] = one

        self._back.append(back)

    def _class(self, kind: type, where: str) -> None:
        for base in kind.__mro__[1:]:
            self._follow(base, where)
        if is_library_class(kind):
            return
        self._follow(type(kind), where)
        saved = {name: one for name, one in vars(kind).items() if name not in _SKIPPED}
        for name, one in saved.items():
            self._follow(one, name)
        copied = {name: one for name, one in saved.items() if id(one) in self._opaque}

        def back(memo: _Memo) -> None:
            now = vars(kind)
            for name in [name for name in now if name not in saved and name not in _SKIPPED]:
                type.__delattr__(kind, name)
            for name, one in saved.items():
                if name in copied or now.get(name, _NOTHING) is not one:
                    type.__setattr__(kind, name, copy.deepcopy(one, memo) if name in copied else one)

        self._back.append(back)

    def _module(self, module: ModuleType, where: str) -> None:
        if not is_library_of(module):
            self._modules.append(module)

    def _follow_modules(self) -> None:
        """The attributes of the user's own modules that any of the code names; what is found there may name more."""
        done = -1
        while done != (done := len(self._names) + len(self._modules)):
            for module in tuple(self._modules):
                for name in self._names & vars(module).keys():
                    self._follow(vars(module)[name], f"{module.__name__}.{name}")
        for module in self._modules:
            self._named(vars(module), tuple(self._names))

    def _cache(self, cache: Any, where: str) -> None:
        self._follow(cache.__wrapped__, where)
        if getattr(cache.__wrapped__, "__code__", None) and not is_library(cache.__wrapped__.__code__.co_filename):
            self._back.append(lambda memo: cache.cache_clear())

    def _parts(self, value: Any, where: str) -> None:
        """What is made of functions: they cannot be set, and what they are made of is followed."""
        for name in ("__func__", "__self__", "fget", "fset", "fdel", "func", "args", "keywords", "__dict__"):
            if self._follow(getattr(value, name, None), where):
                raise self._refused(f"keeps a method of {where or 'an object'} that cannot be put back before each record")

    # -- generators of random numbers ---------------------------------------------------------------------------------

    def _bits(self, generator: Any, where: str) -> None:
        bits = getattr(generator, "bit_generator", None) or getattr(generator, "_bit_generator", generator)
        saved = copy.deepcopy(bits.state)

        def back(memo: _Memo) -> None:
            bits.state = saved

        self._back.append(back)

    def _python_random(self, generator: random.Random, where: str) -> None:
        if not isinstance(generator, random.SystemRandom):
            saved = generator.getstate()
            self._back.append(lambda memo: generator.setstate(saved))
        if type(generator) not in (random.Random, random.SystemRandom):
            self._attributes(generator, where)

    def _add_generators(self) -> None:
        """Those of the libraries that the code names, which belong to all."""
        if "random" in self._names or "seed" in self._names:
            self._bits(np.random.mtrand._rand, "numpy.random")  # type: ignore[attr-defined]
            self._python_random(random._inst, "random")  # type: ignore[attr-defined]
        torch = sys.modules.get("torch")
        if torch is not None and torch in self.libraries:
            state = torch.get_rng_state()
            self._back.append(lambda memo: torch.set_rng_state(state))


_Container = (list, dict, set, deque, bytearray)
_KINDS: tuple[tuple[Any, Callable[[Pristine, Any, str], None]], ...] = (
    (type, Pristine._class),
    (FunctionType, Pristine._function),
    (ModuleType, Pristine._module),
    (CellType, Pristine._cell),
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


def _hold(value: Any, inside: dict[str, Any]) -> None:
    if value.__dict__ is not inside:
        value.__dict__ = inside


def _is_plain(kind: type) -> bool:
    """Whether an object of the class has attributes and slots, and nothing that is kept in C."""
    made = [base for base in kind.__mro__ if "__slots__" in vars(base)]
    slots = sum(isinstance(slot, MemberDescriptorType) for base in made for slot in vars(base).values())
    extra = slots + (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0)
    return kind.__itemsize__ == 0 and kind.__basicsize__ <= object.__basicsize__ + 8 * extra
