"""Does a generated network in ST's object detection example link, and overlap nothing?

Each `DIR` is a copy of STM32N6-GettingStarted-ObjectDetection: its model files are replaced, and its Makefile is used
through an edited twin (one option that other compilers lack is dropped, four macros and our kernels are added).
Everything else, the runtime too, stays as published.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.emit.c import memories
from atonc.compiler.emit.c.pool_comments import file_postfix
from atonc.compiler.request.options import Options
from atonc.delivery.generate import generating
from benchmarks.shared.corpus import model
from benchmarks.shared.declare import WRITE, Report, argument

GROUP = "deployment"
ARGUMENTS = (
    argument("--projects", nargs="+", required=True, metavar="DIR[=MODEL]"),
    argument("--board", default="STM32N6570-DK"),
    WRITE,
)

MODEL = "st_yolo_x_nano_480_1.0_0.25_3_st_int8.tflite"
EXTRA = "-Dfloat_t=float -Ddouble_t=double -DPRIx64='\"llx\"' -DPRIu64='\"llu\"'"
TWIN = "Makefile.atonc"
FLASH_APPLICATION = 0x7010_0000  # where the boot loader expects the application
_SECTION = re.compile(r"^\s*\d+ (\S+)\s+([0-9a-f]{8})\s+([0-9a-f]{8})\s+([0-9a-f]{8})\s+[0-9a-f]{8}")


@dataclass(frozen=True)
class Span:
    name: str
    start: int
    end: int

    def overlaps(self, other: Span) -> bool:
        return self.start < other.end and other.start < self.end


def install(view: CompileView, project: Path, board: str, with_stai: bool) -> None:
    """Our files in place of ST's."""
    target = project / "Model" / board
    files = generating.files_of(view, with_hex=True, with_stai=with_stai)
    for name, content in files.items():
        if name.endswith((".c", ".h")):
            (target / name).write_bytes(content)
        elif name.endswith(".hex"):
            (target / "network_data.hex").write_bytes(content)


def edit_makefile(folder: Path) -> None:
    text = (folder / "Makefile").read_text().replace("-fcyclomatic-complexity", "")
    (folder / TWIN).write_text(text.replace("CFLAGS += -std=gnu11", f"CFLAGS += -std=gnu11 {EXTRA}"))


def build(folder: Path) -> tuple[Path, list[str]]:
    """The image, and what the compiler said about our files."""
    done = subprocess.run(["make", "-f", TWIN, "-j2"], cwd=folder, capture_output=True, text=True, errors="replace")
    if done.returncode:
        raise SystemExit("\n".join(done.stderr.splitlines()[-20:]))
    said = [
        line for line in done.stderr.splitlines() if re.search(r"(network|atonc_\w+)[.\w]*:\d+:.*(warning|error)", line)
    ]
    return next(folder.glob("build/**/Project.elf")), said


def sections(image: Path) -> Iterator[Span]:
    """Everything that takes memory at run time, and the image in flash."""
    listing = subprocess.run(["arm-none-eabi-objdump", "-h", str(image)], capture_output=True, text=True).stdout
    lines = listing.splitlines()
    for line, flags in pairwise(lines):
        match = _SECTION.match(line)
        if match and "ALLOC" in flags:
            size, start = int(match[2], 16), int(match[3], 16)
            if size:
                yield Span(match[1], start, start + size)
    binary = image.with_suffix(".bin")
    yield Span("image in flash", FLASH_APPLICATION, FLASH_APPLICATION + binary.stat().st_size)


def used(view: CompileView) -> list[Span]:
    return [
        Span(f"{file_postfix(part.pool)} {'constants' if part.data else 'activations'}", part.start, part.end)
        for part in memories.ranges(generating.c_network(view))
    ]


def runtime_of(project: Path) -> str:
    text = next(project.rglob("ll_aton_version.h")).read_text(errors="replace")
    found = re.search(r'LL_ATON_VERSION_NAME\s+"atonn-v([\d.]+-\d+)', text)
    return found[1] if found else "?"


def try_project(project: Path, model: Path, board: str) -> tuple[list[str], bool]:
    """Lines of the report, and whether something is wrong."""
    pools = project / "Model" / "my_mpools" / f"stm32n6-app2_{board}.mpool"
    with_stai = (project / "Model" / board / "stai_network.c").is_file()
    types = {"input_type": "uint8", "output_type": "int8" if with_stai else ""}
    view = generating.analyze(model, Options(mpool=str(pools), verify=False, **types))
    folder = project / "Application" / board
    install(view, project, board, with_stai)
    edit_makefile(folder)
    image, said = build(folder)
    theirs, ours = list(sections(image)), used(view)
    bad = [f"{a.name} overlaps {b.name}" for a in theirs for b in ours if a.overlaps(b)]
    interface = "ST.AI" if with_stai else "LL_ATON"
    lines = [
        f"## LL_ATON {runtime_of(project)}, application on the {interface} interface",
        "",
        f"{model.name}: the image links; {len(said)} warnings about our files, {len(bad)} overlaps.",
        "",
        "| what | from | to | bytes |",
        "|---|---|---|---|",
        *(f"| {s.name} | {s.start:#010x} | {s.end:#010x} | {s.end - s.start:,} |" for s in (*theirs, *ours)),
        "",
        *(f"- {line}" for line in (*said, *bad)),
    ]
    return lines, bool(said or bad)


def run(arguments: argparse.Namespace) -> Report:
    lines = [
        "# A generated network in STM32N6-GettingStarted-ObjectDetection",
        "",
        "Each example with its own memory pools, runtime, Makefile and linker script.",
        "",
    ]
    wrong = False
    for text in arguments.projects:
        project, _, name = text.partition("=")
        found, bad = try_project(Path(project), model(name or MODEL), arguments.board)
        lines, wrong = [*lines, *found], wrong or bad
    text = "\n".join(lines).rstrip() + "\n"
    return Report(text, failed=bool(wrong))
