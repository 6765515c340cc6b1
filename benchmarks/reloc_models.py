"""Does our loader run corpus models as relocatable images at any place, byte for byte?

Three places, in place and copied, split and not; every output byte against the emulator. Also what an image
for the Cortex-M55 takes beside weights and programs.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from atonc.app import boarding, generating, loading, validating
from atonc.app.loading import COPY, XIP, LoaderRig, Spot
from atonc.emu.files.types import CompiledNetwork
from atonc.errors import AtoncError
from atonc.firmware import building
from atonc.options import Options
from atonc.reloc.build import Built, RelocOptions, build
from atonc.reloc.image import Image
from atonc.report.compile_text import counts
from benchmarks.shared.corpus import ON_THE_BOARD, chosen
from benchmarks.shared.declare import MODEL_FILES, WRITE, Report
from benchmarks.shared.tables import in_a_cell, short

GROUP = "board"
ARGUMENTS = (MODEL_FILES, WRITE)

SPOTS = (
    Spot(),
    Spot(file=0x7123_4560, params=0x7400_0040, exec_ram=0x3404_1020, exec_ram_bytes=0xB_E000),
    Spot(file=0x9080_0000, params=0x9120_0000, exec_ram=0x91C0_0000, ext_ram_bytes=0x60_0000),
)
INTRODUCTION = """# Relocatable images of corpus models

Each model compiled with `-r`, its image built for its processor and installed by
our loader on the virtual board (data cache on): three places of file, parameters and RAM, code in place (XIP) and
copied, split and not, twelve installations with one inference each. Every output byte compared with the emulator.

The sizes are those of images for the Cortex-M55. Overhead: the file without parameters and without the programs of the
epoch controller, that is header, code, tables, relocations. RAM in place is data and the copies of programs whose
addresses are patched; the last column is RAM without these copies.
"""
HEADER = (
    "| model | NPU epochs | CPU steps | installations | bytes compared | different | image | parameters | programs | "
    "overhead | RAM in place | RAM copied | RAM beside programs | seconds |\n"
    "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
)


@dataclass
class Row:
    model: str
    npu: int = 0
    cpu: int = 0
    installed: int = 0
    compared: int = 0
    different: int = 0
    image: int = 0
    params: int = 0
    programs: int = 0
    patched: int = 0
    xip: int = 0
    copy: int = 0
    seconds: float = 0.0
    failure: str = ""

    @property
    def overhead(self) -> int:
        return self.image - self.params - self.programs

    def text(self) -> str:
        if self.failure:
            return f"| {self.model} | {self.failure} |" + " |" * 12
        numbers = (self.image, self.params, self.programs, self.overhead, self.xip, self.copy, self.xip - self.patched)
        sizes = " | ".join(f"{number:,}" for number in numbers)
        return (
            f"| {self.model} | {self.npu} | {self.cpu} | {self.installed} | {self.compared:,} | {self.different} | "
            f"{sizes} | {self.seconds:.0f} |"
        )


def run(arguments: argparse.Namespace) -> Report:
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        loader = loading.build_loader(loading.loader_runtime(), work / "loader")
        for model in chosen(arguments, ON_THE_BOARD):
            rows.append(_one(model, loader, work / f"{len(rows)}"))
            print(rows[-1].text(), flush=True)
    return Report(_page(rows), failed=any(row.failure or row.different for row in rows))


def _page(rows: list[Row]) -> str:
    good = sum(not row.failure and not row.different for row in rows)
    pure = [row.overhead for row in rows if not row.failure and not row.cpu]
    largest = f"{max(pure):,}" if pure else "-"
    said = f"{good} of {len(rows)} models: all bytes equal. Largest overhead without CPU layers: {largest} bytes.\n"
    return "\n".join([INTRODUCTION, said, HEADER, *(row.text() for row in rows), ""])


def _one(model: Path, loader: Path, work: Path) -> Row:
    row, started = Row(short(model.name)), time.perf_counter()
    try:
        view = generating.analyze(model, Options(verify=False, relocatable=True))
        generating.generate(view, work)
        steps = counts(view.compiled.program.steps)
        row.npu, row.cpu = steps["npu"], steps["cpu"]
        _measure(row, work)
        samples = validating.synthetic_samples(view.compiled.source, 1)
        for split in (False, True):
            image = _build(work, RelocOptions(cpu=loading.board_cpu(), split=split))
            for spot in SPOTS:
                for mode in (XIP, COPY):
                    rig = LoaderRig(loader)
                    rig.install(image.image, image.params, _roomy(replace(spot, mode=mode), image.image))
                    found = boarding.compare(view, samples, rig)
                    row.installed += 1
                    row.compared += found.bytes_compared
                    row.different += found.bytes_different
    except AtoncError as error:
        row.failure = in_a_cell(error.what)
    row.seconds = time.perf_counter() - started
    return row


def _roomy(spot: Spot, image: Image) -> Spot:
    """RAM outside the chip where the chip's own does not suffice."""
    needed = image.copy_bytes if spot.mode == COPY else image.xip_bytes
    if needed <= spot.exec_ram_bytes:
        return spot
    return replace(spot, exec_ram=0x91C0_0000 + (spot.exec_ram & 0xFFFF), exec_ram_bytes=0x30_0000)


def _build(folder: Path, options: RelocOptions) -> Built:
    with tempfile.TemporaryDirectory() as temporary:
        return build(building.find_toolchain(), folder, options, Path(temporary))


def _measure(row: Row, folder: Path) -> None:
    built = _build(folder, RelocOptions())
    network: CompiledNetwork = built.prepared.network
    stored = list(network.blobs.values())
    row.image, row.params = len(built.image.data), built.image.params_bytes
    row.programs = sum(4 * len(container.words()) for container in stored)
    row.patched = sum(4 * len(container.blob.words()) for container in stored if container.relocations)
    row.xip, row.copy = built.image.xip_bytes, built.image.copy_bytes
