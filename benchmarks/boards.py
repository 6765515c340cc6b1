"""Board files against what ST publishes: pool files reproduced, and applications checked for overlaps.

Every `.mpool` file of ST in the copies is compared with the pool sets of our board files; every application that
somebody built there is checked with its own pools.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

from atonc.compiler.place import read_board
from atonc.delivery.boards.checking import Checked, CheckRequest, check
from atonc.delivery.boards.importing import import_board
from atonc.delivery.boards.mpool_text import mpool_document
from atonc.delivery.generate.profiles import read_profile
from atonc.machine.base.errors import AtoncError
from atonc.machine.hw.board import Board, find_board
from atonc.machine.hw.machine import read_json, stm32n6
from atonc.machine.hw.mpool import parse_mpool, read_mpool
from benchmarks.shared.declare import ONE_FETCHED, WRITE, Report

GROUP = "deployment"
ARGUMENTS = (ONE_FETCHED, WRITE)

OWNER = "STMicroelectronics+"


def board_of(path: Path) -> Board:
    """Files for the NUCLEO say so in their name or in that of a folder around them."""
    nucleo = any("nucleo" in part.lower() for part in path.parts[-4:])
    return find_board("nucleo-n657x0-q" if nucleo else "stm32n6570-dk")


def meaning(document: Any, text: str) -> Any:
    """What a pool file tells a compiler: its pools of more than no bytes, the cache, the parameters, the prefix."""
    pools = [vars(pool) for pool in parse_mpool(text).usable]
    return pools, document.get("params"), document["memory"].get("cacheinfo"), document["memory"].get("mem_file_prefix")


def reproduced(path: Path) -> tuple[str, list[str]]:
    """The board, and those of its pool sets that mean the same."""
    board = board_of(path)
    theirs = meaning(read_json(path), path.read_text(errors="replace"))
    equal = []
    for name in board.pool_sets:
        document = mpool_document(board.pool_set(name))
        if meaning(document, json.dumps(document)) == theirs:
            equal.append(name)
    return board.name, equal


def pool_rows(fetched: Path) -> tuple[list[str], int]:
    rows, missed = [], 0
    for path in sorted(fetched.glob(f"{OWNER}*/**/*.mpool")):
        board, equal = reproduced(path)
        missed += not equal
        shown = str(path.relative_to(fetched)).removeprefix(OWNER)
        rows.append(f"| {shown} | {board} | {', '.join(equal) or '**none**'} |")
    return rows, missed


def import_figures(fetched: Path) -> str:
    """Every pool file alone and with each linker script of its repository for this chip."""
    good, refused = 0, Counter[str]()
    for path in sorted(fetched.glob("*/**/*.mpool")):
        home = fetched / path.relative_to(fetched).parts[0]
        scripts = [p for p in sorted(home.rglob("*.ld")) if "STM32N6" in p.name and "Templates" not in p.parts]
        for script in (None, *scripts):
            try:
                import_board(path, script)
                good += 1
            except AtoncError as error:
                refused[error.what.split(":")[0]] += 1
    said = "".join(f"\n- {count} refused: {what}" for what, count in refused.most_common())
    return f"{good} of {good + refused.total()} pairs give a board that says the same" + said


def profile_figures(fetched: Path) -> str:
    """Every profile of every profile file: read as it is, and its pools found from the folder of the file."""
    good, bad, unknown = 0, list[str](), Counter[str]()
    for path in sorted(fetched.glob("*/**/*neural*art*.json")):
        for name in read_json(path).get("Profiles", {}):
            try:
                found = read_profile(f"{name}@{path}")
                unknown.update(found.ignored)
                read_board(found.memory_pool or path, stm32n6())
                good += 1
            except AtoncError as error:
                bad.append(f"\n- {path.relative_to(fetched)}, {name}: {error.what}")
    said = f"{good} of {good + len(bad)} profiles are read with their pools, {unknown.total()} unknown options"
    return said + "".join(bad)


def own_pools(project: Path, board: str) -> list[Path]:
    named = sorted(project.glob(f"Model/my_mpools/**/*{board}.mpool"))
    return named or sorted(project.glob("Model/my_mpools/*.mpool"))


def checked_rows(fetched: Path) -> tuple[list[str], int, int]:
    rows, wrong = [], 0
    for makefile in sorted(fetched.glob(f"{OWNER}*/Application/*/Makefile")):
        folder, project, board = makefile.parent, makefile.parents[2], makefile.parent.name
        for image in sorted(folder.glob("build/**/Project.elf")):
            pools = own_pools(project, board)
            found = check(CheckRequest(find_board(board), "default", (image,), tuple(pools)))
            rows.append(_row(project, board, pools, found))
            wrong += len(found.wrong)
    return rows, len(rows), wrong


def _row(project: Path, board: str, pools: list[Path], found: Checked) -> str:
    sections = [s for s in found.spans if s.what.startswith("section ")]
    image = next((s.end - s.start for s in found.spans if s.kind == "image"), 0)
    notes = "; ".join(f"{f.first.split(' (')[0]} / {f.second.split(' (')[0]}" for f in found.findings if f.note)
    taken = sum(s.end - s.start for s in sections)
    size = sum(len(read_mpool(path).usable) for path in pools)
    name = project.name.removeprefix(OWNER)
    return f"| {name} | {board} | {len(sections)} | {taken:,} | {image:,} | {size} | {len(found.wrong)} | {notes} |"


def run(arguments: argparse.Namespace) -> Report:
    pools, missed = pool_rows(arguments.fetched)
    rows, images, wrong = checked_rows(arguments.fetched)
    lines = [
        "# Board files against ST's applications",
        "",
        "## Pool files",
        "",
        f"{len(pools)} pool files of ST, {len(pools) - missed} reproduced by a pool set of our board files: the same",
        "usable pools in the same order (name, file name, base, size, mode, rights, speeds, powers, flags), cache,",
        "parameters and prefix. Entries of size 0, which no compiler can use, are left out.",
        "",
        "| file | board | pool set |",
        "|---|---|---|",
        *pools,
        "",
        "`atonc board import` of every pool file there, alone and with each linker script for the chip beside it:",
        import_figures(arguments.fetched),
        "",
        "## Profiles",
        "",
        profile_figures(arguments.fetched),
        "",
        "## Applications",
        "",
        f"{images} images that somebody built, each with its own pools: {wrong} overlaps.",
        "",
        "| application | board | sections | bytes | image in flash | pools | overlaps | notes |",
        "|---|---|---:|---:|---:|---:|---:|---|",
        *rows,
    ]
    text = "\n".join(lines) + "\n"
    return Report(text, failed=bool(missed or wrong or not pools))
