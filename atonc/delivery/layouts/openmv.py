"""OpenMV N6: one file that `ml.Model` loads, from the ROM file system or from a disk, and a script that runs it.

The firmware installs a relocatable image in place, without copying its code. An image that is read from a file lies in
the first heap, which is on the chip, if it has room there; it takes no weights there that engines would read through
the NPU cache, and does not clean the processor's cache over the file. So weights are read past the NPU cache (the board
says so), and the image cleans the cache itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from atonc.compiler.emit.c import memories
from atonc.delivery.layouts import layout as ways
from atonc.delivery.layouts.layout import FolderLayout, LayoutNetwork, LayoutRefusal
from atonc.delivery.reloc.options import RelocOptions
from atonc.machine.base.templates import render_folder
from atonc.machine.base.words import listed
from atonc.machine.hw.board_file import find_board
from atonc.machine.hw.machine import secure

BOARD = "openmv-n6"
_TYPES = ("INT8", "UINT8", "INT16", "UINT16", "FLOAT")  # that the firmware knows
_MOST_DIMENSIONS = 4  # of its arrays
_NPU_RAM = "npu_ram"
_FORGETS = "between two inferences the firmware keeps other things in the NPU's memories"


def _files(given: LayoutNetwork) -> Mapping[str, bytes]:
    both = (("in", given.inputs), ("out", given.outputs))
    edges = "".join(f" {what} {info.mem_shape} {info.type.lower()}," for what, side in both for info in side)
    runtime = (given.runtime or given.network.runtime).partition("-")[0]
    words = {**ways.words_of(given), "size": f"{len(given.image):,}", "edges": edges, "runtime": runtime}
    return {f"{given.name}.bin": given.image, **render_folder("layouts/openmv", words)}


def _refuses(given: LayoutNetwork) -> Iterator[LayoutRefusal]:
    yield from _types(given)
    yield from _memories(given)
    yield from _constants(given)
    if given.network.program.user_io:
        rule = "the firmware asks the network for the memory of its inputs and outputs"
        yield LayoutRefusal("the application is to supply it", rule, "leave --no-inputs-allocation and the like out")
    if not given.view.options.secure:
        rule = "the firmware runs in the secure state"
        yield LayoutRefusal("the image would be for the non-secure state", rule, "leave no-secure out")


def _types(given: LayoutNetwork) -> Iterator[LayoutRefusal]:
    for info in (*given.inputs, *given.outputs):
        if info.type not in _TYPES or len(info.mem_shape) > _MOST_DIMENSIONS:
            yield LayoutRefusal(
                f"{info.label} is {info.type.lower()} of {len(info.mem_shape)} dimensions",
                f"the firmware takes {listed([kind.lower() for kind in _TYPES], 'or')}, at most {_MOST_DIMENSIONS}",
                "another --input-data-type or --output-data-type, or cut the model: --cut-output-tensors",
            )
    for info in given.inputs:
        if info.type == "FLOAT":
            yield LayoutRefusal(
                f"the input {info.label} is float",
                "the firmware reads scale and zero point of every input, and floats have none",
                "--input-data-type int8: the firmware then converts what the script gives",
            )


def _memories(given: LayoutNetwork) -> Iterator[LayoutRefusal]:
    """At fixed addresses only what the firmware leaves to the NPU while it runs."""
    board = find_board(BOARD)
    free = [memory for memory in board.memories if memory.kind == _NPU_RAM and memory.size_bytes]
    used = {
        pool.name
        for pool in given.network.pools
        if pool.absolute and given.network.memory.by_pool.get(pool.name, 0)
        if not any(memory.holds(secure(pool.base), secure(pool.base) + 1) for memory in free)
    }
    if used:
        yield LayoutRefusal(
            f"it uses {listed(sorted(used))}",
            "the firmware keeps its own data there",
            f"--board {BOARD}, which is the default of this layout",
        )


def _constants(given: LayoutNetwork) -> Iterator[LayoutRefusal]:
    kept = sorted({part.pool.name for part in memories.ram_ranges(given.network) if part.pool.absolute})
    if kept:
        yield LayoutRefusal(
            f"constants lie in {listed(kept)}",
            _FORGETS,
            f"--board {BOARD}: constants stay in the file",
        )


LAYOUT = FolderLayout(
    name="openmv",
    title="a relocatable image for ml.Model of the OpenMV N6, and a script that runs it",
    page="openmv.md",
    files=_files,
    refuses=_refuses,
    board=BOARD,
    image=RelocOptions(cleans=True),
    forgets=_FORGETS,
)
