"""TFLite: the model's own file, in which what the NPU runs is one custom operator; and a kernel for TFLite Micro.

The operator's data hold the relocatable image and a map of its memories. What the network begins or ends without
(`--cut-input-tensors`, `--cut-output-tensors`, operators whose sizes depend on values) stays as TFLite operators.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

import numpy as np

from atonc.compiler.emit.c.buffers_info import Info
from atonc.compiler.frontends import limits
from atonc.compiler.frontends.read import is_tflite
from atonc.delivery.firmware.building import runtime_folder
from atonc.delivery.layouts import layout as ways
from atonc.delivery.layouts import tflite_model
from atonc.delivery.layouts.layout import FolderLayout, LayoutNetwork, LayoutRefusal
from atonc.delivery.layouts.tflite_model import CODE, LINE, NpuOperator, Replacement, TfliteModel, read_model
from atonc.delivery.reloc.image import read_image
from atonc.delivery.reloc.options import RelocOptions
from atonc.machine.base.templates import render_folder
from atonc.machine.base.words import count, listed

_TYPES = {"float32": "FLOAT", "float64": "DOUBLE"}  # where the runtime calls them otherwise than in capitals
_FORGETS = "other operators and networks may use the NPU's memories between two inferences"
_KEPT = "the file keeps the model's inputs and outputs as they are"


def _files(given: LayoutNetwork) -> Mapping[str, bytes]:
    model = read_model(_data(given))
    image = read_image(given.image, given.name)
    inputs, outputs = _edges(given, model)
    operator = NpuOperator(given.image, len(inputs), len(outputs))
    names = {k: name for side, infos in _sides(given) for k, name in zip(_numbers(model, side), side, strict=True)}
    shapes = {k: tuple(given.view.compiled.source.tensors[name].shape) for k, name in names.items()}
    new = Replacement(inputs, outputs, shapes, operator.stored(ways.memory_map(given)))
    before, after = tflite_model.kept(model, inputs, outputs)
    left = [model.operators[k].code for k in (*before, *after)]
    words = {
        **ways.words_of(given),
        **{"code": CODE, "line": LINE, "exec_ram": f"{image.xip_bytes:,}"},
        "external_ram": f"{image.context.ext_ram_bytes:,}",
        "file_size": f"{len(given.image):,}",
        "left": f"{count(len(left), 'operator')} beside it ({listed(sorted(set(left)))})" if left else "nothing else",
    }
    sources = (*runtime_folder("tflm").iterdir(), *runtime_folder("interpreters").iterdir())
    kernel = {path.name: path.read_bytes() for path in sorted(sources)}
    runtime = ways.runtime_files("runtime")
    return {
        f"{given.name}.tflite": tflite_model.replaced(model, new),
        **render_folder("layouts/tflite", words),
        **{f"kernel/{name}": text for name, text in kernel.items()},
        **runtime,
    }


def _data(given: LayoutNetwork) -> bytes:
    return limits.model_bytes(given.view.path) if given.view.path is not None else b""


def _sides(given: LayoutNetwork) -> tuple[tuple[Sequence[str], list[Info]], ...]:
    source = given.view.compiled.source
    return (source.inputs, given.inputs), (source.outputs, given.outputs)


def _numbers(model: TfliteModel, names: Sequence[str]) -> tuple[int, ...]:
    return tuple(model.names.index(name) if name in model.names else -1 for name in names)


def _edges(given: LayoutNetwork, model: TfliteModel) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Tensors of the file in the order of the network's inputs and outputs."""
    inputs, outputs = (_numbers(model, names) for names, _ in _sides(given))
    return inputs, outputs


def _refuses(given: LayoutNetwork) -> Iterator[LayoutRefusal]:
    path, data = given.view.path, _data(given)
    if path is None or not is_tflite(path, data):
        rule = "it is the model's own file with operators replaced"
        yield LayoutRefusal("the model is no TFLite file", rule, "export it as TFLite, or take another --layout")
        return
    tflite_model.load_schema()
    model = read_model(data)
    silent = sorted({row.code for row in model.operators if not row.outputs})
    if not silent:  # as inputs and outputs, its variables would be more than the model has
        yield from _tensors(given, model)
    if silent or given.network.program.states:
        seen, asked = f"it has {listed(silent)}" if silent else "it keeps states", given.view.options.states
        fix = "export the model with its states as inputs and outputs" if silent or not asked else "leave --state out"
        yield LayoutRefusal(seen, "one custom operator keeps nothing from run to run", fix)
    yield from ways.refuse_lasting(given, _FORGETS)


def _tensors(given: LayoutNetwork, model: TfliteModel) -> Iterator[LayoutRefusal]:
    source = given.view.compiled.source
    if len(given.inputs) != len(source.inputs) or len(given.outputs) != len(source.outputs):
        yield LayoutRefusal(
            "the network has other inputs or outputs than the model",
            _KEPT,
            "leave --state out" if given.view.options.states else "compile the model as it is",
        )
        return
    for names, infos in _sides(given):
        for name, number, info in zip(names, _numbers(model, names), infos, strict=True):
            dtype, shape = source.tensors[name].dtype, source.tensors[name].shape
            kind = _TYPES.get(dtype, dtype.upper())
            same = number >= 0 and model.types[number] == dtype and info.type == kind
            if not same or prod(shape) * np.dtype(dtype).itemsize != info.size_bytes:
                seen = f"{name} of the model is {dtype} {shape}, of the network {info.type.lower()} {info.mem_shape}"
                yield LayoutRefusal(seen, _KEPT, "leave --input-data-type and --output-data-type out")
    options = given.view.options
    if options.inputs_channel_position or options.outputs_channel_position:
        yield LayoutRefusal("channels are to change places", _KEPT, "leave --inputs-ch-position and the like out")
    inputs, outputs = _edges(given, model)
    made = {tensor for k in model.behind(outputs, inputs) for tensor in model.operators[k].outputs}
    through = [name for name, k in zip(source.outputs, outputs, strict=True) if k not in made or k in inputs]
    if through:
        yield LayoutRefusal(f"no operator makes {listed(through)}", "an operator gives what it computes",
                            "--cut-output-tensors with the other outputs")  # fmt: skip


LAYOUT = FolderLayout(
    name="tflite",
    title="the model's own file with a custom operator for the NPU, and a kernel for TFLite Micro",
    page="tflite_out.md",
    files=_files,
    refuses=_refuses,
    image=RelocOptions(),
    package=("ai_edge_litert", "tflite"),
    forgets=_FORGETS,
    carries=False,
)
