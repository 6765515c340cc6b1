"""The backend's half on the computer: a part of a program as the data of a delegate."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from torch._export.verifier import Verifier
from torch.export import ExportedProgram

from atonc.compiler.request.options import Options
from atonc.delivery.executorch.operators import COPIES, MOVED
from atonc.delivery.generate import generating
from atonc.delivery.layouts import layout as ways
from atonc.delivery.layouts.every import layout_files, with_layout
from atonc.delivery.layouts.layout import FolderLayout, LayoutNetwork, LayoutRefusal
from atonc.delivery.layouts.tflite_model import NpuOperator
from atonc.delivery.reloc.options import RelocOptions
from atonc.insight.quantizing.from_torch import onnx_of_program
from atonc.machine.base.declare import arguments
from atonc.machine.base.errors import AtoncError, CapacityError, UnsupportedError

OPTIONS = "atonc_options"  # of a compile spec: options of the compiler as JSON
_KEEPS_OUT = "AtonPartitioner(outside=(PATH,)) keeps a module with this path out of delegates"
_FORGETS = "other delegates and networks may use the NPU's memories between two inferences"


class AtonBackend(BackendDetails):  # type: ignore[misc]
    """Its name is the delegate's in the .pte file."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        given: dict[str, Any] = next((json.loads(spec.value) for spec in compile_specs if spec.key == OPTIONS), {})
        return PreprocessResult(processed_bytes=delegate_data(edge_onnx(edge_program), given))


def edge_onnx(program: ExportedProgram) -> Any:
    """A part of a program in ExecuTorch's edge dialect, as ONNX with QuantizeLinear and DequantizeLinear."""
    for node in program.graph.nodes:
        if isinstance(node.target, EdgeOpOverload):
            node.target = MOVED.get(node.target._op, node.target._op)
        if node.target in COPIES:  # axes stay in their order, or the partitioner would not have taken it
            node.target, node.args, node.kwargs = torch.ops.aten.clone.default, node.args[:1], {}
    aten = ExportedProgram(
        root=program.graph_module,
        graph=program.graph,
        graph_signature=program.graph_signature,
        state_dict=program.state_dict,
        range_constraints=program.range_constraints,
        module_call_graph=program.module_call_graph,
        constants=program.constants,
        verifiers=[Verifier],
    )
    return onnx_of_program(aten, "delegate")


def delegate_data(model: Any, options: Mapping[str, Any]) -> bytes:
    """The compiled network as a relocatable image, with a map of its memories."""
    with tempfile.TemporaryDirectory(prefix="atonc_") as folder:
        path = Path(folder, "delegate.onnx")
        path.write_bytes(model.SerializeToString(deterministic=True))
        try:
            view = generating.analyze(path, with_layout(arguments(Options, options), LAYOUT))
            return layout_files(LAYOUT, view)["delegate"]
        except AtoncError as error:  # the file is nobody's
            error.where = error.where.replace(str(path), "the delegate").replace(path.name, "the delegate")
            if isinstance(error, (UnsupportedError, CapacityError)):
                error.remedy = "; ".join(filter(None, (error.remedy, _KEEPS_OUT)))
            raise


def _files(given: LayoutNetwork) -> Mapping[str, bytes]:
    operator = NpuOperator(given.image, len(given.inputs), len(given.outputs))
    return {"delegate": operator.stored(ways.memory_map(given))}


def _refuses(given: LayoutNetwork) -> Iterator[LayoutRefusal]:
    yield from ways.refuse_lasting(given, _FORGETS)


LAYOUT = FolderLayout(
    name="executorch",
    title="the data of a delegate",
    page="executorch.md",
    files=_files,
    refuses=_refuses,
    image=RelocOptions(),
    forgets=_FORGETS,
    carries=False,
)
