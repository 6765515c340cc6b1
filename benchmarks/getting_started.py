"""Put a generated network into ST's object detection example, build the whole firmware, and look for overlaps.

    python benchmarks/getting_started.py --project DIR [--model FILE] [--board STM32N6570-DK] [--output FILE]

`DIR` is a copy of STM32N6-GettingStarted-ObjectDetection: its model files are replaced, and its Makefile is used
through an edited twin (one option that other compilers lack is dropped, four macros and our kernels are added).
Everything else, the runtime too, stays as published.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from atonc import generating
from atonc.emit.c import memories
from atonc.emit.c.pool_comments import file_postfix
from atonc.options import Options
from atonc.report.compile_text import CompileView

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


def install(view: CompileView, project: Path, board: str) -> list[str]:
    """Our files in place of ST's; the names of the C files to compile besides network.c."""
    target = project / "Model" / board
    for name, content in generating.files_of(view, with_hex=True).items():
        if name.endswith((".c", ".h")):
            (target / name).write_bytes(content)
        elif name.endswith(".hex"):
            (target / "network_data.hex").write_bytes(content)
    return [p.name for p in target.glob("*.c") if p.name != "network.c"]


def edit_makefile(folder: Path, board: str, more: Sequence[str]) -> None:
    text = (folder / "Makefile").read_text().replace("-fcyclomatic-complexity", "")
    source = f"C_SOURCES += ../../Model/{board}/network.c"
    text = text.replace(source, "\n".join([source, *(f"C_SOURCES += ../../Model/{board}/{name}" for name in more)]))
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


def document(model: str, image: Sequence[Span], ours: Sequence[Span], said: Sequence[str], bad: Sequence[str]) -> str:
    lines = [
        "# A generated network in STM32N6-GettingStarted-ObjectDetection",
        "",
        f"{model}, the example's memory pools, its own runtime (LL_ATON 1.1.0), Makefile and linker script. The image "
        f"links; {len(said)} warnings about our files, {len(bad)} overlaps.",
        "",
        "| what | from | to | bytes |",
        "|---|---|---|---|",
        *(f"| {s.name} | {s.start:#010x} | {s.end:#010x} | {s.end - s.start:,} |" for s in (*image, *ours)),
        "",
        *(f"- {line}" for line in (*said, *bad)),
    ]
    return "\n".join(lines).rstrip() + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--project", type=Path, required=True, metavar="DIR")
    parser.add_argument("--model", type=Path, metavar="FILE")
    parser.add_argument("--board", default="STM32N6570-DK")
    parser.add_argument("--output", type=Path, metavar="FILE")
    options = parser.parse_args()
    corpus = Path(os.environ.get("ATONC_CORPUS", Path(__file__).resolve().parents[2] / "shared" / "corpus"))
    model = options.model or corpus / "models" / MODEL
    pools = options.project / "Model" / "my_mpools" / f"stm32n6-app2_{options.board}.mpool"
    view = generating.analyze(model, Options(mpool=str(pools), input_type="uint8", verify=False))
    folder = options.project / "Application" / options.board
    edit_makefile(folder, options.board, install(view, options.project, options.board))
    shutil.rmtree(folder / "build" / "Application" / "Model", ignore_errors=True)
    image, said = build(folder)
    theirs, ours = list(sections(image)), used(view)
    bad = [f"{a.name} overlaps {b.name}" for a in theirs for b in ours if a.overlaps(b)]
    text = document(model.name, theirs, ours, said, bad)
    if options.output:
        options.output.write_text(text)
    print(text)
    return int(bool(said or bad))


if __name__ == "__main__":
    sys.exit(main())
