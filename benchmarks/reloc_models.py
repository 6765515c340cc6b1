"""Does our loader run corpus models as relocatable images at any place, byte for byte?

Three places, in place and copied, split and not; every output byte against the emulator. Also what an image
for the Cortex-M55 takes beside weights and programs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

from atonc.compiler.request.options import Options
from atonc.delivery.firmware import building
from atonc.delivery.generate import generating
from atonc.delivery.reloc.build import BuiltImage, RelocOptions, build
from atonc.delivery.reloc.image import Image
from atonc.delivery.trials import boarding, loading
from atonc.delivery.trials.loading import COPY, XIP, LoaderRig, Spot
from atonc.insight.report.compile_text import counts
from atonc.insight.validating import validating
from atonc.machine.base.errors import AtoncError
from atonc.machine.emu.files.types import CompiledNetwork
from benchmarks.shared.corpus import ON_THE_BOARD, chosen
from benchmarks.shared.declare import MODEL_FILES, WRITE, Report
from benchmarks.shared.tables import in_a_cell, row, short

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


@dataclass(frozen=True)
class Sizes:
    """Bytes of an image for the Cortex-M55."""

    image: int
    params: int
    programs: int
    patched: int  # of the programs, those that are copied into RAM
    xip: int
    copy: int

    @property
    def overhead(self) -> int:
        return self.image - self.params - self.programs

    def cells(self) -> Iterator[str]:
        beside = self.xip - self.patched
        numbers = (self.image, self.params, self.programs, self.overhead, self.xip, self.copy, beside)
        return (f"{number:,}" for number in numbers)


@dataclass
class Row:
    """What became of one model."""

    model: str
    steps: Mapping[str, int]
    sizes: Sizes
    found: list[boarding.BoardValidation] = field(default_factory=list)  # of every installation
    seconds: float = 0.0

    @property
    def different(self) -> int:
        return sum(one.bytes_different for one in self.found)

    def text(self) -> str:
        compared = sum(one.bytes_compared for one in self.found)
        what = (self.model, self.steps["npu"], self.steps["cpu"], len(self.found), f"{compared:,}", self.different)
        return row((*what, *self.sizes.cells(), f"{self.seconds:.0f}"))


def refused(model: str, error: AtoncError) -> str:
    return f"| {model} | {in_a_cell(error.what)} |" + " |" * 12


def run(arguments: argparse.Namespace) -> Report:
    rows, lines = list[Row](), list[str]()
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        loader = loading.build_loader(loading.loader_runtime(), work / "loader")
        for model in chosen(arguments, ON_THE_BOARD):
            try:
                rows.append(_one(model, loader, work / f"{len(lines)}"))
                lines.append(rows[-1].text())
            except AtoncError as error:
                lines.append(refused(short(model.name), error))
            print(lines[-1], file=sys.stderr, flush=True)
    good = sum(not found.different for found in rows)
    pure = [found.sizes.overhead for found in rows if not found.steps["cpu"]]
    largest = f"{max(pure):,}" if pure else "-"
    said = f"{good} of {len(lines)} models: all bytes equal. Largest overhead without CPU layers: {largest} bytes.\n"
    return Report("\n".join([INTRODUCTION, said, HEADER, *lines, ""]), failed=good != len(lines))


def _one(model: Path, loader: Path, work: Path) -> Row:
    started = time.perf_counter()
    view = generating.analyze(model, Options(verify=False, relocatable=True))
    generating.generate(view, work)
    made = Row(short(model.name), counts(view.compiled.program.steps), _sizes(work))
    samples = validating.synthetic_samples(view.compiled.source, 1)
    for split in (False, True):
        image = _build(work, RelocOptions(cpu=loading.board_cpu(), split=split))
        for spot, mode in product(SPOTS, (XIP, COPY)):
            rig = LoaderRig(loader)
            rig.install(image.image, image.params, _roomy(replace(spot, mode=mode), image.image))
            made.found.append(boarding.compare(view, samples, rig))
    made.seconds = time.perf_counter() - started
    return made


def _roomy(spot: Spot, image: Image) -> Spot:
    """RAM outside the chip where the chip's own does not suffice."""
    needed = image.copy_bytes if spot.mode == COPY else image.xip_bytes
    if needed <= spot.exec_ram_bytes:
        return spot
    return replace(spot, exec_ram=0x91C0_0000 + (spot.exec_ram & 0xFFFF), exec_ram_bytes=0x30_0000)


def _build(folder: Path, options: RelocOptions) -> BuiltImage:
    with tempfile.TemporaryDirectory() as temporary:
        return build(building.find_toolchain(), folder, options, Path(temporary))


def _sizes(folder: Path) -> Sizes:
    built = _build(folder, RelocOptions())
    network: CompiledNetwork = built.prepared.network
    stored = list(network.blobs.values())
    return Sizes(
        len(built.image.data),
        built.image.params_bytes,
        sum(4 * len(container.words()) for container in stored),
        sum(4 * len(container.blob.words()) for container in stored if container.relocations),
        built.image.xip_bytes,
        built.image.copy_bytes,
    )
