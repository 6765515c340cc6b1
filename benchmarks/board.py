"""Corpus models as Arm code on the virtual board: every output byte against the emulator, with and without the epoch
controller. Also compiles the generated C for the Cortex-M55 with all warnings as errors.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.request.options import Options
from atonc.delivery.firmware import building
from atonc.delivery.firmware import image as firmware
from atonc.delivery.firmware.image import ImageNetwork, Runtime
from atonc.delivery.generate import generating
from atonc.delivery.trials import boarding
from atonc.delivery.trials.boarding import Rig
from atonc.insight.report.compile_text import counts
from atonc.insight.validating import validating
from atonc.machine.base.errors import AtoncError
from benchmarks.shared.corpus import ON_THE_BOARD, chosen
from benchmarks.shared.declare import MODEL_FILES, WRITE, Report
from benchmarks.shared.tables import in_a_cell, short

GROUP = "board"
ARGUMENTS = (MODEL_FILES, WRITE)

MODELS = (
    *ON_THE_BOARD,
    "mnist_int8_io_i8.tflite",
    "coco_2017_person__st_yolo_x_nano_192_0.33_0.25_int8.tflite",
    "closed__kai_jiang__code__vww__K1_BOARD_614.4MHz_V1.0__models__mobilenet_v1.onnx",
)
SAMPLES = 2
INTRODUCTION = f"""# Corpus models on the virtual board

Models compiled by atonc, as Arm code (Cortex-M33) on the virtual STM32N6, with our runtime (with those that ST
publishes: [a record](board_st_runtimes.md)). {SAMPLES} samples each, every output byte compared with the emulator.
`M55 -Werror`: the generated files for `-mcpu=cortex-m55 -O2 -Wall -Wextra -Werror`. NPU cycles are
those of the hardware model (with the controller programming included), instructions those of the last
inference, seconds are of the host.
"""
HEADER = (
    "| model | programmed by | NPU epochs | CPU steps | bytes compared | different | NPU cycles | CPU instructions | "
    "M55 -Werror | seconds |\n|---|---|---:|---:|---:|---:|---:|---:|---|---:|"
)


@dataclass(frozen=True)
class Row:
    model: str
    controller: bool
    npu: int = 0
    cpu: int = 0
    compared: int = 0
    different: int = 0
    npu_cycles: int = 0
    instructions: int = 0
    strict: str = ""
    seconds: float = 0.0
    failure: str = ""

    def text(self) -> str:
        by = "controller" if self.controller else "CPU"
        if self.failure:
            return f"| {self.model} | {by} | {self.failure} | | | | | | | |"
        return (
            f"| {self.model} | {by} | {self.npu} | {self.cpu} | {self.compared:,} | {self.different} | "
            f"{self.npu_cycles:,} | {self.instructions:,} | {self.strict} | {self.seconds:.1f} |"
        )


def run(arguments: argparse.Namespace) -> Report:
    runtime = firmware.our_runtime()
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        common = firmware.compile_runtime(runtime, work / "runtime")
        for model in chosen(arguments, MODELS):
            for controller in (True, False):
                row = _one(model, controller, runtime, common, work / f"{len(rows)}")
                rows.append(row)
                print(row.text(), flush=True)
    return Report(INTRODUCTION + _section(rows), failed=any(row.failure or row.different for row in rows))



def _one(model: Path, controller: bool, runtime: Runtime, common: list[Path], work: Path) -> Row:
    name = short(model.name)
    try:
        view = generating.analyze(model, Options(verify=False, epoch_controller=controller))
        network = boarding.image_network(view, work / "network")
        strict = _strict(network, runtime, work)
        elf = firmware.build_firmware([network], runtime, work / "build", common)
        started = time.perf_counter()
        found = boarding.compare(view, _samples(view), Rig(elf, [network]), runtime.label)
    except AtoncError as error:
        return Row(name, controller, failure=in_a_cell(error.what))
    steps = counts(view.compiled.program.steps)
    return Row(
        name,
        controller,
        steps["npu"],
        steps["cpu"],
        found.bytes_compared,
        found.bytes_different,
        found.npu_cycles,
        found.instructions,
        strict,
        time.perf_counter() - started,
    )


def _samples(view: CompileView) -> list[validating.Sample]:
    return validating.synthetic_samples(view.compiled.source, SAMPLES)


def _strict(network: ImageNetwork, runtime: Runtime, work: Path) -> str:
    """The generated files alone, for the chip's own core."""
    folder = work / "m55"
    folder.mkdir(parents=True, exist_ok=True)
    sources = tuple(sorted(network.folder.glob("*.c")))
    unit = building.CompileUnit(sources, (network.folder, *runtime.includes), runtime.defines, strict=True)
    try:
        building.compile_units(building.find_toolchain(), [unit], folder, cpu="cortex-m55")
    except AtoncError as error:
        return in_a_cell(error.what)
    return "clean"


def _section(rows: list[Row]) -> str:
    good = sum(not row.failure and not row.different for row in rows)
    head = f"\n{good} of {len(rows)} rows are equal.\n"
    return "\n".join([head, HEADER, *(row.text() for row in rows), ""])
