"""Labels that teach a model nothing: classes that training never sees, and a class of nearly every record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from crescendo.core.arrays import Floats

_NEARLY_ALL = 0.95  # of the records
_SHOWN = 4


def about_labels(train: Floats, test: Floats | None, classes: Sequence[object]) -> Iterator[str]:
    """Yield warnings about the class numbers of the training and the test part.

    >>> for says in about_labels(np.array([0.0, 0, 0]), np.array([0.0, 1]), ("no", "yes")): print(says)
    every training record has the label 'no', so there is nothing to learn; a model that always says it is right in 0.5000 of \
the test part: add records of the other classes
    the class 'yes' is in no training record but in 1 of the test part, which no model can get right; add records of it, choose \
another run.seed or data.test, or leave it out with data.classes
    """
    if not classes:  # labels are numbers
        return
    times = np.bincount(train.astype(np.int64), minlength=len(classes))
    held_out = None if test is None else np.bincount(test.astype(np.int64), minlength=len(classes))
    yield from _about_one(times, held_out, classes)
    if held_out is not None:
        yield from _about_unseen(times, held_out, classes)
    yield from _about_single(times if held_out is None else times + held_out, times, classes)


def _about_one(times: np.ndarray, held_out: np.ndarray | None, classes: Sequence[object]) -> Iterator[str]:
    most = int(times.argmax())
    share = times[most] / times.sum()
    measured, where = (times, "training part") if held_out is None or not held_out.sum() else (held_out, "test part")
    right = f"a model that always says it is right in {measured[most] / measured.sum():.4f} of the {where}"
    if share == 1:
        yield (
            f"every training record has the label '{classes[most]}', so there is nothing to learn; {right}: add records of the "
            "other classes"
        )
    elif share >= _NEARLY_ALL:
        yield (
            f"{100 * share:.4g}% of the training records have the label '{classes[most]}', and {right}: an accuracy means "
            "something only where it is higher"
        )


def _about_unseen(times: np.ndarray, held_out: np.ndarray, classes: Sequence[object]) -> Iterator[str]:
    unseen = np.flatnonzero((times == 0) & (held_out > 0))
    if not len(unseen):
        return
    named = ", ".join(f"'{classes[at]}'" for at in unseen[:_SHOWN])
    more = f" and {len(unseen) - _SHOWN} more" if len(unseen) > _SHOWN else ""
    are, them = ("classes {} are", "them") if len(unseen) > 1 else ("class {} is", "it")
    yield (
        f"the {are.format(named + more)} in no training record but in {int(held_out[unseen].sum()):,} of the test part, which no "
        f"model can get right; add records of {them}, choose another run.seed or data.test, or leave {them} out with data.classes"
    )


def _about_single(times: np.ndarray, trained: np.ndarray, classes: Sequence[object]) -> Iterator[str]:
    """Warn about classes with one training record and no test record."""
    single = np.flatnonzero((times == 1) & (trained == 1))
    if not len(single):
        return
    named = ", ".join(f"'{classes[at]}'" for at in single[:_SHOWN])
    more = f" and {len(single) - _SHOWN} more" if len(single) > _SHOWN else ""
    has, them = ("classes {} have one record each", "them") if len(single) > 1 else ("class {} has one record", "it")
    how = f"add records of {them}, or leave {them} out with data.classes"
    yield f"the {has.format(named + more)}, from which no model learns; {how}"
