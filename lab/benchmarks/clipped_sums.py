"""Sums of clipped gradients of LeNet-5, B records at a time: our torch path, our JAX path, and Opacus in each of its modes.

    python -m lab.benchmarks.clipped_sums [--turns 15] [--threads one|all]

All have the same weights and records, and the sums are compared. Each contestant is a process with one thread; Opacus also runs
with torch's default number of threads. The contestants are timed in turns, one at a time, so that other load on the machine
affects all of them equally. Peak memory comes from further processes, one for each number of records. Crescendo does not depend
on Opacus: without it (pip install opacus) only our paths are timed.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import math
import multiprocessing
import resource
import time
import warnings
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from crescendo.core.arrays import Floats

BATCHES, TURNS, CLIP, UNIT = (64, 128, 256, 512), 15, 1.0, 2.0**-40
MODES = ("hooks", "ew", "functorch")
FIRST = "opacus hooks"
Sum = Callable[[int], Floats]  # takes the number of records


def records() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.random((max(BATCHES), 784), dtype=np.float32), rng.integers(0, 10, max(BATCHES))


def module() -> Any:
    import torch

    from crescendo.objectives.nets.torch_nets import lenet

    torch.manual_seed(0)
    return lenet(784)


def weights() -> Floats:
    return np.concatenate([value.detach().numpy().ravel() for value in module().parameters()]).astype(np.float64)


def pairs(shapes: Sequence[tuple[int, ...]], w: Floats) -> list[Any]:
    """Split the vector into weights and biases of layers."""
    sizes = [size for shape in shapes for size in (math.prod(shape), shape[0])]
    parts = iter(np.split(w.astype(np.float32), np.cumsum(sizes)[:-1]))
    return [(next(parts).reshape(shape), next(parts)) for shape in shapes]


def ours(library: str, w: Floats) -> Sum:
    """Make the sum as the `minibatch` mechanism does for a round."""
    import crescendo
    from crescendo.data.records import Records
    from crescendo.objectives.own import OwnModel

    x, y = records()
    data = Records(x, y.astype(np.float64))
    if library == "jax":
        from crescendo.objectives.nets.jax_nets import lenet

        net = lenet(784)
        goal = OwnModel(crescendo.jax.model(net.loss, pairs(net.shapes, w), predict=net.predict), data)
    else:
        goal = OwnModel(crescendo.torch.model(module()), data)
    return lambda count: goal.gradient(w, data, np.arange(count), clip=CLIP, unit=UNIT)


def opacus(mode: str) -> Sum:
    """Make the sum as Opacus' DPOptimizer does before it adds noise."""
    import torch

    wrap_model: Any = importlib.import_module("opacus.grad_sample.utils").wrap_model
    optimiser_of: Any = importlib.import_module("opacus.optimizers").DPOptimizer
    x, y = (torch.from_numpy(part) for part in records())
    net = wrap_model(module(), grad_sample_mode=mode)
    plain = torch.optim.SGD(net.parameters(), lr=0.1)
    optimiser = optimiser_of(plain, noise_multiplier=0.0, max_grad_norm=CLIP, expected_batch_size=1)

    def summed(count: int) -> Floats:
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(net(x[:count]), y[:count]).backward()  # type: ignore[no-untyped-call]
        optimiser.clip_and_accumulate()
        return np.concatenate([value.summed_grad.numpy().ravel() for value in optimiser.params]).astype(np.float64)

    return summed


def contestant(name: str, w: Floats, line: Connection) -> None:
    """Answer with the sum of B records, the seconds for ``times`` such sums, or megabytes: at the peak, and due to the sums."""
    warnings.simplefilter("ignore")
    kind, how, *threads = name.split()
    if kind == "opacus" or how == "torch":
        import torch

        if not threads:
            torch.set_num_threads(1)
    summed = ours(how, w) if kind == "ours" else opacus(how)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    line.send(None)
    while (asked := line.recv()) is not None:
        what, count, times = asked
        began = time.perf_counter()
        for _ in range(times):
            found = summed(count)
        took, peak = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        line.send({"sum": found, "seconds": took, "megabytes": (peak, peak - before)}[what])


class Contestant:
    """The parent's end of a contestant's process."""

    def __init__(self, name: str, w: Floats) -> None:
        spawned = multiprocessing.get_context("spawn")
        self._line, theirs = spawned.Pipe()
        self._process = spawned.Process(target=contestant, args=(name, w, theirs), daemon=True)
        self._process.start()
        theirs.close()
        self._line.recv()

    def ask(self, what: str, count: int, times: int = 1) -> Any:
        self._line.send((what, count, times))
        return self._line.recv()

    def end(self) -> None:
        self._line.send(None)
        self._process.join()


def main() -> None:
    """Print records a second, the speed relative to Opacus' hooks (the median of all turns), and memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--threads", choices=("one", "all"), help="leave out Opacus with all threads, or with one")
    said, w = parser.parse_args(), weights()
    names = ["ours jax", "ours torch"]
    if importlib.util.find_spec("opacus") is None:
        print("Opacus is not installed, so that ours are timed alone: pip install opacus")
    else:
        names += [f"opacus {mode}" for mode in MODES if said.threads != "all"]
        names += [f"opacus {mode} all-threads" for mode in MODES if said.threads != "one"]
    first = next((name for name in names if name.startswith(FIRST)), names[0])
    running = {name: Contestant(name, w) for name in names}
    for count in BATCHES:
        due = running["ours torch"].ask("sum", count)
        for name, one in running.items():
            off = np.linalg.norm(one.ask("sum", count) - due) / np.linalg.norm(due)
            assert off <= 1e-5, f"{name} is off by {off:.2g}"
    print(f"| records | by | a second | of {first} | peak, MB | of it by the sum, MB |\n|---|---|---|---|---|---|")
    for count in BATCHES:
        times = max(BATCHES) // count
        took = {name: np.zeros(said.turns) for name in names}
        for turn in range(said.turns):
            for name, one in running.items():
                took[name][turn] = one.ask("seconds", count, times)
        for name in names:
            fresh = Contestant(name, w)
            peak, by_sum = fresh.ask("megabytes", count, 3)
            fresh.end()
            ratio, speed = np.median(took[first] / took[name]), max(BATCHES) / np.median(took[name])
            print(f"| {count} | {name} | {speed:,.0f} | {ratio:.2f} | {peak:.0f} | {by_sum:.0f} |", flush=True)
    for one in running.values():
        one.end()


if __name__ == "__main__":
    main()
