"""Data: sources of records (`load`, `dataset`) and their split over clients (`split`, `weights`)."""

from crescendo.data.from_arrays import dataset
from crescendo.data.partition import client_names, split, weights
from crescendo.data.reading import load
from crescendo.data.records import Dataset, Records, as_records
from crescendo.data.registry import SourceInfo, catalogue

__all__ = [
    "Dataset",
    "Records",
    "SourceInfo",
    "as_records",
    "catalogue",
    "client_names",
    "dataset",
    "load",
    "split",
    "weights",
]
