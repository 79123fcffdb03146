"""Put each kind of thing back in place: note its contents, and return a function that restores them.

The parts of a container are restored separately, so a note is shallow. Things in ``opaque``, by id, cannot be
restored: a deep copy replaces them each time; one ``memo`` for all copies of a restore keeps two names of one thing
identical.
"""

from __future__ import annotations

import copy
import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Collection
from operator import is_
from types import CellType, FunctionType, MemberDescriptorType
from typing import Any, TypeAlias

import numpy as np

from crescendo.core.arrays import Array

Memo: TypeAlias = dict[int, Any]
Back: TypeAlias = Callable[[Memo], None]
NOTHING = object()
SKIPPED = frozenset({"__dict__", "__weakref__", "__annotations__", "__doc__", "__module__", "_abc_impl"})  # of a class


def mapping(inside: dict[Any, Any], opaque: Collection[int]) -> Back:
    """A dictionary, by the identity of its keys and values: equal numbers may differ in their type or sign."""
    kind: Any = OrderedDict if isinstance(inside, OrderedDict) else dict
    saved = list(kind.items(inside))
    keys, values = tuple(id(key) for key, _ in saved), tuple(id(one) for _, one in saved)
    copied = [(key, one) for key, one in saved if id(one) in opaque]
    changing = any(id(key) in opaque for key, _ in saved)

    def back(memo: Memo) -> None:
        if changing:
            made = [(copy.deepcopy(key, memo) if id(key) in opaque else key, one) for key, one in saved]
            kind.clear(inside)
            for key, one in made:
                kind.__setitem__(inside, key, copy.deepcopy(one, memo) if id(one) in opaque else one)
            return
        if tuple(map(id, kind.values(inside))) != values or tuple(map(id, kind.keys(inside))) != keys:
            kind.clear(inside)
            for key, one in saved:
                kind.__setitem__(inside, key, one)
        for key, one in copied:
            kind.__setitem__(inside, key, copy.deepcopy(one, memo))

    return back


def sequence(inside: Any, opaque: Collection[int]) -> Back:
    """A list, a deque or a bytearray."""
    kind: Any = next(base for base in (list, deque, bytearray) if isinstance(inside, base))
    saved = kind(inside)
    places = [k for k, one in enumerate(saved) if id(one) in opaque]

    def back(memo: Memo) -> None:
        if len(inside) != len(saved) or not all(map(is_, kind.__iter__(inside), saved)):
            kind.clear(inside)
            kind.extend(inside, saved)
        for k in places:
            inside[k] = copy.deepcopy(saved[k], memo)

    return back


def elements(inside: set[Any], opaque: Collection[int]) -> Back:
    """A set."""
    saved = set(inside)
    copied = {one for one in saved if id(one) in opaque}

    def back(memo: Memo) -> None:
        set.clear(inside)
        set.update(inside, saved - copied, [copy.deepcopy(one, memo) for one in copied])

    return back


def tensor(one: Any) -> Back:
    """A torch tensor that other objects refer to, so that a copy cannot replace it."""
    torch: Any = sys.modules["torch"]
    saved = one.detach().clone()

    def back(memo: Memo) -> None:
        if not torch.equal(one, saved):
            with torch.no_grad():
                one.copy_(saved)

    return back


def numbers(array: Array, opaque: Collection[int]) -> Back:
    """An array: its numbers or objects, and its type and shape."""
    saved, whole = np.array(array, copy=True, subok=False), array
    places = [k for k, one in enumerate(saved.flat) if id(one) in opaque] if saved.dtype.hasobject else []
    writeable = array.flags.writeable

    def back(memo: Memo) -> None:
        now: Any = whole
        if not now.flags.writeable:
            now.flags.writeable = True
        if now.dtype != saved.dtype:
            now.dtype = saved.dtype
        if now.shape != saved.shape:
            now.resize(saved.shape, refcheck=False)
        now[...] = saved
        for k in places:
            now.flat[k] = copy.deepcopy(saved.flat[k], memo)
        now.flags.writeable = writeable

    return back


def layout(array: Array) -> Back:
    """The type and shape of an array whose numbers cannot change."""
    dtype, shape, whole = array.dtype, array.shape, array

    def back(memo: Memo) -> None:
        now: Any = whole
        if now.dtype != dtype:
            now.dtype = dtype
        if now.shape != shape:
            now.shape = shape

    return back


def no_more(inside: dict[str, Any]) -> Back:
    """Names to remove from a module that did not have them."""
    saved = frozenset(inside)

    def back(memo: Memo) -> None:
        for name in inside.keys() - saved:
            del inside[name]

    return back


def names(inside: dict[str, Any], wanted: Collection[str], opaque: Collection[int]) -> Back:
    """Some names of a module, not all of which may exist yet."""
    saved = [(name, inside.get(name, NOTHING)) for name in wanted]
    copied = {name for name, one in saved if id(one) in opaque}

    def back(memo: Memo) -> None:
        for name, one in saved:
            if name in copied:
                inside[name] = copy.deepcopy(one, memo)
            elif inside.get(name, NOTHING) is not one:
                if one is NOTHING:
                    del inside[name]
                else:
                    inside[name] = one

    return back


def own_attributes(kind: type, opaque: Collection[int]) -> Back:
    """The attributes of a class, and its bases."""
    bases, says = kind.__bases__, kind.__doc__
    saved = {name: one for name, one in vars(kind).items() if name not in SKIPPED}
    copied = {name for name, one in saved.items() if id(one) in opaque}

    def back(memo: Memo) -> None:
        if kind.__bases__ != bases:
            kind.__bases__ = bases
        if kind.__doc__ is not says:
            kind.__doc__ = says
        now = vars(kind)
        for name in [name for name in now if name not in saved and name not in SKIPPED]:
            type.__delattr__(kind, name)
        for name, one in saved.items():
            if name in copied or now.get(name, NOTHING) is not one:
                type.__setattr__(kind, name, copy.deepcopy(one, memo) if name in copied else one)

    return back


def class_of(value: Any) -> Back:
    """The class of an object, which code may change."""
    kind = type(value)

    def back(memo: Memo) -> None:
        if type(value) is not kind:
            object.__setattr__(value, "__class__", kind)

    return back


def dictionary_of(value: Any) -> Back:
    """The attribute dictionary of an object; its contents are restored separately."""
    inside = value.__dict__

    def back(memo: Memo) -> None:
        if value.__dict__ is not inside:
            value.__dict__ = inside

    return back


def slot_of(value: Any, slot: MemberDescriptorType, opaque: Collection[int]) -> Back:
    """One slot of an object."""
    saved = in_slot(value, slot)

    def back(memo: Memo) -> None:
        if saved is not NOTHING:
            slot.__set__(value, copy.deepcopy(saved, memo) if id(saved) in opaque else saved)
        elif in_slot(value, slot) is not NOTHING:
            slot.__delete__(value)

    return back


def in_slot(value: Any, slot: MemberDescriptorType) -> Any:
    try:
        return slot.__get__(value)
    except AttributeError:
        return NOTHING


def cell(where: CellType, opaque: Collection[int]) -> Back:
    """A variable of a closure."""
    saved = in_cell(where)

    def back(memo: Memo) -> None:
        if saved is not NOTHING:
            where.cell_contents = copy.deepcopy(saved, memo) if id(saved) in opaque else saved
        elif in_cell(where) is not NOTHING:
            del where.cell_contents

    return back


def in_cell(where: CellType) -> Any:
    try:
        return where.cell_contents
    except ValueError:
        return NOTHING


def function(given: FunctionType, opaque: Collection[int]) -> Back:
    """Defaults and code of a function."""
    code, defaults, by_name, says = given.__code__, given.__defaults__, given.__kwdefaults__, given.__doc__
    hints = dict(given.__annotations__)
    copied = id(defaults) in opaque

    def back(memo: Memo) -> None:
        if copied or given.__defaults__ is not defaults:
            given.__defaults__ = copy.deepcopy(defaults, memo) if copied else defaults
        if given.__kwdefaults__ is not by_name:
            given.__kwdefaults__ = by_name
        if given.__code__ is not code:
            given.__code__ = code
        if given.__doc__ is not says:
            given.__doc__ = says
        if given.__annotations__ != hints:
            given.__annotations__ = dict(hints)

    return back


def bits(generator: Any) -> Back:
    """A generator of numpy, new or old."""
    source = getattr(generator, "bit_generator", None) or getattr(generator, "_bit_generator", generator)
    saved = copy.deepcopy(source.state)

    def back(memo: Memo) -> None:
        source.state = saved

    return back
