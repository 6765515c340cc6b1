"""What ST's tool leaves beside the files of a network, for scripts that copy, read or grep it.

From public folders of releases 2.0 to 4.0: `analyze` writes the same C files and images as `generate`, with another
report; the workspace (`st_ai_ws`) holds a folder of the NPU's compiler, and in release 2.0 also NAME_report.json, which
the model zoo of that time reads. It is written for every release: no script minds a file more.

Also a folder that looks like an installation of ST's tool to scripts (`install`): launchers by its names, which run
this atonc. Nothing of ST's is in it. The loader that belongs into `scripts/N6_scripts` (from release 4.1 on:
`Utilities/scripts`) and the runtime that the model zoo copies from `Middlewares/ST/AI` are the user's own, from an
installation or from an application; a runtime that is named is linked, not copied. And a network without NPU as a
shared library of this computer, for ST's runner: what `--dll` of its tool gives.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any

from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.emit.write import to_json
from atonc.compiler.ir import Graph
from atonc.compiler.lower.context import item_bytes
from atonc.delivery.boards.mpool_text import mpool_text
from atonc.delivery.generate.st_call import WORKSPACE, StCall
from atonc.insight.report import compile_text
from atonc.insight.validating.judging import OutputResult
from atonc.machine.base.about import package_folder
from atonc.machine.base.disk import write_file, write_files
from atonc.machine.base.errors import InputError, ToolError, UnsupportedError
from atonc.machine.base.templates import render
from atonc.machine.hw.board import DEFAULT_SET, find_board

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
        written += host_library(files, view.name, used, place)
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


SYSTEMS = ("linux", "windows", "mac")
SCRIPTS = ("scripts/N6_scripts", "Utilities/scripts/N6_scripts")
RUNTIME = Path("Middlewares/ST/AI")
RUNTIME_PARTS = ("Inc", "Lib", "Npu")
BOARD = "stm32n6570-dk"
CONTROLLER = "--enable-epoch-controller"
PROFILES = ("default", "profile_O3", "profile-default", "profile-minimal")


def files(release_variable: str) -> dict[str, str]:
    """Path inside the folder -> text."""
    python, package = sys.executable, repr(str(package_folder().parent))
    launcher = render("stedgeai/stedgeai", python=python, package=package, release=release_variable)
    found = {f"Utilities/{system}/stedgeai": launcher for system in SYSTEMS}
    found["Utilities/windows/stedgeai.cmd"] = f'@"{python}" "%~dp0stedgeai" %*\r\n'
    for script, verb in (("npu_driver", "reloc"), ("st_load_and_run", "load-and-run")):
        told = {"verb": verb, "verb_text": repr(verb), "python": repr(python), "package": package}
        found[f"scripts/N6_reloc/{script}.py"] = render("stedgeai/script.py.in", told)
    for folder in SCRIPTS:
        found[f"{folder}/user_neuralart.json"] = json.dumps(_profiles(), indent=1) + "\n"
        found[f"{folder}/my_mpools/stm32n6.mpool"] = mpool_text(find_board(BOARD), DEFAULT_SET)
    return found


def _profiles() -> Mapping[str, object]:
    return {
        "Globals": {},
        "Profiles": {name: {"memory_pool": "./my_mpools/stm32n6.mpool", "options": CONTROLLER} for name in PROFILES},
    }


def install(folder: Path, release_variable: str, runtime: Path | None = None) -> list[Path]:
    """Writes the files; those that are there and are not ours, such as ST's loader and profiles, stay."""
    if runtime is not None:
        _check_runtime(runtime)
    written = []
    for name, text in files(release_variable).items():
        path = folder / name
        if path.exists() and not _ours(path):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, text.encode())
        if name.startswith("Utilities/") and not path.suffix:
            path.chmod(0o755)
        written.append(path)
    return [*written, *(_link(folder, runtime) if runtime is not None else [])]


def _ours(path: Path) -> bool:
    """Launchers and commands are replaced by the next installation; whatever users may have changed is not."""
    return path.suffix not in (".json", ".mpool") and b"atonc" in path.read_bytes()[:4096]


def _check_runtime(runtime: Path) -> None:
    missing = [part for part in RUNTIME_PARTS if not (runtime / part).is_dir()]
    if missing:
        raise InputError(
            f"has no folder {', '.join(missing)}",
            where=str(runtime),
            rule="a runtime has Inc, Lib and Npu",
            remedy="name Middlewares/AI_Runtime of an application, or Middlewares/ST/AI of ST's installation",
        )


def _link(folder: Path, runtime: Path) -> list[Path]:
    place = folder / RUNTIME
    if place.is_symlink():
        place.unlink()
    if place.exists():
        raise InputError("is there already", where=str(place), remedy="leave out --runtime, or remove it")
    place.parent.mkdir(parents=True, exist_ok=True)
    os.symlink(runtime.resolve(), place, target_is_directory=True)
    return [place]


_RUNTIME = ("machine", "runtime")
_FLAGS = ("-shared", "-fPIC", "-O2", "-std=gnu11", "-w")


def host_library(files: Mapping[str, bytes], name: str, regions: Sequence[tuple[int, int]], folder: Path) -> list[Path]:
    """Libraries in `folder` of the generated `files`; `regions`: base and bytes of the memories that are used."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise ToolError("no C compiler of this computer is found", remedy="install gcc, or leave out --dll")
    if not sys.platform.startswith("linux"):
        raise UnsupportedError(
            "--dll needs Linux: the memories of the chip are mapped at their own addresses",
            remedy="leave it out; `atonc run` runs the generated files on any computer",
        )
    runtime = package_folder().joinpath(*_RUNTIME)
    folder.mkdir(parents=True, exist_ok=True)
    library, observer = folder / f"libai_{name}.so", folder / "libai_observer.so"
    with tempfile.TemporaryDirectory() as temporary:
        sources = _written(files, f"stai_{name}.c", Path(temporary))
        table = ",".join(f"{{{base:#x},{size:#x}}}" for base, size in regions)
        defined = [f"-DNETWORK={re.sub(r'[^0-9A-Za-z_]', '_', name)}", f"-DREGIONS={table}"]
        include = [f"-I{temporary}", f"-I{runtime / 'include'}"]
        _compile([compiler, *_FLAGS, *defined, *include, *sources, str(runtime / "host" / "host_stai.c")], library)
    _compile([compiler, *_FLAGS, str(runtime / "host" / "host_observer.c")], observer)
    return [library, observer]


def _written(files: Mapping[str, bytes], interface: str, place: Path) -> list[str]:
    """The C files that run the network; that of the interface on the chip is replaced."""
    for file, content in files.items():
        if file.endswith((".c", ".h")):
            (place / file).write_bytes(content)
    return [str(place / file) for file in files if file.endswith(".c") and file != interface]


def _compile(command: Sequence[str], library: Path) -> None:
    done = subprocess.run([*command, "-o", str(library), "-lm"], capture_output=True, text=True, errors="replace")
    if done.returncode:
        last = " / ".join(done.stderr.strip().splitlines()[-3:])
        raise ToolError(f"the library of this computer cannot be built: {last}", where=library.name)
