"""What ST's tool leaves beside the files of a network, for scripts that copy, read or grep it.

From public folders of releases 2.0 to 4.0: `analyze` writes the same C files and images as `generate`, with another
report; the workspace (`st_ai_ws`) holds a folder of the NPU's compiler, and in release 2.0 also NAME_report.json, which
the model zoo of that time reads. It is written for every release: no script minds a file more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any

from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.emit.write import to_json
from atonc.compiler.ir import Graph
from atonc.compiler.lower.context import item_bytes
from atonc.delivery.firmware import host_library
from atonc.delivery.generate.st_call import WORKSPACE, StCall
from atonc.insight.report import compile_text
from atonc.insight.validating.judging import OutputResult
from atonc.machine.base.disk import write_files

_REPORT_VERSION = 1.1
_METRICS = ("acc", "rmse", "mae", "l2r", "mean", "std", "nse", "cos")
Files = dict[str, bytes]
_TYPES = {"float32": "float", "int8": "s8", "uint8": "u8", "int16": "s16", "uint16": "u16", "int32": "s32"}


def write_workspace(view: CompileView, call: StCall, files: Mapping[str, bytes]) -> CompileView:
    """What the tool keeps beside the files of a build."""
    written: list[Path] = []
    if call.dll and view.options.no_npu:
        place = (call.workspace or WORKSPACE) / f"inspector_{view.name}" / "workspace" / "lib"
        used = [(p.base, p.size_bytes) for p in view.board.pools if view.memory.by_pool.get(p.name, 0)]
        written += host_library.build(files, view.name, used, place)
    if call.workspace is not None:
        work = call.workspace / f"neural_art__{view.name}"
        work.mkdir(parents=True, exist_ok=True)
        write_files(work, _compiler_files(files, view.name) | {"network.csv": compile_text.epochs_csv(view).encode()})
        written += write_files(call.workspace, {f"{view.name}_report.json": to_json(report(view, call))})
    return replace(view, files=(*view.files, *map(str, written)))


def named(made: Mapping[str, bytes], name: str, call: StCall) -> dict[str, bytes]:
    """Our files with who answered, what was asked, and the report under the name of its verb."""
    files = dict(made)
    _, _, *rest = files.pop(f"{name}_generate_report.txt").decode().split("\n")
    head = [call.banner, f"Parameters            : {call.arguments}"]
    files[call.report_name(name)] = "\n".join([*head, *rest]).encode()
    info: dict[str, Any] = json.loads(files[f"{name}_c_info.json"])
    tool = info["environment"]["tools"][0]
    tool["name"], tool["version"] = call.tool
    tool["arguments"] = call.arguments
    files[f"{name}_c_info.json"] = to_json(info)
    return files


def _compiler_files(files: Mapping[str, bytes], name: str) -> dict[str, bytes]:
    """The part that the NPU's compiler gives, by its own names."""
    ours = {f"{name}.c", f"{name}.h", f"{name}_ecblobs.h", f"stai_{name}.c", f"stai_{name}.h"}
    found = {file: content for file, content in files.items() if file in ours}
    images = {file[len(name) + 1 :]: content for file, content in files.items() if file.endswith(".raw")}
    return found | images | {"c_info.json": files[f"{name}_c_info.json"]}


def report(view: CompileView, call: StCall) -> dict[str, Any]:
    """NAME_report.json of release 2.0: sizes in bytes, multiplications, inputs and outputs."""
    graph, memory = view.compiled.graph, view.memory
    constants = [tensor for tensor in view.compiled.source.tensors.values() if tensor.is_constant]
    version = dict(zip(("major", "minor", "micro", "extra"), [*map(int, call.core.partition("-")[0].split(".")),
                                                              call.core.partition("-")[2]], strict=True))  # fmt: skip
    model = Path(view.model)
    return {
        "cli_parameters": call.arguments,
        "cli_version": version,
        "cli_version_str": call.core,
        "tools_version": call.tool[1],
        "tools_api_version": call.core,
        "exec_cmd": call.verb,
        "error": 0,
        "error_str": [],
        "report_version": _REPORT_VERSION,
        "name": view.name,
        "model_name": model.stem,
        "model_files": [view.model],
        "model_type": model.suffix.lstrip("."),
        "model_n_params": sum(tensor.elements for tensor in constants),
        "model_size": sum(tensor.elements * item_bytes(tensor) for tensor in constants),
        "inputs": list(graph.inputs),
        "outputs": list(graph.outputs),
        "rom_inputs": [_edge(graph, name) for name in graph.inputs],
        "rom_outputs": [_edge(graph, name) for name in graph.outputs],
        "rom_n_macc": view.macs,
        "rom_size": memory.weights_bytes,
        "rom_cfact": 1.0,
        "ram_size": memory.ram_bytes,
        "ram_io_size": [sum(_edge(graph, name)["c_size"] for name in side) for side in (graph.inputs, graph.outputs)],
        "predicted_ms": view.cost.latency_ms,
        "compression": [],
        "val_metrics": [],
    }


def _edge(graph: Graph, name: str) -> dict[str, Any]:
    tensor = graph.tensors[name]
    size = tensor.elements * item_bytes(tensor)
    return {"name": name, "c_size": size, "c_type": _TYPES.get(tensor.dtype, tensor.dtype)}


def validated(call: StCall, name: str, device: str, outputs: Sequence[OutputResult], lines: Sequence[str]) -> Files:
    """What `validate` leaves in its folder: NAME_validate_report.txt, NAME_c_info_valid.json."""
    rows = [
        {"desc": f"X-cross #{k}", "ts_name": output.name} | {one: _number(output, one) for one in _METRICS}
        for k, output in enumerate(outputs, 1)
    ]
    worst = max((row["rmse"] for row in rows if row["rmse"] is not None), default=-1.0)
    tool = {"name": call.tool[0], "version": call.tool[1], "arguments": call.arguments, "environment": []}
    found = {
        "environment": {"generated_model": {"name": name}, "target": device, "tools": [tool]},
        "json_schema_version": "2.0",
        "validation": {
            "device": f"VALIDATION_{device}",
            "val_error": worst,
            "val_error_desc": "x-cross (rmse)",
            "val_metrics": rows,
        },
    }
    files = {f"{name}_c_info_valid.json": to_json(found)}
    if call.reports:
        text = [call.banner, f"Parameters            : {call.arguments}", "", *lines]
        files[call.report_name(name)] = ("\n".join(text) + "\n").encode()
    return files


def _number(output: OutputResult, name: str) -> float | None:
    value = float(getattr(output.metrics, name))
    return value if isfinite(value) else None
