"""Do ST's applications with two networks link with what `atonc app build` makes of one application file, and run?

`benchmarks/st_applications/*.toml` says what each application's own script says: names, types, whose memory inputs and
outputs are. The files of the build go where that script would copy them; sources, Makefile, linker script, runtime and
camera code of the application stay as published. Then the image is held against the plan: nothing that is linked lies
in RAM or flash of the networks. On the virtual board, in the linked image, its networks take turns: all RAM of the plan
is noise before every inference, and outputs are those of `atonc run`.

FETCHED has bare git directories, OWNER+NAME/repo. Nothing of them is kept.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
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
from benchmarks.shared import git_files, st_apps, tables
from benchmarks.shared.declare import INPUTS, ONE_FETCHED, ONLY, WORK, WRITE, Report
from benchmarks.shared.elf_network import ElfNetwork

GROUP = "deployment"
ARGUMENTS = (ONE_FETCHED, INPUTS.but(default=2, help="inferences of every network"), ONLY, WORK, WRITE)
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
    lines, failed = list(_INTRODUCTION), 0
    with tempfile.TemporaryDirectory() as temporary:
        work = (arguments.work or Path(temporary)).absolute()
        work.mkdir(parents=True, exist_ok=True)
        tools = st_apps.tools_in(work / "tools")
        for case in CASES:
            if arguments.only and not any(word in case.repository for word in arguments.only):
                continue
            try:
                found = list(_tried(case, arguments.fetched.absolute(), work, tools, arguments.inputs))
            except (AtoncError, subprocess.CalledProcessError, KeyError) as error:
                found, failed = [f"**{st_apps.reason(error)}**"], failed + 1
            commit = git_files.commit(_repository(case, arguments.fetched))[:7]
            lines += [f"## {st_apps.OWNER}/{case.repository} at {commit}", "", *found, ""]
            print("\n".join(lines[-len(found) - 3 :]), flush=True)
    return Report("\n".join(lines).rstrip() + "\n", failed > 0)


def _repository(case: Case, fetched: Path) -> Path:
    return fetched / f"{st_apps.OWNER}+{case.repository}" / "repo"


def _tried(case: Case, fetched: Path, work: Path, tools: Path, inputs: int) -> Iterator[str]:
    folder = work / case.repository
    git_files.unpack(_repository(case, fetched), folder)
    changed = [*st_apps.stand_ins(folder / "Model")]
    changed += git_files.borrow(fetched / st_apps.TABLES[0] / "repo", st_apps.TABLES[1], folder, "arm_common_tables.c")
    shutil.copy(FOLDER / case.file, folder / "Model")
    application = read_application(folder / "Model" / case.file)
    built = building.build(application, None, AppOptions(stai=True))
    sources = {name: data for name, data in built.all_files.items() if name.endswith((".c", ".h"))}
    write_files(folder / case.copies, sources)
    environment = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}"}
    st_apps.run_in(["make", f"GCC_PATH={tools}", "-j2"], folder / case.make, environment)
    image = max((folder / case.make).rglob("*.elf"), key=lambda path: path.stat().st_mtime_ns)
    linked, planned = list(sections(image)), list(_planned(built))
    met = [f"{a.name} meets {b.name}" for a in linked for b in planned if a.overlaps(b)]
    if met:
        raise AtoncError("; ".join(met[:3]), where=image.name)
    told = built.figures
    yield f"`{case.file}`: the image links, {image.stat().st_size:,} bytes with debug information. Of {len(linked)}"
    yield f"sections and {len(planned)} ranges of the plan none meet. RAM of the plan: {told.ram_bytes:,} bytes, one"
    yield f"network beside the other {told.ram_sum_bytes:,}, lower bound {told.lower_bound_bytes:,}."
    yield from _turns(image, built, inputs)
    yield from (f"Not as published: {what}." for what in changed)
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
        write_files(folder, built.all_files)
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
)
