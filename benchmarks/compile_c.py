"""Does generated C compile for the Cortex-M55 without a warning, with our headers and with those that are given?

Each model is compiled with and without the epoch controller; each C file must pass `-O2 -Wall -Wextra -Werror` with
every set of headers. Warnings that arise inside foreign headers do not count (they are system headers here), warnings
about the generated files do.

A folder of headers is a firmware project or a part of one: LL_ATON, the NPU device headers, HAL and CMSIS are searched
in it, however deep.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.request.options import Options
from atonc.delivery.firmware import building
from atonc.delivery.generate import generating
from atonc.machine.base.errors import AtoncError
from benchmarks.shared.corpus import chosen
from benchmarks.shared.declare import MODEL_FILES, WRITE, Report, argument

GROUP = "board"
ARGUMENTS = (argument("--headers", nargs="+", default=(), metavar="NAME=DIR"), MODEL_FILES, WRITE)

MODELS = (
    "st_yolo_x_nano_480_1.0_0.25_3_st_int8.tflite",
    "mobilenet_v1_0.25_96_tfs_int8.tflite",
    "kws_ref_model.tflite",
    "person_detect.tflite",
    "face_landmark_ptq.tflite",
    "blazeface_front_128_quant_pc_ff_od_wider_face.tflite",
    "st_movenet_lightning_heatmaps_192_int8_pc.tflite",
    "yunetn_320_qdq_int8.onnx",
    "ad01_int8.tflite",
    "mobilefacenet__PerChannel_quant.onnx",
)
FLAGS = ("-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror")
DEFINES = (
    "-DSTM32N657xx",
    "-DUSE_HAL_DRIVER",
    "-DLL_ATON_PLATFORM=LL_ATON_PLAT_STM32N6",
    "-DLL_ATON_OSAL=LL_ATON_OSAL_BARE_METAL",
)
# one header of each folder that a project puts on the include path
_LANDMARKS = (
    "ll_aton.h", "ATON.h", "npu_cache.h", "stm32n6xx_hal.h", "stm32_hal_legacy.h", "stm32n657xx.h", "cmsis_gcc.h",
    "core_cm55.h", "stm32n6xx_hal_conf.h",
)  # fmt: skip
_OTHER = re.compile(r"Template|Devices.(?!STM32N6)", re.IGNORECASE)  # examples, and devices of other chips
VARIANTS = {
    "as shipped": (),
    "debug info": ("-DLL_ATON_EB_DBG_INFO",),
    "no buffer info": ("-DLL_ATON_DBG_BUFFER_INFO_EXCLUDED=1",),
}


@dataclass(frozen=True)
class Headers:
    name: str
    flags: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    model: str
    form: str
    files: int
    text_bytes: int
    problems: dict[str, str]  # headers -> first message


def headers_of(text: str) -> Headers:
    name, _, folder = text.rpartition("=")
    root = Path(folder)
    found = {p.parent for mark in _LANDMARKS for p in sorted(root.rglob(mark)) if not _OTHER.search(str(p))}
    wanted = sorted(found, key=str)
    boards = [p for p in wanted if (p / "stm32n6xx_hal_conf.h").is_file()]
    kept = [p for p in wanted if p not in boards[1:]]
    return Headers(name or root.name, tuple(flag for p in kept for flag in ("-isystem", str(p))))


def ours() -> Headers:
    folders = (building.runtime_folder("include"), building.runtime_folder("kernels"))
    return Headers("atonc runtime", ("-DATONC_NO_CMSIS", *(flag for p in folders for flag in ("-I", str(p)))))


def compile_one(source: Path, headers: Headers, extra: Sequence[str], target: Path) -> str:
    """The first message of the compiler; empty when it is content."""
    command = [building.GCC, *FLAGS, *DEFINES, *extra, *headers.flags, "-c", str(source), "-o", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=900)
    if done.returncode == 0 and not done.stderr.strip():
        return ""
    lines = [line for line in done.stderr.splitlines() if "error" in line or "warning" in line]
    return (lines or done.stderr.splitlines() or ["failed"])[0].replace(str(source.parent) + os.sep, "")


def code_bytes(target: Path) -> int:
    """Code and constants of an object file."""
    done = subprocess.run([building.GCC.replace("gcc", "size"), str(target)], capture_output=True, text=True)
    return int(done.stdout.splitlines()[1].split()[0]) if done.returncode == 0 else 0


def try_view(view: CompileView, controller: bool, sets: Iterable[Headers]) -> Row:
    view = replace(view, options=replace(view.options, epoch_controller=controller))
    with tempfile.TemporaryDirectory() as folder:
        view = generating.generate(view, Path(folder) / "out")
        sources = [Path(file) for file in view.files if file.endswith(".c")]
        problems, size, target = {}, 0, Path(folder) / "x.o"
        for headers in sets:
            for source in sources:
                for title, extra in VARIANTS.items() if source.stem == "network" else (("", ()),):
                    message = compile_one(source, headers, extra, target)
                    if message:
                        problems.setdefault(headers.name, f"{title}: {message}")
                    if title == "no buffer info" and not message:
                        size = code_bytes(target)
        return Row(view.model, form_of(controller), len(sources), size, problems)


def form_of(controller: bool) -> str:
    return "epoch controller" if controller else "driver calls"


def rows(models: Iterable[Path], sets: Sequence[Headers]) -> Iterator[Row]:
    for model in models:
        view = generating.analyze(model, Options(verify=False))
        for controller in (True, False):
            try:
                yield try_view(view, controller, sets)
            except AtoncError as error:
                yield Row(model.name, form_of(controller), 0, 0, {"generate": str(error).splitlines()[0]})


def document(found: Sequence[Row], sets: Sequence[Headers], compiler: str) -> str:
    names = [headers.name for headers in sets]
    lines = [
        "# Generated C against the headers of every runtime",
        "",
        f"{compiler}, `{' '.join(FLAGS)}`; network.c three times: as shipped, with LL_ATON_EB_DBG_INFO, and",
        "without the debug part of the buffer tables. A mark means: no error and no warning. The size is code and",
        "constants of network.o without that debug part, with our runtime's headers.",
        "",
        f"| model | form | C files | network.o bytes | {' | '.join(names)} |",
        f"|---|---|---|---|{'---|' * len(names)}",
    ]
    for row in found:
        marks = ["✗" if row.problems.get(name) or "generate" in row.problems else "✓" for name in names]
        lines.append(f"| {row.model} | {row.form} | {row.files} | {row.text_bytes:,} | {' | '.join(marks)} |")
    clean = sum(not row.problems for row in found)
    lines += ["", f"{clean} of {len(found)} without any message."]
    lines += [f"- {row.model}, {row.form}, {where}: {what}" for row in found for where, what in row.problems.items()]
    return "\n".join(lines) + "\n"


def run(arguments: argparse.Namespace) -> Report:
    sets = [*(headers_of(text) for text in arguments.headers), ours()]
    compiler = subprocess.run([building.GCC, "--version"], capture_output=True, text=True).stdout.splitlines()[0]
    found = []
    for row in rows(chosen(arguments, MODELS), sets):
        found.append(row)
        print(row.model, row.form, row.problems or "clean", flush=True)
    text = document(found, sets, compiler)
    return Report(text, failed=any(row.problems for row in found))
