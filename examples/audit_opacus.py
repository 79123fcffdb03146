# mypy: ignore-errors
"""A step of Opacus itself: its optimizer clips each record's gradient and adds the noise. Needs `pip install opacus`.

The event of the step is (noise_multiplier 1.0, sample_rate 0.25), which costs 2.707 at delta 1e-5. A loader that does not draw
records independently (`poisson_sampling=False`) does not earn the sample rate. Its releases are Gaussian, which `--gaussian`
says, so that some thousand steps are enough:

    crescendo audit examples/audit_opacus.py:Step --epsilon 2.71 --delta 1e-5                  # passes
    crescendo audit examples/audit_opacus.py:Undrawn --epsilon 2.71 --delta 1e-5 --gaussian    # fails
"""

import warnings

import numpy as np

NOISE, CLIP, RATE, FEATURES = 1.0, 1.0, 0.25, 4


class Step:
    """Records are features, and a label in the last column; the release is how far the weights move."""

    rate = RATE

    def __init__(self):
        import torch
        from opacus import GradSampleModule
        from opacus.optimizers import DPOptimizer

        warnings.filterwarnings("ignore", "Full backward hook")  # PyTorch's, of a model whose input needs no gradient
        self.torch = torch
        self.noise = torch.Generator()
        self.model = GradSampleModule(torch.nn.Linear(FEATURES, 1, bias=False))
        self.weight = next(self.model.parameters())
        plain = torch.optim.SGD(self.model.parameters(), lr=1.0)
        settings = {"noise_multiplier": NOISE, "max_grad_norm": CLIP, "expected_batch_size": 1}
        self.optimizer = DPOptimizer(plain, **settings, generator=self.noise)

    def __call__(self, records, rng):
        torch = self.torch
        self.noise.manual_seed(int(rng.integers(2**63)))
        drawn = torch.from_numpy(records[rng.random(len(records)) < self.rate]).float()
        with torch.no_grad():
            self.weight.fill_(0.1)
        self.optimizer.zero_grad()
        scores = self.model(drawn[:, :FEATURES]).squeeze(1)
        torch.nn.functional.softplus(-scores * torch.sign(drawn[:, FEATURES])).sum().backward()
        self.optimizer.step()
        return self.weight.detach().numpy().astype(np.float64)


class Undrawn(Step):
    """Every record is in every step."""

    rate = 1.0
