"""Do ST's applications with two networks link with what `atonc app build` makes of one application file, and run?

`benchmarks/st_applications/*.toml` says what each application's own script says: names, types, whose memory inputs and
outputs are.

CHECKOUTS has a work tree of each application, in which somebody built it, by its own Makefile and with nothing else
changed, from the files that `--prepare` puts where its script would copy them. The image is held against the plan:
nothing that is linked lies in RAM or flash of the networks. On the virtual board, in the linked image, its networks
take turns: all RAM of the plan is noise before every inference, and outputs are those of `atonc run`.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from atonc.delivery.application import building
from atonc.delivery.application.options import AppOptions
from atonc.delivery.application.read import read_application
from atonc.insight.runs import runs
from atonc.machine.base.disk import write_files
from atonc.machine.base.errors import AtoncError
from atonc.machine.emu.files.intel_hex import read_hex
from atonc.machine.emu.files.network_c import read_network
from benchmarks.getting_started import Span, sections
from benchmarks.shared import tables
from benchmarks.shared.declare import INPUTS, ONLY, WRITE, Report, argument
from benchmarks.shared.elf_network import ElfNetwork

GROUP = "deployment"
ARGUMENTS = (
    argument("checkouts", type=Path, metavar="CHECKOUTS", help="a folder with work trees of the applications"),
    argument("--prepare", action="store_true", help="only put the files of the networks where they belong"),
    INPUTS.but(default=2, help="inferences of every network"),
    ONLY,
    WRITE,
)
OWNER = "STMicroelectronics"
FOLDER = Path(__file__).with_suffix("")


@dataclass(frozen=True)
class Case:
    repository: str
    file: str  # the application file
    make: str  # the folder with the Makefile
    copies: str  # the folder for the files of the networks


CASES = (
    Case("STM32N6-GettingStarted-ReID", "reid.toml", "Application/STM32N6570-DK", "Model/STM32N6570-DK"),
    Case("x-cube-n6-ai-face-landmarks", "face_landmarks.toml", ".", "Model"),
    Case("x-cube-n6-ai-hand-landmarks", "hand_landmarks.toml", ".", "Model"),
)


def run(arguments: argparse.Namespace) -> Report:
    lines, failed = list(_INTRODUCTION), False
    for case in CASES:
        if arguments.only and not any(word in case.repository for word in arguments.only):
            continue
        folder = arguments.checkouts / case.repository
        if arguments.prepare:
            write_files(folder / case.copies, _sources(_application(case, folder)))
            continue
        try:
            found = list(_tried(case, folder, arguments.inputs))
        except AtoncError as error:
            found, failed = [f"**{error}**"], True
        lines += [f"## {OWNER}/{case.repository}", "", *found, ""]
        print("\n".join(lines[-len(found) - 3 :]), flush=True)
    return Report("" if arguments.prepare else "\n".join(lines).rstrip() + "\n", failed)


def _application(case: Case, folder: Path) -> building.BuiltApplication:
    """Models are named by the application file and lie in the application."""
    shutil.copy(FOLDER / case.file, folder / "Model")
    return building.build(read_application(folder / "Model" / case.file), None, AppOptions(stai=True))


def _sources(built: building.BuiltApplication) -> dict[str, bytes]:
    return {name: data for name, data in built.output.files.items() if name.endswith((".c", ".h"))}


def _tried(case: Case, folder: Path, inputs: int) -> Iterator[str]:
    built = _application(case, folder)
    for name, data in _sources(built).items():
        if (folder / case.copies / name).read_bytes() != data:
            raise AtoncError(f"{name} is another one", where=case.repository, remedy="--prepare, and build once more")
    images = sorted((folder / case.make).rglob("*.elf"), key=lambda path: path.stat().st_mtime_ns)
    if not images:
        raise AtoncError("no linked image", where=case.repository, remedy="build the application by its own Makefile")
    image = images[-1]
    linked, planned = list(sections(image)), list(_planned(built))
    met = [f"{a.name} meets {b.name}" for a in linked for b in planned if a.overlaps(b)]
    if met:
        raise AtoncError("; ".join(met[:3]), where=image.name)
    told = built.figures
    yield f"`{case.file}`: the image links, {image.stat().st_size:,} bytes with debug information. Of {len(linked)}"
    yield f"sections and {len(planned)} ranges of the plan none meet. RAM of the plan: {told.ram_bytes:,} bytes, one"
    yield f"network beside the other {told.ram_sum_bytes:,}, lower bound {told.lower_bound_bytes:,}."
    yield from _turns(image, built, inputs)
    yield ""
    yield from tables.head("what", "from", "to", ">bytes")
    for one in sorted((*linked, *planned), key=lambda one: one.start):
        yield tables.row((one.name, f"{one.start:#010x}", f"{one.end:#010x}", f"{one.end - one.start:,}"))


def _planned(built: building.BuiltApplication) -> Iterator[Span]:
    for start, end in built.plan.ram:
        yield Span("plan: RAM of the networks", start, end)
    for one in built.plan.networks:
        yield Span(f"plan: slot of {one.name}", one.slot.start, one.slot.end)


def _turns(image: Path, built: building.BuiltApplication, inputs: int) -> Iterator[str]:
    """The networks of the image one after the other, each several times, on one board that is never reset."""
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_files(folder, built.output.files)
        host = ElfNetwork(image, list(read_hex(folder / "app_flash.hex")))
        compared = 0
        for turn in range(inputs):
            for one in built.plan.networks:
                options = runs.RunOptions(folder, name=one.name, seed=turn)
                net = runs.load(options)
                chosen = runs.choose_inputs(net, options)
                wanted = runs.execute(net, chosen, options).outputs
                for start, end in built.plan.ram:
                    host.poison(start, end, random)
                network = read_network(folder, one.name)
                found = host.run(network, [chosen[info.name].tobytes() for info in net.inputs])
                for info, data in zip(net.outputs, found, strict=True):
                    compared += len(data)
                    if data != wanted[info.name].tobytes():
                        raise AtoncError(f"turn {turn}: {info.name} of {one.name} has other bytes", where=image.name)
    yield f"On the virtual board its networks took {inputs} turns each: {compared:,} bytes of outputs, all those of"
    yield "`atonc run`."


_INTRODUCTION = (
    "# ST's applications with two networks, from one application file",
    "",
    "Sources, Makefile, linker script, runtime, camera and display code of each application as published; the networks",
    "are those of `atonc app build` of one file each (`benchmarks/st_applications`). What runs on the virtual board is",
    "the linked image from its reset handler to `main`; from there a host calls its runtime and networks as the",
    "application does, in turns, since the board has neither camera nor display. Nothing here ran on a real board.",
    "",
    "Built by hand on 2026-11-17 from commits d841264 (ReID), bc42481 (face) and 1c2aeec (hand). Not as published,",
    "since copies of them lack large files: `arm_common_tables.c` is that of stm32ai-modelzoo-services, and",
    "ReID's detector is st_yolo_x_nano_192 instead of tiny_yolo_v2_224; Debian's compiler wanted other names for some",
    "options.",
    "",
)
