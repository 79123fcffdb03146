"""Names of the built-in networks: ``kind = "lenet"``, or ``"torch:lenet"`` if the library matters.

A name stands for a function in a file of the package. So such a model works like a user's own: it takes options,
terms hold the SHA-256 of its file, and each side of a federation runs its own copy. This file loads neither torch nor
jax.
"""

import importlib.util
from pathlib import Path
from typing import Any

from crescendo.errors import ConfigError

NETS = ("lenet", "mlp")
_LIBRARIES = ("jax", "torch")  # the faster one first
_FOLDER = Path(__file__).parent


def is_net(kind: str) -> bool:
    """Return True if a kind is a built-in network.

    >>> [is_net(kind) for kind in ("lenet", "torch:mlp", "net.py:lenet", "keras:lenet", "logistic")]
    [True, True, False, False, False]
    """
    library, colon, name = kind.rpartition(":")
    return name in NETS and (library in _LIBRARIES if colon else True)


def settled(kind: str) -> str:
    """Return a built-in kind with its library: the named one, otherwise JAX if installed, otherwise torch.

    >>> settled("torch:lenet"), settled("net.py:Net")
    ('torch:lenet', 'net.py:Net')
    """
    if not is_net(kind) or ":" in kind:
        return kind
    there = [library for library in _LIBRARIES if importlib.util.find_spec(library) is not None]
    if not there:
        raise ConfigError(f"{kind} needs jax or torch; install one with pip install 'crescendo-fl[jax]'")
    return f"{there[0]}:{kind}"


def file_of(kind: str) -> str:
    """Return a kind as ``library:file.py:Name``; a kind that is not built in already has this form.

    >>> file_of("jax:mlp").endswith("nets/jax_nets.py:mlp"), file_of("net.py:Net")
    (True, 'net.py:Net')
    """
    if not is_net(kind):
        return kind
    library, _, name = settled(kind).partition(":")
    return f"{library}:{_FOLDER / f'{library}_nets.py'}:{name}"


def with_classes(kind: str, options: dict[str, Any], classes: int) -> dict[str, Any]:
    """Return the options of a model; a built-in network gets an output for each class of the data, or more.

    >>> with_classes("lenet", {}, 3), with_classes("net.py:Net", {}, 3)
    ({'classes': 3}, {})
    """
    if not is_net(kind):
        return options
    asked = options.get("classes", classes)
    if isinstance(asked, bool) or not isinstance(asked, int) or asked < classes:
        raise ConfigError(
            f"objective.options.classes = {asked!r} is too few for data of {classes} classes; remove that option"
        )
    return {**options, "classes": asked}


def name_of(kind: str) -> str | None:
    """Return the user's name for a built-in network that terms name by its file; None for any other model.

    >>> name_of("torch:torch_nets.py:lenet"), name_of("torch:net.py:lenet")
    ('torch:lenet', None)
    """
    library, _, rest = kind.partition(":")
    name = rest.removeprefix(f"{library}_nets.py:")
    return f"{library}:{name}" if library in _LIBRARIES and name in NETS and rest != name else None
