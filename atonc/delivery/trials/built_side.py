"""A network that was built before, beside the model that it was made from: samples are its, bytes the folder's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.compile.pipeline import read_model
from atonc.compiler.compile.reproduce import edges_of
from atonc.compiler.inputs.inputs import Sample, edge_values, real
from atonc.compiler.passes import order
from atonc.compiler.request.options import Options
from atonc.delivery.trials.built import BuiltNetwork
from atonc.delivery.trials.targeting import FolderSide, Turn
from atonc.insight.runs import runs
from atonc.insight.validating.judging import OutputResult, distance, unit_of
from atonc.insight.validating.references import References
from atonc.machine.base.errors import InputError
from atonc.machine.emu import tensors
from atonc.machine.emu.files.types import BufferInfo


class BuiltSide(FolderSide):
    """`source` and `graph` are the model as `References` want it; nothing is compiled."""

    def __init__(self, built: BuiltNetwork, model: Path, given: Options, looked: tuple[str, ...] = ()) -> None:
        """`given`: where the folder does not tell the options of its edges, the user must."""
        super().__init__(runs.load(runs.RunOptions(built.c_file.parent, built.c_file.stem)), looked)
        self.built = built
        edges = edges_of(built.asked.options) if built.asked else given
        self.source = read_model(model, edges)
        self.graph = order.run(self.source, edges)
        self._require(self.graph.inputs, self.net.inputs, "inputs")
        self._require(self.graph.outputs, self.net.outputs, "outputs")

    def _require(self, names: Sequence[str], infos: Sequence[BufferInfo], what: str) -> None:
        ours = [_text(self.graph.tensors[name].elements, np.dtype(self.graph.tensors[name].dtype)) for name in names]
        theirs = [_text(int(np.prod(tensors.io_shape(info))), tensors.dtype_of(info)) for info in infos]
        if ours != theirs:
            raise InputError(
                f"its {what} are {', '.join(theirs)}, those of {self.source.name or 'the model'} {', '.join(ours)}",
                where=str(self.built.c_file),
                rule="a folder is validated against the model that it was built from",
                remedy="name that model; give --input-data-type and --output-data-type as for the build",
            )

    def expect(self, sample: Sample) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
        values = edge_values(self.source, self.graph, sample)
        return self.run([values[name] for name in self.graph.inputs])

    def figures(self, references: References, samples: Sequence[Sample], turns: Sequence[Turn]) -> list[OutputResult]:
        """ST's figures: what the board computed against the model's own kernels."""
        expected = [references.outputs(self, sample)[references.yardstick] for sample in samples]
        found = []
        for k, name in enumerate(self.graph.outputs):
            theirs = np.stack([values[k].astype(np.float32) for values in expected])
            mine = np.stack([self._real(k, turn.outputs[k]) for turn in turns])
            one = distance("board", theirs, mine, unit_of(self.graph, name, theirs))
            found.append(OutputResult(name, one.metrics, one.max_lsb))
        return found

    def _real(self, k: int, data: bytes) -> NDArray[Any]:
        tensor = self.graph.tensors[self.graph.outputs[k]]
        codes = np.frombuffer(data, tensors.dtype_of(self.net.outputs[k]))[: tensor.elements].reshape(tensor.shape)
        return real(tensor, codes).astype(np.float32)


def _text(elements: int, dtype: np.dtype[Any]) -> str:
    return f"{elements:,} x {dtype.name}"
