"""Imported first by the process that the tests' children are forked from: its BLAS libraries start no threads."""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # else a pool of threads begins when numpy or scipy is imported
