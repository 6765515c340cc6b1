"""Other people's kernels as references: TFLite's three kernel sets and onnxruntime without optimisation.

Both packages are optional; without them a ToolError says what to install.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from atonc.errors import InputError, ToolError, plain
from atonc.frontends import flatbuffer, limits
from atonc.frontends.tflite import operator_name
from atonc.frontends.tflite_schema import CodeField, ModelField
from atonc.ir import Array

KERNEL_SETS = ("reference", "optimised", "xnnpack")
_RESOLVERS = {"reference": "BUILTIN_REF", "optimised": "BUILTIN_WITHOUT_DEFAULT_DELEGATES", "xnnpack": "BUILTIN"}


def run_tflite(
    path: Path, inputs: Mapping[str, Array] | list[Array], kernels: str = "reference", all_tensors: bool = False
) -> dict[str, Array]:
    """Outputs (or every tensor that the kernels leave behind) by tensor name."""
    interpreter = _interpreter(path, kernels, all_tensors)
    details = interpreter.get_input_details()
    values = inputs if isinstance(inputs, list) else [inputs[d["name"]] for d in details]
    for detail, value in zip(details, values, strict=True):
        interpreter.set_tensor(detail["index"], np.ascontiguousarray(value.astype(detail["dtype"])))
    try:
        interpreter.invoke()
    except (RuntimeError, ValueError) as error:
        raise InputError(f"TFLite cannot run it: {str(error)[:300]}", where=str(path)) from error
    wanted = interpreter.get_tensor_details() if all_tensors else interpreter.get_output_details()
    found = {d["name"]: _get(interpreter, d["index"]) for d in wanted}
    return {name: value for name, value in found.items() if value is not None}


def _content(path: Path, kernels: str) -> bytes:
    """The model; for the reference kernels with an older version of TILE, whose one kernel they register too low."""
    data = bytearray(limits.read_bytes(path))
    if kernels != "reference":
        return bytes(data)
    for code in flatbuffer.root(bytes(data), b"TFL3").tables(ModelField.OPERATOR_CODES):
        if operator_name(code) == "TILE" and code.int32(CodeField.VERSION, 1) > 2:
            struct.pack_into("<i", data, code.position_of(CodeField.VERSION), 2)
    return bytes(data)


def _interpreter(path: Path, kernels: str, all_tensors: bool) -> Any:
    try:
        from ai_edge_litert import interpreter as litert
    except ImportError as error:
        raise ToolError("ai-edge-litert is not installed", remedy="pip install ai-edge-litert") from error
    resolver = getattr(litert.OpResolverType, _RESOLVERS[kernels])
    try:
        made = litert.Interpreter(
            model_content=_content(path, kernels),
            num_threads=1,
            experimental_op_resolver_type=resolver,
            experimental_preserve_all_tensors=all_tensors,
        )
        made.allocate_tensors()
    except (RuntimeError, ValueError) as error:
        raise InputError(f"TFLite cannot run it: {str(error)[:300]}", where=str(path)) from error
    return made


def _get(interpreter: Any, index: int) -> Array | None:
    try:
        return np.array(interpreter.get_tensor(index))
    except ValueError:  # scratch tensors hold nothing
        return None


def run_onnx(path: Path, inputs: Mapping[str, Array], all_tensors: bool = False) -> dict[str, Array]:
    """Outputs (or every named value) of onnxruntime with graph optimisation off."""
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        raise ToolError("onnx or onnxruntime is not installed", remedy="pip install onnx onnxruntime") from error
    model = onnx.load(str(path), load_external_data=False)
    if all_tensors:
        listed = {output.name for output in model.graph.output}
        names = dict.fromkeys(name for node in model.graph.node for name in node.output if name)
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in listed)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names_out = [output.name for output in session.get_outputs()]
    given = {one.name: inputs[plain(one.name)] for one in session.get_inputs()}  # as the front end calls them
    return dict(zip(map(plain, names_out), session.run(names_out, given), strict=True))
