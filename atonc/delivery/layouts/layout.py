"""What a layout is: its name, its files, and the networks that it cannot take."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.emit.c import buffers_info, memories
from atonc.compiler.emit.c.buffers_info import Info
from atonc.compiler.emit.c.files import StoredProgram
from atonc.compiler.emit.c.network import CNetwork
from atonc.delivery.firmware.building import runtime_folder
from atonc.delivery.generate.generating import c_network
from atonc.delivery.reloc.options import RelocOptions
from atonc.machine.base.about import __version__
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.templates import render
from atonc.machine.base.words import count, listed

TOOL = f"atonc {__version__}"
LICENCE = "SPDX-License-Identifier: Apache-2.0"


@dataclass(frozen=True)
class LayoutRefusal:
    """Why a network cannot go this way out."""

    seen: str
    rule: str
    remedy: str


@dataclass(frozen=True)
class LayoutNetwork:
    """A compiled network with the files that `generate` made of it."""

    view: CompileView
    generated: Mapping[str, bytes]
    image: bytes = b""  # relocatable, where the layout has one
    runtime: str = ""  # the release of LL_ATON that the image is for, where the user names one

    @property
    def name(self) -> str:
        return self.view.name

    @cached_property
    def network(self) -> CNetwork:
        return c_network(self.view)

    @cached_property
    def programs(self) -> tuple[StoredProgram, ...]:
        """What the epoch controller runs, in that order."""
        blocks = self.network.blocks if self.network.epoch_controller else ()
        return tuple(StoredProgram(self.network, block) for block in blocks if not block.on_cpu)

    @cached_property
    def inputs(self) -> list[Info]:
        return buffers_info.inputs(self.network)

    @cached_property
    def outputs(self) -> list[Info]:
        return buffers_info.outputs(self.network)

    def address(self, info: Info) -> int:
        return self.network.home(info.buffer).address

    @property
    def memory_images(self) -> Mapping[str, bytes]:
        """Constants by file, as `generate` writes them."""
        return memories.raw_files(self.network)

    def base_of(self, file: str) -> int:
        """Where such a file begins in memory."""
        found = {f"{memories.file_stem(self.network, pool)}.raw": pool.base for pool in memories.by_pool(self.network)}
        return found[file]

    @property
    def sources(self) -> Mapping[str, bytes]:
        """What a C compiler needs of the generated files."""
        return {file: data for file, data in self.generated.items() if file.endswith((".c", ".h"))}


@dataclass(frozen=True)
class FolderLayout:
    """One way out. `image`: the network is compiled for a relocatable image, which is built with these options."""

    name: str
    title: str
    page: str  # of the documentation
    files: Callable[[LayoutNetwork], Mapping[str, bytes]]  # path inside the folder -> contents
    refuses: Callable[[LayoutNetwork], Iterator[LayoutRefusal]]  # looked at before anything is written
    board: str = ""  # whose memories the network gets, unless the user names a board
    image: RelocOptions | None = None
    carries: bool = True  # states must be inputs and outputs instead; else it resets them, or refuses them itself
    forgets: str = ""  # why no weights or states stay in RAM between two inferences; empty where they may
    package: tuple[str, str] | None = None  # that must be installed, and the extra that brings it
    leavings: tuple[str, ...] = ()  # patterns of what the user's tools write into the folder, and write again

    def folder(self, network: str) -> str:
        return f"{network}_{self.name}"


def words_of(given: LayoutNetwork) -> dict[str, object]:
    """What the texts of every layout may say."""
    return {
        **{"name": given.name, "network_name": given.name, "suffix": given.network.suffix},
        **{"tool": TOOL, "licence": LICENCE},
        "encrypted": given.network.program.encrypted is not None,
    }


def memory_map(given: LayoutNetwork) -> dict[str, str | int]:
    """For whoever looks into the file."""
    by_pool = given.network.memory.by_pool
    used = {
        f"memory {pool.name}": f"{by_pool[pool.name]:,} bytes" + (f" from {pool.base:#x}" if pool.absolute else "")
        for pool in given.network.pools
        if by_pool.get(pool.name, 0)
    }
    return {"network": given.name, "written by": TOOL, "board": given.view.board.name, **used}


def sample_main(given: LayoutNetwork, includes: str, say: str, now: str = "") -> str:
    """The `main` of a sample. `say`: what prints; `now`: microseconds as a C expression, where there is a clock."""
    told = {"includes": includes, "say": say, "now": now, "timed": bool(now), "untimed": not now}
    return render("layouts/sample_main.c", words_of(given), **told)


def runtime_files(place: str) -> dict[str, bytes]:
    """The runtime that ships with atonc, as part of a folder: what a project without LL_ATON needs to run a network.

    All of it: definitions of the project leave out what its networks do not need.
    """
    parts = (("include", "*.h"), ("src", "*.[ch]"))
    return {
        f"{place}/{part}/{path.name}": path.read_bytes()
        for part, pattern in parts
        for path in sorted(runtime_folder(part).glob(pattern))
    }


def refuse_cpu_layers(given: LayoutNetwork, rule: str) -> Iterator[LayoutRefusal]:
    """Layers that the processor computes, with the reason of each kind."""
    if not given.network.cpu_blocks:
        return
    kinds = sorted({reason.op for reason in given.view.compiled.mapped.reasons})
    layers = count(len(given.network.cpu_blocks), "layer")
    yield LayoutRefusal(
        f"on the CPU: {layers} ({listed(kinds) or 'moved data'})",
        rule,
        "cut them off: --input-data-type int8, --output-data-type int8, --cut-output-tensors; `atonc explain` says why "
        "each is there, --no-cpu stops where one is",
    )


def refuse_movable(given: LayoutNetwork, rule: str) -> Iterator[LayoutRefusal]:
    """Memory whose address is known at run time only."""
    parts = given.network.program.movable
    if parts:
        names = listed([part.symbol for part in parts])
        yield LayoutRefusal(
            f"the place of {names} is known at run time only",
            rule,
            "leave out -r, --no-inputs-allocation and --no-outputs-allocation, and pools of relative mode",
        )


def refuse_residents(given: LayoutNetwork, rule: str) -> Iterator[LayoutRefusal]:
    copied = given.network.memory.resident_bytes
    if copied:
        yield LayoutRefusal(f"{copied:,} bytes of weights are to be copied to RAM first", rule, "leave --resident out")


def refuse_states(given: LayoutNetwork, rule: str) -> Iterator[LayoutRefusal]:
    states = given.network.program.states
    if states:
        size = sum(one.size_bytes for one in states)
        yield LayoutRefusal(f"{size:,} bytes of states are to stay in RAM between two inferences", rule,
                            "--state none: the application carries them as inputs and outputs")  # fmt: skip


def refuse_ram_constants(given: LayoutNetwork, rule: str) -> Iterator[LayoutRefusal]:
    """Constants that somebody must copy to RAM before the first inference."""
    found = memories.ram_ranges(given.network)
    if found:
        pools = listed(sorted({part.pool.name for part in found}))
        yield LayoutRefusal(f"constants lie in {pools}, which forget them", rule, "a board or pool file with flash")


def refuse_open_places(given: LayoutNetwork, rule: str) -> Iterator[LayoutRefusal]:
    """Memory whose address somebody chooses at run time."""
    found = [part.symbol for part in given.network.program.relative]
    if found:
        yield LayoutRefusal(f"the place of {listed(found)} is known at run time only", rule, "leave -r out")


def refuse_lasting(given: LayoutNetwork, forgets: str) -> Iterator[LayoutRefusal]:
    """What an operator of somebody's interpreter cannot have: constants in RAM that is the NPU's, buffers of others."""
    kept = sorted({part.pool.name for part in memories.ram_ranges(given.network) if part.pool.absolute})
    if kept:
        yield LayoutRefusal(f"constants lie in {listed(kept)}", forgets, "a board or pool file with flash")
    if given.network.program.user_io:
        rule = "the kernel asks the network for the memory of its inputs and outputs"
        yield LayoutRefusal("the application is to supply it", rule, "leave --no-inputs-allocation and the like out")
