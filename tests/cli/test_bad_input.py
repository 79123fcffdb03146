"""Every mistake a user can make in a run file or option, with the one sentence that answers it."""

from __future__ import annotations

from pathlib import Path

import pytest

from crescendo.config.loading import read
from crescendo.errors import CrescendoError
from crescendo.objectives import objective_kinds
from crescendo.objectives.nets.net_names import NETS
from crescendo.privacy.mechanisms import mechanism_kinds
from crescendo.runs.prepare import prepare
from crescendo.schedules import kinds
from crescendo.simulator.timing import TIMES
from crescendo.tables import one_of
from tests.config.small import SMALL, TOML, small

SIZES, LATENCIES = (one_of(*[kind.name for kind in family]) for family in (kinds.SIZES, TIMES))
MECHANISMS = one_of("none", *mechanism_kinds.MECHANISMS)
OBJECTIVES = one_of(*objective_kinds.OBJECTIVES, *NETS, "file.py:Name", "torch:file.py:Name", "jax:file.py:Name")

# What --set (or the file) says, and the answer.
WRONG_VALUES = [
    # keys that are not there
    ("clients.cuont=3", "there is no key clients.cuont; did you mean clients.count?"),
    ("schedule.sizes.scal=3", "there is no key schedule.sizes.scal; did you mean schedule.sizes.scale?"),
    ("shedule.rounds=3", "there is no key shedule; did you mean schedule?"),
    ("seed=3", "there is no key seed; did you mean run.seed?"),
    ("run.count=3", "there is no key run.count; did you mean clients.count?"),
    ("run.zzz=3", "there is no key run.zzz; [run] has seed, wire"),
    ("schedule.wait.tua=3", "there is no key schedule.wait.tua; did you mean schedule.wait.tau?"),
    (
        "nonsense=1",
        "there is no key nonsense; a run file has the sections run, data, clients, objective, schedule, timing, "
        "privacy, evaluate, serve, draft",
    ),
    # values of the wrong type or size
    ("run.seed=-1", "run.seed must be a whole number from 0 to 2^63 - 1, not -1"),
    ("run.seed=1.5", "run.seed must be a whole number from 0 to 2^63 - 1, not 1.5"),
    ("run.seed=true", "run.seed must be a whole number from 0 to 2^63 - 1, not true"),
    ("run.seed=99999999999999999999", "run.seed must be a whole number from 0 to 2^63 - 1, not 99999999999999999999"),
    (
        "run.wire=float23",
        'run.wire must be "float64", "float32", "float16" or "bfloat16", not "float23"; did you mean "float32"?',
    ),
    ("run=3", "run must be a table, not 3"),
    ("clients.count=0", "clients.count must be a whole number of at least 1, not 0"),
    ('clients.count="five"', 'clients.count must be a whole number of at least 1, not "five"'),
    ("clients.count=2.0", "clients.count must be a whole number of at least 1, not 2.0"),
    (
        "clients.split=by-label",
        'clients.split must be "iid", "label", "dirichlet" or "column:NAME", not "by-label"; did you mean "label"?',
    ),
    (
        "clients.weights=[1, -1]",
        'clients.weights must be "size", "uniform" or a list of numbers above 0, one per client, not [1, -1]',
    ),
    ("clients.weights=[1, 2, 3]", "clients.weights has 3 values for 2 clients; give one per client"),
    ("clients.shares=dice", 'clients.shares must be "expected" or "coin", not "dice"'),
    (
        "clients.alpha=0.5",
        'clients.alpha goes with split = "dirichlet" only, not "iid"; remove clients.alpha, or set that split',
    ),
    ("data.test=1", "data.test must be a number from 0 up to, not including, 1, not 1"),
    ("data.test=nan", "data.test must be a number from 0 up to, not including, 1, not nan"),
    ("data.classes=[3]", "data.classes must be a list of at least two labels, not [3]"),
    ('data.source=""', 'data.source must be the name of a source or a path, not ""'),
    ("objective.l2=-0.1", 'objective.l2 must be a number of at least 0, or "1/N", not -0.1'),
    ("objective.l2=1/M", 'objective.l2 must be a number of at least 0, or "1/N", not "1/M"; did you mean "1/N"?'),
    (
        "objective.kind=tree",
        f'objective.kind must be {OBJECTIVES}, not "tree"',
    ),
    ("objective.intercept=1", "objective.intercept must be true or false, not 1"),
    ("objective.options={a = 1}", 'objective.options is for networks and for kind = "file.py:Name" only; remove it'),
    ("privacy.mechanism=magic", f'privacy.mechanism must be {MECHANISMS}, not "magic"'),
    ("privacy.mechanism=minibatch", 'privacy.delta is missing; privacy.mechanism = "minibatch" needs it'),
    ("privacy.sigma=2.0", 'privacy.sigma has no effect with privacy.mechanism = "none"; remove that key, or choose a mechanism'),
    ("privacy.epsilon=0", "privacy.epsilon must be a number above 0, not 0"),
    (
        "privacy={mechanism = 'local', delta = 1e-6, clip = 1.0, records = 100}",
        "privacy.epsilon or privacy.sigma is missing; state the budget, the noise, or both",
    ),
    ("evaluate.without_noise=true", "evaluate.without_noise is for a private run; remove it, or choose a privacy.mechanism"),
    ("evaluate.every=0", "evaluate.every must be a whole number of at least 1, not 0"),
    # schedules
    (
        "schedule.gradients=100",
        "schedule has gradients = 100, rounds = 3 and sizes, and any two of them determine the third; remove "
        "schedule.sizes.scale (--set schedule.sizes.scale=) to have the sizes fitted, or remove rounds or gradients",
    ),
    (
        "schedule.rounds=",
        "schedule must have exactly one of gradients, gradients_per_client and rounds, the length of the run, but has none",
    ),
    ("schedule.sizes.kind=powr", f'schedule.sizes.kind must be {SIZES}, not "powr"; did you mean "power"?'),
    ("schedule.sizes={scale = 3}", f"schedule.sizes.kind is missing; add {SIZES}"),
    ("schedule.sizes=100", "schedule.sizes must be a table with a kind, not 100"),
    (
        "schedule.sizes.scale=",
        "schedule.sizes has no scale; add gradients = 10000 under [schedule], and the sizes follow from gradients and rounds, "
        'or write them out, such as sizes = {kind = "power", scale = 50}',
    ),
    ("schedule.sizes.scale=inf", "schedule.sizes.scale must be a number above 0, not inf"),
    (
        "schedule.sizes={kind='list', values=[]}",
        "schedule.sizes.values must be a list of whole numbers of at least 1, or of pairs of them, not []",
    ),
    (
        "schedule.sizes={kind='list', values=[[5, 2], 0]}",
        "schedule.sizes.values must be a list of whole numbers of at least 1, or of pairs of them, not [[5, 2], 0]",
    ),
    (
        "schedule.sizes={kind='list', values=[[5, 2, 1]]}",
        "schedule.sizes.values must be a list of whole numbers of at least 1, or of pairs of them, not [[5, 2, 1]]",
    ),
    ("schedule.steps.eta0=0", "schedule.steps.eta0 must be a number above 0, not 0"),
    ("schedule.steps.per=epoch", 'schedule.steps.per must be "slot" or "round", not "epoch"'),
    ("schedule.steps=", 'schedule.steps is missing; add "auto" or a table with a kind'),
    ("schedule.wait={}", "schedule.wait must have exactly one of rounds and tau; rounds = 1 suits most runs"),
    (
        "schedule.wait={rounds = 1, tau = 50}",
        "schedule.wait must have exactly one of rounds and tau; rounds = 1 suits most runs",
    ),
    (
        "schedule.wait={rounds = 1, d = 1}",
        "schedule.wait.d goes with tau only; with the rule by rounds, d is schedule.wait.rounds",
    ),
    (
        "schedule.wait={tau = 50, m1 = 3}",
        'schedule.wait.m and m1 go with tau = "theorem" only; remove them from [schedule.wait]',
    ),
    (
        "schedule.wait={tau = 'theorm'}",
        'schedule.wait.tau must be a number, "theorem" or a table with a kind, not "theorm"; did you mean "theorem"?',
    ),
    ("schedule.wait={tau = -2}", 'schedule.wait.tau must be a number, "theorem" or a table with a kind, not -2'),
    ("schedule.blocks=0", "schedule.blocks must be a whole number of at least 1, not 0"),
    # timing
    (
        "timing.preset=lockstep",
        'timing.preset must be "lock-step", "staggered" or "heterogeneous", not "lockstep"; did you mean "lock-step"?',
    ),
    ("timing.latency=-1", "timing.latency must be a number of at least 0 or a table with a kind, not -1"),
    (
        "timing.latency.kind=normal",
        f'timing.latency.kind must be {LATENCIES}, not "normal"; did you mean "lognormal"?',
    ),
    ("timing.latency.kind=uniform", "timing.latency.low is missing; add a number of at least 0"),
    (
        "timing.latency={kind='uniform', low=3, high=1}",
        "timing.latency.low = 3.0 lies above timing.latency.high = 1.0; swap them",
    ),
    ("timing.speed=0", "timing.speed must be a number above 0, a list of them or a table with a kind, not 0"),
    ("timing.speed=[1, 2, 3]", "timing.speed has 3 values for 2 clients; give one per client"),
    ("timing.lose=1", "timing.lose must be a number from 0 up to, not including, 1, not 1"),
    ("timing.crash={every = 3}", "timing.crash.down is missing; add a number above 0"),
    # the option itself
    ("clients.count", "--set clients.count is not of the form a.b=value; write for example --set clients.count=10"),
    ("clients..count=3", "--set clients..count=3 is not of the form a.b=value; write for example --set clients.count=10"),
    (
        "data.source.x=1",
        '--set data.source.x=1 sets a key of data.source, which is "synthetic:rows=200,features=3" and not a table',
    ),
    ("clients.weights=[1", "--set clients.weights=[1 has a value that is not valid TOML; quote the whole option in the shell"),
]  # fmt: skip


def answer(*overrides: str) -> str:
    with pytest.raises(CrescendoError) as caught:
        prepare(small(*overrides))
    return str(caught.value)


@pytest.mark.parametrize(("override", "sentence"), WRONG_VALUES, ids=[override for override, _ in WRONG_VALUES])
def test_a_wrong_value_is_answered_with_its_sentence(override: str, sentence: str) -> None:
    assert answer(override) == sentence


# What the file alone cannot show: it takes the schedule, the data or the model to see it.
WRONG_TOGETHER = [
    (
        ["schedule.wait={tau = 5}"],
        "the schedule fails 'liveness' in round 0: tau(8) = 5 <= s_0 - 1 = 9, so clients could wait forever; what would pass: "
        "schedule.wait.tau = 29.001, or at most 5 gradients in round 0 (schedule.sizes), or schedule.wait = {rounds = 1}, "
        "which always passes",
    ),
    (
        ["schedule.wait={tau = 40, d = 1}"],
        "the schedule fails 'd = 1 rounds ahead' in round 2: tau(60) = 40 < s_1 + ... + s_2 = 50; "
        "what would pass: schedule.wait.tau = 50, or at most 20 gradients in round 2 (schedule.sizes), or schedule.wait.d = 0, "
        "or schedule.wait = {rounds = 1}, which always passes",
    ),
    (
        ["schedule.sizes={kind='theorem', d=1, m=3}"],
        "schedule.sizes: the recipe needs m + 1 >= 2e(d+1): with d=1, m must be 10 or more, got 3",
    ),
    (["schedule.steps={kind='theorem'}"], 'schedule.steps.m is missing; only sizes of kind "theorem" imply it'),
    (
        ["schedule.wait={tau='theorem', m=20}", "objective.l2=0"],
        'schedule.wait.tau = "theorem" needs a strongly convex objective; set objective.l2 above 0, such as 1/N',
    ),
    (["schedule.blocks=9"], "schedule.blocks must be at most the model's 4 numbers, not 9"),
    (["clients.count="], "clients.count is missing; only a split by column can do without it"),
    (["clients.count=1000"], "clients.count = 1000 is more than the 200 training records; ask for at most 200"),
    (
        ["clients.split=column:hair"],
        "synthetic has no column 'hair' to split by, or any other; to say which client has which record, give clients=ids to "
        "crescendo.dataset, or data as a list of each client's (x, y)",
    ),
    (["data.source=iris"],
     'iris has 3 classes and logistic regression needs exactly two; write objective.kind = "softmax" for all of them, or '
     "choose two with data.classes"),
    (["data.source=iris", "data.classes=[0, 7]"], "data.classes asks for 7, but the labels of iris are 0, 1, 2"),
    (["data.source=nowhere.csv"], "there is no file nowhere.csv; check the path"),
    (
        ["objective.kind=nowhere.py:Model", "objective.l2=0"],
        "objective.kind names the file nowhere.py, which does not exist",
    ),
    (
        ["objective.kind=nowhere.py:Model"],
        f"objective.l2, intercept and dtype are for {' and '.join(objective_kinds.OBJECTIVES)}; "
        "give your model objective.options",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("overrides", "sentence"), WRONG_TOGETHER, ids=[" ".join(o) for o, _ in WRONG_TOGETHER])
def test_parts_that_do_not_go_together_are_answered_with_a_sentence(overrides: list[str], sentence: str) -> None:
    assert answer(*overrides) == sentence


# Whole files.
WRONG_FILES = [
    ("", "data is missing; add a table, [data]"),
    ("[data\nsource = 3", "run.toml is not valid TOML: expected ']' at the end of a table declaration (at line 1, column 6)"),
    (TOML + "\n[data]\n", "run.toml is not valid TOML: cannot declare ('data',) twice (at line 13, column 6)"),
    (TOML + "x = \n", "run.toml is not valid TOML: invalid value (at line 12, column 5)"),
    (TOML.replace("[clients]\ncount = 2", ""), "clients is missing; add a table, [clients]"),
    ("data = 3\n" + TOML.replace('[data]\nsource = "synthetic:rows=200,features=3"', ""), "data must be a table, not 3"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "sentence"), WRONG_FILES)
def test_a_wrong_file_is_answered_with_its_sentence(
    text: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.toml").write_text(text)
    with pytest.raises(CrescendoError) as caught:
        read("run.toml")
    assert str(caught.value) == sentence


def test_a_file_that_is_not_there_or_not_text_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("binary.toml").write_bytes(b"a = '\xff'")
    Path("folder.toml").mkdir()
    answers = {
        "none.toml": "there is no run file none.toml; check the path",
        "folder.toml": "folder.toml is a folder, not a run file; name a .toml file in it",
        "binary.toml": "binary.toml is not a text file (byte 5 is not UTF-8); a run file is TOML",
    }
    for name, sentence in answers.items():
        with pytest.raises(CrescendoError) as caught:
            read(name)
        assert str(caught.value) == sentence


def test_the_run_that_all_these_mistakes_are_put_into_is_itself_right() -> None:
    assert prepare(read(SMALL)).terms.rounds == 3
