"""`make coinstall`: does `crescendo-fl[network]` install beside what people have already? Each pair is resolved by itself."""

import sys
import tempfile
from pathlib import Path

from deploy.resolving import Unresolved, resolved

BESIDE = ("flwr", "mlflow-skinny", "tensorboard", "wandb", "opacus", "jax-privacy")
TORCH = "torch==2.13.0\n"  # any other may bring gigabytes of packages for a GPU


def main() -> int:
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        constraints = Path(folder) / "torch.txt"
        constraints.write_text(TORCH)
        for other in BESIDE:
            try:
                versions = {one.name: one.version for one in resolved(".[network]", other, constraints=constraints)}
                shared = ", ".join(f"{name} {versions[name]}" for name in ("protobuf", "grpcio", "numpy", "typer"))
                print(f"{other} {versions[other]}: resolves, with {shared}", flush=True)
            except Unresolved as why:
                failed += 1
                print(f"{other}: does not resolve\n{why}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
