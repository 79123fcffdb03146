"""What a user's own code keeps: refused where it shows, and harmless where it does not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crescendo
from crescendo.data.records import Records
from crescendo.errors import Refused
from crescendo.objectives import ModelFile, OwnModel
from crescendo.objectives.base import LoopStepper, Slots, exported, resumed
from crescendo.objectives.isolation.history import remembers
from crescendo.objectives.isolation.isolated_stepper import IsolatedStepper
from crescendo.objectives.isolation.pristine import Pristine
from crescendo.privacy.mechanisms.minibatch import FrozenStepper
from tests.objectives.models_that_hide import HIDING, RARE
from tests.objectives.models_that_remember import FEATURES, MODELS, RunningMean, Squares, WeightsOfClasses

CLIP, UNIT = 0.5, 2.0**-40
_rng = np.random.default_rng(5)
DATA = Records(_rng.normal(size=(240, FEATURES)) + 1.0, (np.arange(240) % 2).astype(float))
put_back = Pristine.restore  # which a test plants a bug in
SAMPLE = DATA.take(np.arange(3))


by_name = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS.keys())


def two_rounds(goal: OwnModel, first: int) -> Any:
    """The exact sums that `minibatch` hides of two rounds, the first from record ``first`` on; all are scored in between."""
    stepper, found = FrozenStepper(goal, DATA), []
    for part in (np.arange(first, 120), np.arange(120, 240)):
        stepper.load(np.full(FEATURES, 0.3))
        stepper.advance(Slots(part, np.ones(1), ends=np.array([len(part)]), clip=CLIP, unit=UNIT), 0, 1)
        found.append(stepper.gradients())
        goal.evaluate(np.zeros(FEATURES), DATA.take(np.arange(first, 240)))
    return np.concatenate(found)


def one_record_more(make: Callable[[], Squares]) -> tuple[float, float]:
    """How far one record, the first, moves its round and the next, over the clip: 1 and 0 are certified."""
    goal = OwnModel(make(), SAMPLE)
    world, found = Pristine(goal._model), []
    for first in (0, 1):
        found.append(two_rounds(goal, first))
        put_back(world)
    moved = (found[0] - found[1]).reshape(2, FEATURES)
    here, later = np.linalg.norm(moved, axis=1) / CLIP
    return float(here), float(later)


@by_name
def test_one_record_moves_a_release_by_its_own_gradient_alone(
    make: Callable[[], Squares], monkeypatch: pytest.MonkeyPatch
) -> None:
    here, later = one_record_more(make)
    assert here <= 1.0 + 1e-9 and later == 0.0
    monkeypatch.setattr(Pristine, "restore", lambda self: None)
    assert max(one_record_more(make)) > 1.0, "this memory shows nothing, so the test sees nothing"


def test_an_isolated_stepper_passes_every_call_on() -> None:
    goal, slots, start = OwnModel(Squares(), SAMPLE), Slots(np.arange(4), np.full(4, 0.1)), np.full(FEATURES, 0.3)

    def isolated() -> IsolatedStepper:
        return IsolatedStepper(LoopStepper(goal, DATA), Pristine(goal._model))

    bare, first, second = LoopStepper(goal, DATA), isolated(), isolated()
    for stepper in (bare, first, second):
        stepper.load(start)
    for stepper in (bare, first):
        stepper.advance(slots, 0, 2)
        stepper.translate(np.ones(FEATURES))
    state = exported(first)
    assert state is not None and np.array_equal(state["w"], bare.read())
    assert not np.array_equal(bare.read(), start) and np.array_equal(second.read(), start)
    resumed(second, state, slots)
    for stepper in (bare, first, second):
        stepper.advance(slots, 2, 4)
    assert np.array_equal(first.read(), bare.read()) and np.array_equal(second.read(), bare.read())


@by_name
def test_a_model_that_remembers_is_refused_at_set_up(make: Callable[[], Squares]) -> None:
    for by_record in (True, False):
        goal = OwnModel(make(), SAMPLE)
        with pytest.raises(Refused, match="says something else of a record once it has seen others") as refused:
            goal.check_forgetful(np.zeros(FEATURES), SAMPLE, "own.py:Own", by_record)
        assert str(refused.value).count(".") <= 2 and "\n" not in str(refused.value)


def test_a_long_warm_up_is_found_and_one_that_is_longer_still_is_harmless() -> None:
    for after, found in ((1900, True), (100_000, False)):
        goal = OwnModel(RunningMean(after), SAMPLE)
        said = remembers(goal, np.zeros(FEATURES), SAMPLE, seconds=60)
        assert (said is not None) is found
    late = RunningMean(after=3000)
    goal = OwnModel(late, SAMPLE)
    goal.check_forgetful(np.zeros(FEATURES), SAMPLE, "own.py:Own", by_record=True)
    here, later = one_record_more(lambda: late)
    assert here <= 1.0 + 1e-9 and later == 0.0


def test_a_model_without_memory_passes_and_so_does_one_that_keeps_what_makes_no_difference() -> None:
    class Prepared(Squares):
        def __init__(self) -> None:
            self.scratch, self.calls = np.zeros(FEATURES), 0

        def of_one(self, w: Any, x: Any, y: Any, data: Any) -> Any:
            self.calls += 1
            np.multiply(x, x @ w - y, out=self.scratch)
            return self.scratch.copy()

    for model in (Squares(), Prepared()):
        for by_record in (True, False):
            goal = OwnModel(model, SAMPLE)
            goal.check_forgetful(np.zeros(FEATURES), SAMPLE, "own.py:Own", by_record)


def _generator() -> Any:
    yield 1


@pytest.mark.parametrize(
    ("kept", "says"),
    [
        (_generator, "keeps a generator in kept, which cannot be put back"),
        (lambda: Path(__file__).open(), "keeps a TextIOWrapper in kept"),  # noqa: SIM115
        (lambda: iter([1, 2]), None),
        (lambda: {"deep": [(_generator(),)]}, "keeps a generator in deep"),
    ],
    ids=["generator", "file", "list iterator", "within others"],
)
def test_what_cannot_be_put_back_is_refused_in_one_sentence(kept: Callable[[], Any], says: str | None) -> None:
    model: Any = Squares()
    model.kept = kept()
    goal = OwnModel(model, SAMPLE)
    if says is None:
        goal.isolate()
        return
    with pytest.raises(Refused, match=says):
        goal.isolate()


def test_code_that_reaches_names_which_it_does_not_say_is_refused() -> None:
    class Sly(Squares):
        def of_one(self, w: Any, x: Any, y: Any, data: Any) -> Any:
            globals()["SEEN"] = x
            return x

    with pytest.raises(Refused, match="uses globals in of_one"):
        OwnModel(Sly(), SAMPLE).isolate()


def test_something_kept_in_a_library_is_noticed() -> None:
    class InNumpy(Squares):
        def of_one(self, w: Any, x: Any, y: Any, data: Any) -> Any:
            np.kept_by_a_test = x  # type: ignore[attr-defined]
            return super().of_one(w, x, y, data)

    goal = OwnModel(InNumpy(), SAMPLE)
    del np.kept_by_a_test  # type: ignore[attr-defined]
    said = remembers(goal, np.zeros(FEATURES), SAMPLE)
    assert said == "keeps something in numpy, a library"
    assert not hasattr(np, "kept_by_a_test")  # and it is put back


def test_a_large_array_is_locked_while_the_code_runs_and_free_afterwards() -> None:
    class Embeds(Squares):
        def __init__(self) -> None:
            self.table = np.zeros((1 << 18, 1))

        def of_one(self, w: Any, x: Any, y: Any, data: Any) -> Any:
            if y == 1.0:
                self.table[0] += 1.0
            return super().of_one(w, x, y, data) + self.table[0]

    model = Embeds()
    goal = OwnModel(model, SAMPLE)
    model.table[...] = 0.0
    rows = np.array([0, 2, 4, 1, 0])
    stepper = FrozenStepper(goal, DATA)
    stepper.load(np.zeros(FEATURES))
    stepper.advance(Slots(rows, np.ones(1), ends=np.array([5]), clip=CLIP, unit=UNIT), 0, 1)
    due = sum(of_one_record(row) for row in (0, 2, 4, 0))
    np.testing.assert_array_equal(stepper.gradients(), due)  # the record on which the code fails counts as 0
    model.table[0] = 1.0


def of_one_record(row: int) -> Any:
    stepper = FrozenStepper(OwnModel(Squares(), SAMPLE), DATA)
    stepper.load(np.zeros(FEATURES))
    stepper.advance(Slots(np.array([row]), np.ones(1), ends=np.array([1]), clip=CLIP, unit=UNIT), 0, 1)
    return stepper.gradients()


ASKED: dict[str, Any] = {
    "clients": {"count": 2},
    "schedule": {"rounds": 6, "sizes": {"kind": "constant", "size": 60}, "steps": {"kind": "constant", "eta": 0.1}},
    "privacy": {"mechanism": "minibatch", "sigma": 1.0, "delta": 1e-5, "clip": 0.5, "records": [96, 96]},
}


@pytest.mark.parametrize("mechanism", ["minibatch", "batch-clip"])
def test_when_models_are_scored_changes_nothing_of_a_private_model(
    mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scores come after two seconds, or at the end: by the clock. The check at set-up is left out, to see isolation alone."""
    monkeypatch.setattr(OwnModel, "check_forgetful", lambda self, *_: None)
    asked = ASKED | {"privacy": ASKED["privacy"] | {"mechanism": mechanism}}
    data = crescendo.dataset(DATA.x, DATA.y.astype(int), classes=[0, 1])

    def trained(wait: float) -> Any:
        monkeypatch.setattr("crescendo.runs.evaluation.LONGEST_WAIT", wait)
        return crescendo.simulate(asked, objective=WeightsOfClasses(), data=data).model

    often, at_the_end = trained(-1.0), trained(1e9)
    np.testing.assert_array_equal(often, at_the_end)
    monkeypatch.setattr(Pristine, "restore", lambda self: None)
    assert not np.array_equal(trained(-1.0), trained(1e9)), "scoring leaves nothing behind, so the test sees nothing"


def test_a_run_leaves_nothing_in_the_object_for_the_next_one() -> None:
    data = crescendo.dataset(DATA.x, DATA.y.astype(int), classes=[0, 1])

    class Counts(Squares):
        def __init__(self) -> None:
            self.asked = 0

        def evaluate(self, w: Any, data: Any) -> dict[str, float]:
            self.asked += len(data)
            return super().evaluate(w, data)

    model = Counts()
    crescendo.simulate(ASKED, objective=model, data=data)
    assert model.asked == 2  # made-up records, when it was tried


def test_a_model_of_a_file_that_is_called_as_a_library_is_isolated_too(tmp_path: Path) -> None:
    (tmp_path / "helper_of_mine.py").write_text("kept = []\ndef seen(x):\n    kept.append(x)\n    return sum(kept)\n")
    (tmp_path / "random.py").write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "import helper_of_mine\n"
        "sys.path.pop(0)\n"
        "import numpy as np\n"
        "class Own:\n"
        "    calls = 0\n"
        "    def initial(self, rng):\n        return np.zeros(4)\n"
        "    def gradient(self, w, data, rows):\n"
        "        Own.calls += 1\n"
        "        return helper_of_mine.seen(data.x[rows].sum(0)) * Own.calls\n"
        "    def evaluate(self, w, data):\n        return {'loss': 0.0}\n"
    )
    goal = ModelFile.read(f"{tmp_path}/random.py:Own").made(SAMPLE, {})
    goal.isolate()
    w, rows = np.zeros(FEATURES), np.array([3])
    first = goal.gradient(w, DATA, rows)
    goal.gradient(w, DATA, np.arange(50))
    np.testing.assert_array_equal(goal.gradient(w, DATA, rows), first)
    with pytest.raises(Refused, match="says something else"):
        goal.check_forgetful(w, SAMPLE, "random.py:Own", by_record=True)


@pytest.mark.parametrize("name", HIDING)
def test_a_record_leaves_nothing_in_an_unusual_place(name: str) -> None:
    """One record moves its round by a clip at most, and no later round."""
    if name == "torch":
        pytest.importorskip("torch")
    make, says = HIDING[name]
    x = np.zeros((20, FEATURES))
    x[0, 0] = RARE
    data = Records(x, np.zeros(20))
    goal = OwnModel(make(), data.take(np.arange(1, 4)))
    if says is not None:
        with pytest.raises(Refused, match=says):
            goal.check_forgetful(np.zeros(FEATURES), data.take(np.arange(1, 4)), "own.py:Own", by_record=True)
        return
    stepper, found = FrozenStepper(goal, data), []
    for first in (1, 0, 1):
        stepper.load(np.zeros(FEATURES))
        rows = np.arange(first, 20)
        stepper.advance(Slots(rows, np.ones(1), ends=np.array([len(rows)]), clip=CLIP, unit=UNIT), 0, 1)
        found.append(stepper.gradients())
    assert np.linalg.norm(found[1] - found[0]) <= CLIP * (1 + 1e-9)
    np.testing.assert_array_equal(found[2], found[0])


def test_an_installed_model_is_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "site-packages" / "clinic_models"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("SEEN = []\n", encoding="utf-8")
    text = (
        "import numpy as np\n\nfrom clinic_models import SEEN\n\n\nclass Installed:\n    seen = []\n\n"
        "    def initial(self, rng):\n        return np.zeros(4)\n\n"
        "    def gradient(self, w, data, rows):\n        SEEN.append(1)\n        self.seen.append(1)\n"
        "        return np.ones(4)\n\n"
        "    def evaluate(self, w, data):\n        return {'loss': 0.0}\n"
    )
    (folder / "installed.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder.parent))
    from clinic_models.installed import SEEN, Installed  # type: ignore[import-not-found]

    goal = OwnModel(Installed(), SAMPLE)
    goal.isolate()
    before = (len(SEEN), len(Installed.seen))
    goal.gradient(np.zeros(FEATURES), SAMPLE, np.arange(1))
    assert (len(SEEN), len(Installed.seen)) == before
