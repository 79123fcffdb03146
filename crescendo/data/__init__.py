"""Where records come from (`load`) and how they are spread over clients (`split`, `weights`)."""

from crescendo.data.partition import client_names, split, weights
from crescendo.data.public import SourceInfo, catalogue
from crescendo.data.records import Dataset, Records, as_records
from crescendo.data.registry import load

__all__ = [
    "Dataset",
    "Records",
    "SourceInfo",
    "as_records",
    "catalogue",
    "client_names",
    "load",
    "split",
    "weights",
]
