"""Inputs that users say are typical of theirs (`--calibration`), as the program takes them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from atonc.compiler.ir import Array, Graph

MOST_GIVEN = 8  # inputs that are taken into account, spread over all that are there
MOST_VERIFIED = 4  # of these the program is verified on, since each takes as long as a synthetic one


def given_inputs(source: Graph, graph: Graph, files: Sequence[str], most: int = MOST_GIVEN) -> list[dict[str, Array]]:
    """Reads at most so many inputs, in the formats of the canonical graph."""
    if not files:
        return []
    from atonc.compiler.inputs.inputs import (
        edge_values,  # with the readers of files, which most compilations do without
    )
    from atonc.compiler.inputs.sample_files import read_samples

    samples = read_samples(source, [Path(file) for file in files], None)
    return [edge_values(source, graph, sample) for sample in spread(samples, most)]


T = TypeVar("T")


def spread(samples: Sequence[T], most: int) -> list[T]:
    """The first one, and others at equal distances."""
    count = min(most, len(samples))
    return [samples[k * len(samples) // count] for k in range(count)]
