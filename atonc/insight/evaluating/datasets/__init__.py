"""Data sets: looked at as a whole before the work begins, read sample by sample while it runs."""

from atonc.insight.evaluating.datasets.find import open_data
from atonc.insight.evaluating.datasets.types import Dataset, DatasetEntry

__all__ = ["Dataset", "DatasetEntry", "open_data"]
