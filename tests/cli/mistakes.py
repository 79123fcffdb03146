"""The likeliest mistakes of a first hour: what the user did, the command or the Python, and what must be answered.

A command line has its exit code (1: a mistake in what was asked for; 2: wrong use of the command line itself, as
docs/cli.md has
it) and words of the one sentence. `FILES` lie in the folder where each is tried.
"""

from __future__ import annotations

RUN = """
[data]
source = "synthetic:rows=200,features=3"
[clients]
count = 2
[schedule]
rounds = 3
sizes = {kind = "constant", size = 10}
steps = {kind = "constant", eta = 0.1}
"""
PRIVATE = (
    RUN.replace('features=3"', 'features=3"\nclasses = [-1, 1]')
    + '[privacy]\nmechanism = "minibatch"\nepsilon = 1.0\ndelta = 1e-5\nsigma = 2.0\nclip = 1.0\nrecords = 80\n'
)
MODEL = """import numpy as np
class Mean:
    def __init__(self, features):
        self.n = features
    def initial(self, rng):
        return np.zeros(self.n)
    def gradient(self, w, data, rows):
        return len(rows) * w
    def evaluate(self, w, data):
        return {"loss": 1.0}
"""
ROWS = "1,2,0\n3,4,1\n5,6,0\n2,2,1\n" * 10


def model(right: str, wrong: str) -> str:
    assert right in MODEL
    return MODEL.replace(right, wrong)


FILES = {
    "run.toml": RUN,
    "private.toml": PRIVATE,
    "broken.toml": "[data\nsource = 3",
    "mine.csv": "age,city,label\n" + ROWS,
    "ragged.csv": "age,city,label\n1,2,0\n3,4,1,9\n",
    "same.csv": "age,city,label\n" + "1,2,0\n3,4,0\n" * 10,
    "three.csv": "age,city,label\n" + ROWS.replace("5,6,0", "5,6,2"),
    "header.csv": "age,city,label\n",
    "price.csv": "rooms,town,price\n" + "".join(f"{i % 5},{'ab'[i % 2]},{1.5 * i}\n" for i in range(40)),
    "empty.csv": "",
    "own.py": MODEL,
    "typo.py": model("def gradient", "def grad"),
    "nothing.py": model("return len(rows) * w", "len(rows) * w"),
    "shape.py": model("return len(rows) * w", "return np.zeros(7)"),
    "nan.py": model("return len(rows) * w", "return w + np.nan"),
    "crash.py": model("return len(rows) * w", "return data.z[rows]"),
    "syntax.py": model("class Mean:", "class Mean"),
    "imports.py": model("import numpy as np", "import numpy as np\nimport no_such_package"),
    "number.py": model('{"loss": 1.0}', "1.0"),
    "no_delta.toml": 'mechanisms = ["minibatch"]\nepsilon = 1.0\n',
    "policy.toml": 'mechanisms = ["none"]\n',
    "typo_policy.toml": 'mechanism = ["none"]\n',
    "empty_folder/.keep": "",
}

JOIN = "join 127.0.0.1:1 --data mine.csv --as alice --state a"
PRICE = "--set data.source=price.csv"
SQUARES = f"{PRICE} --set objective.kind=least-squares"
PLAN = "plan --epsilon 1 --delta 1e-5 --records 100 --gradients 200"

# what the user did, the command, the exit code, words of the answer
COMMANDS: list[tuple[str, str, int, str]] = [
    # run files
    ("forgot the file", "run", 2, "Missing argument 'FILE.toml'"),
    ("mistyped the file", "run rnu.toml", 1, "there is no run file rnu.toml; check the path"),
    ("named a folder", "run empty_folder", 1, "empty_folder is a folder, not a run file; name a .toml file in it"),
    ("gave the table itself", "run mine.csv", 1, "mine.csv is a data file, not a run file; a run file names it as data.source"),
    ("forgot a bracket", "run broken.toml", 1, "broken.toml is not valid TOML: expected ']'"),
    ("mistyped a command", "rnu run.toml", 2, "No such command 'rnu'. Did you mean 'run'?"),
    ("mistyped an option", "run run.toml --jsn", 2, "No such option: --jsn"),
    ("mistyped a key", "run run.toml --set clients.cuont=3", 1, "no key clients.cuont; did you mean clients.count?"),
    ("forgot the value", "run run.toml --set clients.count", 1, "write for example --set clients.count=10"),
    ("wrote a number as a word", "run run.toml --set clients.count=two", 1, 'whole number of at least 1, not "two"'),
    ("asked for no client", "run run.toml --set clients.count=0", 1, "clients.count must be a whole number of at least 1"),
    ("had more clients than records", "run run.toml --set clients.count=999", 1, "ask for at most 200"),
    ("gave two lengths", "run run.toml --set schedule.gradients=9", 1, "any two of them determine the third"),
    ("wrote a negative step size", "run run.toml --set schedule.steps.eta=-1", 1, "eta must be a number above 0, not -1"),
    ("mistyped a kind", "run run.toml --set schedule.steps.kind=const", 1, 'did you mean "constant"?'),
    ("chose a delay that stops", "run run.toml --set schedule.wait={tau=5}", 1, "what would pass: schedule.wait.tau = 9.002, or"),
    ("mistyped a preset", "run run.toml --set timing.preset=lockstep", 1, 'did you mean "lock-step"?'),
    ("wrote over a file", "run run.toml --out run.toml", 1, "run.toml exists already; name another folder with --out"),
    ("gave a bad seed", "run run.toml --seed x", 2, "Invalid value for '--seed'"),
    # data
    ("mistyped a csv", "run run.toml --set data.source=mien.csv", 1, "there is no file mien.csv; check the path"),
    ("mistyped a set", "run run.toml --set data.source=mnst", 1, "did you mean 'mnist'?"),
    ("has not got the set yet", "run run.toml --set data.source=a9a", 1, "get it with crescendo data get a9a"),
    ("named a folder as data", "run run.toml --set data.source=empty_folder", 1, "is a folder; give a file, or a name such as"),
    ("left a line too long", "run run.toml --set data.source=ragged.csv", 1, "line 3: 4 cells where the header has 3"),
    ("gave an empty csv", "run run.toml --set data.source=empty.csv", 1, "has no records; it needs a header line and a line"),
    ("gave only a header", "run run.toml --set data.source=header.csv", 1, "has no records; it needs a header line and a line"),
    ("has one label only", "run run.toml --set data.source=same.csv", 1, "has the label 0; training needs two classes"),
    ("mistyped the label", "run run.toml --set data.source=mine.csv --set data.label=lable", 1, "are age, city, label"),
    ("has three classes", "run run.toml --set data.source=three.csv", 1, "three.csv has 3 classes and logistic"),
    ("split by no column", "run run.toml --set clients.split=column:city", 1, "has no column 'city' to split by"),
    ("mistyped a download", "data get mnst", 1, "did you mean mnist? the sets are a9a"),
    ("downloaded what is here", "data get iris", 1, "iris needs no download"),
    # tables, schemas and other objectives
    ("predicted numbers as classes", f"run run.toml {PRICE}", 1, 'to predict numbers write objective.kind = "least-squares"'),
    ("mistyped least squares", f"run run.toml {PRICE} --set objective.kind=least-square", 1, 'did you mean "least-squares"?'),
    ("mistyped the schema", "run run.toml --set data.source=mine.csv --set data.schema=no.toml", 1, "no schema file no.toml"),
    ("dropped no column", 'run run.toml --set data.source=mine.csv --set data.drop=["agee"]', 1, "data.drop names 'agee'"),
    ("gave classes a range", "run run.toml --set objective.label_range=[0,1]", 1, "label_range is for least-squares, not for"),
    ("compared by a bad target", f"compare run.toml {SQUARES} --with fedavg --target 3", 1, "an R² above 0 and up to 1, not 3"),
    ("mistyped a project's label", "new fresh --csv price.csv --label prize", 1, "columns of price.csv are rooms, town, price"),
    ("named a project twice", "new empty_folder", 1, "empty_folder exists already; give the project another name"),
    ("asked for two projects", "new fresh --csv price.csv --torch", 1, "choose one of them"),
    # own models
    ("forgot the class", "run run.toml --set objective.kind=own.py", 1, '"file.py:Name"'),
    ("mistyped the model file", "run run.toml --set objective.kind=onw.py:Mean", 1, "the file onw.py, which does not exist"),
    ("mistyped the class", "run run.toml --set objective.kind=own.py:Maen", 1, "own.py has no Maen; did you mean Mean?"),
    ("mistyped a method", "run run.toml --set objective.kind=typo.py:Mean", 1, "Mean has no method gradient; a model needs"),
    ("forgot return", "run run.toml --set objective.kind=nothing.py:Mean", 1, "returned nothing; does it end with return?"),
    ("returned another shape", "run run.toml --set objective.kind=shape.py:Mean", 1, "returned shape (7,) where (3,) was due"),
    ("returned NaN", "run run.toml --set objective.kind=nan.py:Mean", 1, "Mean.gradient returned numbers that are not finite"),
    ("crashed", "run run.toml --set objective.kind=crash.py:Mean", 1, "crash.py, line 8: return data.z[rows]"),
    ("forgot a colon", "run run.toml --set objective.kind=syntax.py:Mean", 1, "syntax.py, line 2: class Mean"),
    ("lacks a package", "run run.toml --set objective.kind=imports.py:Mean", 1, "No module named 'no_such_package'"),
    ("returned a bare loss", "run run.toml --set objective.kind=number.py:Mean", 1, 'a dictionary of numbers with "loss"'),
    # privacy
    ("forgot delta", "run run.toml --set privacy.mechanism=minibatch", 1, "privacy.delta is missing"),
    ("forgot the mechanism", "run run.toml --set privacy.epsilon=1", 1, "remove that key, or choose a mechanism"),
    ("mistyped the mechanism", "run private.toml --set privacy.mechanism=gauss", 1, 'mechanism must be "none", "minibatch"'),
    ("asked for too little epsilon", "run private.toml --set privacy.epsilon=0.01", 1, "is less than this run costs"),
    ("gave delta in percent", "run private.toml --set privacy.delta=2", 1, "privacy.delta must be a number between 0 and 1"),
    ("planned without a budget", "plan --records 100 --gradients 200 --delta 1e-5", 2, "Missing option '--epsilon'"),
    ("planned for epsilon 0", PLAN.replace("epsilon 1", "epsilon 0"), 1, "epsilon must lie above 0 and at most 100, got 0"),
    ("planned for one record", PLAN.replace("records 100", "records 1"), 1, "one record is too few: a round draws a part"),
    ("planned over a file", f"{PLAN} --write run.toml", 1, "run.toml exists already; name another file with --write"),
    ("planned into no folder", f"{PLAN} --write no/plan.toml", 1, "there is no folder no to write plan.toml to"),
    ("accounted for nothing", "account", 1, "name one thing to account for: a run file, the folder of a run, --ledger"),
    ("mistyped the run", "account runs/x", 1, "runs/x is neither a run file nor the folder of a run"),
    ("added one run twice", "account private.toml private.toml", 1, "private.toml is named twice"),
    ("added a run that is not private", "account private.toml run.toml", 1, "run.toml claims no privacy, so the total cost"),
    ("accounted at delta 2", "account private.toml --delta 2", 1, "delta must lie strictly between 0 and 1, got 2.0"),
    ("audited what claims nothing", "audit run.toml", 1, "claims no privacy, so there is nothing to audit"),
    ("forgot the mechanism's name", "audit own.py --epsilon 1 --delta 1e-5", 1, "name the mechanism in it too: own.py:NAME"),
    ("forgot what it claims", "audit own.py:Mean", 1, "that own.py:Mean claims with --epsilon and --delta"),
    ("planted canaries in code", "audit own.py:Mean --epsilon 1 --delta 1e-5 --canaries 50", 1, "--canaries are for a run file"),
    # networks
    ("served without a name", "serve run.toml --listen 127.0.0.1:0 --state s", 1, "serve.federation is missing; name the"),
    ("forgot the port", "serve run.toml --listen localhost --state s", 1, "localhost is not HOST:PORT; write for example"),
    ("asked nobody", "status 127.0.0.1:1", 1, "does not answer: nothing is listening there; is the server running"),
    ("joined with no such data", f"{JOIN} --policy policy.toml --data no.csv", 1, "there is no file no.csv; check the path"),
    ("joined with no policy", f"{JOIN} --policy no.toml", 1, "`crescendo join --help` shows one"),
    ("forgot the policy's delta", f"{JOIN} --policy no_delta.toml", 1, "delta is missing; add, for example, delta = 1e-6"),
    ("mistyped the policy's key", f"{JOIN} --policy typo_policy.toml", 1, "no key mechanism; did you mean mechanisms?"),
    ("gave a run file as policy", f"{JOIN} --policy run.toml", 1, "run.toml is a run file, not a policy"),
    ("joined from afar in the clear", JOIN.replace("127.0.0.1", "10.0.0.1") + " --policy policy.toml", 1, "so TLS is needed"),
    ("verified a wrong folder", "verify empty_folder", 1, "is neither the state of a server or client nor a ledger"),
    # runs and studies
    ("exported no run", "export runs/x --to npz", 1, "there is no folder runs/x; name one that `crescendo run` made"),
    ("exported to another format", "export empty_folder --to pickle", 1, "sklearn, onnx, npz, not to 'pickle'"),
    ("checked no run", "check runs/x", 1, "there is no folder runs/x; name one that `crescendo run` made"),
    ("swept nothing", "sweep run.toml", 1, "--over clients.count=2,5,10 or --over run.seed=0..4"),
    ("swept a mistyped key", "sweep run.toml --over clients.cuont=1,2", 1, "did you mean clients.count?"),
    ("compared with nothing", "compare run.toml", 1, "a comparison needs a rival; name one or more with --with"),
    ("mistyped a rival", "compare run.toml --with fedavgg", 1, 'there is no algorithm "fedavgg"; did you mean "fedavg"?'),
    ("reproduced with the package", "reproduce all --seeds 2", 2, "type `python -m lab reproduce all --seeds 2`"),
]  # fmt: skip
