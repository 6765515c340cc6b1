"""Does generated C compile for the Cortex-M55 without a warning, with the headers of our runtime?

Each model is compiled with and without the epoch controller; each C file must pass `-O2 -Wall -Wextra -Werror`.
results/compile_c_headers.md has what ST's headers said once.
"""

from __future__ import annotations

import argparse
import os
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
from benchmarks.shared.declare import MODEL_FILES, WRITE, Report
from benchmarks.shared.tables import head, in_a_cell, row

GROUP = "board"
ARGUMENTS = (MODEL_FILES, WRITE)

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
VARIANTS = {
    "as shipped": (),
    "debug info": ("-DLL_ATON_EB_DBG_INFO",),
    "no buffer info": ("-DLL_ATON_DBG_BUFFER_INFO_EXCLUDED=1",),
}


@dataclass(frozen=True)
class Row:
    model: str
    form: str
    files: int = 0
    text_bytes: int = 0
    problem: str = ""  # the first message


def includes() -> tuple[str, ...]:
    folders = (building.runtime_folder("include"), building.runtime_folder("kernels"))
    return "-DATONC_NO_CMSIS", *(flag for folder in folders for flag in ("-I", str(folder)))


def compile_one(source: Path, extra: Sequence[str], target: Path) -> str:
    """The first message of the compiler; empty when it is content."""
    command = [building.GCC, *FLAGS, *DEFINES, *extra, *includes(), "-c", str(source), "-o", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=900)
    if done.returncode == 0 and not done.stderr.strip():
        return ""
    lines = [line for line in done.stderr.splitlines() if "error" in line or "warning" in line]
    return (lines or done.stderr.splitlines() or ["failed"])[0].replace(str(source.parent) + os.sep, "")


def code_bytes(target: Path) -> int:
    """Code and constants of an object file."""
    done = subprocess.run(["arm-none-eabi-size", str(target)], capture_output=True, text=True)
    return int(done.stdout.splitlines()[1].split()[0]) if done.returncode == 0 else 0


def try_view(view: CompileView, controller: bool) -> Row:
    view = replace(view, options=replace(view.options, epoch_controller=controller))
    with tempfile.TemporaryDirectory() as folder:
        view = generating.generate(view, Path(folder) / "out")
        sources = [Path(file) for file in view.files if file.endswith(".c")]
        problem, size, target = "", 0, Path(folder) / "x.o"
        for source in sources:
            for title, extra in VARIANTS.items() if source.stem == "network" else (("", ()),):
                message = compile_one(source, extra, target)
                problem = problem or (f"{title}: {message}" if message else "")
                if title == "no buffer info" and not message:
                    size = code_bytes(target)
        return Row(view.model, form_of(controller), len(sources), size, problem)


def form_of(controller: bool) -> str:
    return "epoch controller" if controller else "driver calls"


def rows(models: Iterable[Path]) -> Iterator[Row]:
    for model in models:
        view = generating.analyze(model, Options(verify=False))
        for controller in (True, False):
            try:
                yield try_view(view, controller)
            except AtoncError as error:
                yield Row(model.name, form_of(controller), problem=f"generate: {str(error).splitlines()[0]}")


def document(found: Sequence[Row], compiler: str) -> str:
    lines = [
        "# Generated C with the headers of our runtime",
        "",
        f"{compiler}, `{' '.join(FLAGS)}`; network.c three times: as shipped, with LL_ATON_EB_DBG_INFO, and",
        "without the debug part of the buffer tables. A mark means: no error and no warning. The size is code and",
        "constants of network.o without that debug part. With ST's headers: [a record](compile_c_headers.md).",
        "",
        *head("model", "form", ">C files", ">network.o bytes", "clean"),
    ]
    for one in found:
        mark = in_a_cell(one.problem) or "✓"
        lines.append(row((one.model, one.form, one.files, f"{one.text_bytes:,}", mark)))
    clean = sum(not one.problem for one in found)
    return "\n".join([*lines, "", f"{clean} of {len(found)} without any message.", ""])


def run(arguments: argparse.Namespace) -> Report:
    compiler = subprocess.run([building.GCC, "--version"], capture_output=True, text=True).stdout.splitlines()[0]
    found = []
    for one in rows(chosen(arguments, MODELS)):
        found.append(one)
        print(one.model, one.form, one.problem or "clean", flush=True)
    return Report(document(found, compiler), failed=any(one.problem for one in found))
