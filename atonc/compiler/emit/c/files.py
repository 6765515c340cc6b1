"""All files of the firmware side, by name: `<name>.c` and `.h` for the LL_ATON runtime of any published release and for
ours, `<name>_ecblobs.h` with programs for the epoch controller, memories, images, and the ST.AI interface on request.

Programs that use buffers of the application or pools without a fixed base are stored with a relocation table; the copy
that runs lies in RAM, and the addresses in it are moved to where these are: pools once, when the network is
initialised, buffers of the application before each inference. This needs no function of the loader, whose arguments
differ between releases.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from atonc.compiler.emit import runs
from atonc.compiler.emit.c import buffers_info, cpu_functions, kernels, memories, names, stai
from atonc.compiler.emit.c.network import Block, CNetwork
from atonc.compiler.emit.program import Movable, StateMemory, UserBuffer
from atonc.compiler.emit.runs import copy_bytes, dma_links
from atonc.compiler.frontends.custom_file import declaration, declaration_name
from atonc.compiler.ops.custom import of_graph
from atonc.compiler.place.types import Placed
from atonc.compiler.schedule.passes import KERNELS_IN_RAM
from atonc.machine.base.disk import together
from atonc.machine.base.errors import InputError
from atonc.machine.base.templates import Words, render
from atonc.machine.base.user_c import HEADER, runtime_header
from atonc.machine.hw import regs
from atonc.machine.hw.dma import LINK_BYTES, MOST_BLOCK_BYTES
from atonc.machine.hw.ec.blob import Container, Relocation
from atonc.machine.hw.limits import CPU_CACHE_LINE, NPU_CACHE_LINE


def files(
    network: CNetwork, with_hex: bool = False, with_stai: bool = False, macs: int = 0, shared_kernels: bool = False
) -> dict[str, bytes]:
    """`with_stai`: also the interface that applications for later releases call. `shared_kernels`: CPU layers call
    kernels in a file for all networks, else each network's C file has those that it calls."""
    name = network.name
    own = {
        f"{name}.c": network_c(network, shared_kernels).encode(),
        f"{name}.h": network_h(network).encode(),
        # networks that call the driver have no file of programs: scripts copy it only where there is one
        **({f"{name}_ecblobs.h": ecblobs_h(network).encode()} if network.epoch_controller else {}),
        f"{name}_memories.h": memories.memories_h(network).encode(),
        **memories.raw_files(network),
        **(memories.hex_files(network) if with_hex else {}),
        **memories.loader_files(network),
    }
    interface = stai.files(network, macs) if with_stai else {}
    shared = kernels.kernel_files() if shared_kernels and network.cpu_blocks else {}
    operators = of_graph(network.graph).values()
    custom = {file: content for one in operators for file, content in one.files}
    declared = {HEADER: runtime_header(), declaration_name(name): declaration(operators)} if custom else {}
    found = together(
        [
            (f"the network {name!r}", own),
            ("its ST.AI interface", interface),
            ("the kernels of all networks", shared),
            ("C operators", declared),
            ("the files of --custom", custom),
        ]
    )
    _require_own_header(name, found)
    return found


def _require_own_header(name: str, files: Mapping[str, bytes]) -> None:
    """No file of ours includes NAME.h, which is for applications: who does so means the header of somebody else."""
    header = re.compile(rb'#\s*include\s*[<"]%b\.h[>"]' % re.escape(name).encode(), re.IGNORECASE)
    wanting = next((file for file, data in files.items() if file.endswith((".c", ".h")) and header.search(data)), "")
    if wanting:
        raise InputError(
            f"{wanting} includes another {name}.h",
            where=f"network {name}",
            rule="a network has not the name of a header that its C files need",
            remedy="give the network another name (-n, or `name` in the application file)",
        )


# ---------------------------------------------------------------------------------------------------------- <name>.c


def network_c(network: CNetwork, shared_kernels: bool = False) -> str:
    """`shared_kernels`: those of CPU layers stand in a file for all networks, not in this one."""
    release = dict(zip(("major", "minor", "micro", "dev"), network.release, strict=True))
    region, users = network.program.encrypted, network.program.user_io
    programs = f'#include "{network.name}_ecblobs.h"' if network.epoch_controller else _initialisation(network, [])
    ops = {op.name: op for op in network.graph.ops}
    custom = of_graph(network.graph).values()
    found = [
        cpu_functions.text(network, block, ops) if block.on_cpu else _start_text(network, block)
        for block in network.blocks
    ]
    functions = "\n".join(text for text in found if text).removesuffix("\n")
    return render(
        "network/network.c",
        {**network.words, **release},
        model=f" from {names.comment(network.model)}" if network.model else "",
        epoch_controller=str(network.epoch_controller).lower(),
        kernels_apart=bool(shared_kernels and network.cpu_blocks),
        kernels_header=kernels.HEADER,
        has_custom=bool(custom),
        prototypes=[{"prototype": one.prototype} for one in custom],
        pools=list(_pool_rows(network)),
        plain=region is None,
        encrypted_start=f"0x{region.start:08x}" if region else "",
        encrypted_bytes=region.size_bytes if region else 0,
        encrypted_file=memories.encrypted_file(network),
        all_users=[{"what": one.direction, **_user_row(network, one)} for one in users],
        directions=[_direction(network, direction) for direction in ("input", "output")],
        ranges=memories.table_rows(network),
        residents_text=_residents_text(network),
        copies_text=_copies_text(network),
        states_text=_states_text(network),
        programs=programs.removesuffix("\n"),
        has_functions=bool(functions),
        functions=(functions if shared_kernels else kernels.around(functions)).removesuffix("\n"),
        blocks=[_block_row(network, block) for block in network.blocks],
        tables=buffers_info.tables(network),
        aliases=network.name == "network",  # releases before 3.0 call such a network Default: both names are found
    )


def _pool_rows(network: CNetwork) -> Iterator[Words]:
    """Comments that list the memory pools, in the form that tools read."""
    holding = {pool.name for home in network.constants() if (pool := network.pool_at(home.address)) is not None}
    for k, pool in enumerate(network.pools):
        used = network.used_bytes(pool)
        yield {
            **{"k": k, "symbol": pool.symbol, "pool": names.word(pool.name), "size": pool.size_bytes},
            **{"used": _amount(used) if used else "?", "base": f"0x{pool.base:08x}", "byte_width": pool.byte_width},
            **{"throughput": names.word(pool.throughput), "latency": names.word(pool.latency)},
            "freq_ratio": f"{pool.freq_ratio:g}",
            "mode": "absolute" if pool.absolute else "relative",
            "rights": "READ_WRITE" if pool.writable else "READ_ONLY",
            "cacheable": "ON" if pool.cacheable else "OFF",
            **{"read_power": f"{pool.read_power:g}", "write_power": f"{pool.write_power:g}"},
            "constants": "YES" if pool.name in holding else "NO",
        }


def _amount(size_bytes: int) -> str:
    if size_bytes >= 1 << 20:
        return f"{size_bytes / (1 << 20):.2f} MB"
    return f"{size_bytes / (1 << 10):.2f} KB" if size_bytes >= 1 << 10 else f"{size_bytes} B"


def _direction(network: CNetwork, direction: str) -> Words:
    """Setters and getters of inputs or outputs that the application allocates."""
    users = [_user_row(network, user) for user in network.program.user_io if user.direction == direction]
    return {"direction": direction.capitalize(), "users": users, "fixed": not users, "supplied": bool(users)}


def _user_row(network: CNetwork, user: UserBuffer) -> Words:
    return {
        **{"index": user.index, "number": user.index + 1, "label": network.labels[user.name]},
        **{"size": user.size_bytes, "alignment": user.alignment, "symbol": network.c_symbol(user)},
        "padded": -(-user.size_bytes // user.alignment) * user.alignment,
        "npu_ram_only": user.npu_ram_only,
    }


# -------------------------------------------------------------------------------------------------------- the blocks


def _start_function(block: Block) -> str:
    return f"_ec_blob_cache_start_func_{block.first}"


def _start_text(network: CNetwork, block: Block) -> str:
    """What the processor does for a block of the NPU: cache maintenance in front of a program (empty where there is
    nothing to do), or the whole epoch as calls of the driver."""
    lines = cpu_functions.before_npu(network, block)
    if not network.epoch_controller:
        from atonc.compiler.emit.c.driver_epochs import epoch_functions  # all of the driver: not where nobody asks

        return epoch_functions(network, block, lines)
    return cpu_functions.function(_start_function(block), lines) if lines else ""


def _block_row(network: CNetwork, block: Block) -> Words:
    """One item of the list that the runtime walks."""
    costs = [network.cycles[step.number] for step in block.steps if step.number in network.cycles]
    return {
        **_calls_of(network, block),
        "has_blob": network.epoch_controller and not block.on_cpu,
        "blob": names.blob(network.name, block.first),
        **{"first": block.first, "last": block.last},
        "readers": f"0x{_engine_mask(block, writing=False):08x}",
        "writers": f"0x{_engine_mask(block, writing=True):08x}",
        "npu_cycles": sum(cost.npu for cost in costs),
        "total_cycles": sum(cost.total for cost in costs),
    }


def _calls_of(network: CNetwork, block: Block) -> Words:
    if block.on_cpu:
        start, end, mask, kind = "NULL", cpu_functions.end_function(block), "0", "pure_sw"
    elif network.epoch_controller:  # the mask is the number of the epoch controller
        start = _start_function(block) if cpu_functions.before_npu(network, block) else "NULL"
        end, mask, kind = "NULL", "0", "blob | EpochBlock_Flags_pure_hw"
    else:
        from atonc.compiler.emit.c.driver_epochs import function_names, wait_mask

        (start, end), mask, kind = function_names(network, block), wait_mask(block), "pure_hw"
    return {"start": start, "end": end, "wait_mask": mask, "flags": f"EpochBlock_Flags_{kind}"}


def _engine_mask(block: Block, writing: bool) -> int:
    """The stream engines that read or write in any epoch of a block, one bit each."""
    mask = 0
    for step in block.steps:
        if step.epoch is not None:
            for name in step.epoch.writers() if writing else step.epoch.readers():
                mask |= 1 << (regs.UNIT_BY_NAME[name].id - regs.UNIT_BY_NAME["STRENG0"].id)
    return mask


# -------------------------------------------------------------------------------------------------- <name>_ecblobs.h


class StoredProgram:
    """One program and its arrays."""

    def __init__(self, network: CNetwork, block: Block) -> None:
        self.network, self.block = network, block
        self.name = names.blob(network.name, block.first)
        self.container: Container = runs.container(network.program, block.steps)

    def row(self) -> Words:
        digits = np.array(self.container.words(), "<u4").view("<u8").astype(">u8").tobytes().hex()
        pairs = [f"0x{digits[k : k + 16]}ULL" for k in range(0, len(digits), 16)]
        moved = [self._moved(index, one) for index, one in enumerate(self.container.relocations)]
        again = any(one["of_application"] for one in moved)
        runtime_bytes = copy_bytes(self.container)
        return {
            **{"first": self.block.first, "last": self.block.last, "blob": self.name, "line": NPU_CACHE_LINE},
            **{"pairs": len(pairs), "words": names.lines_of(pairs, 4)},
            **{"fixed": not moved, "moved": bool(moved), "relocations": moved},
            **{"moves_again": again, "for_good": not again},  # whether something may change between inferences
            **{"runtime_bytes": runtime_bytes, "runtime_pairs": runtime_bytes // 8},
            "prefix_pairs": len(self.container.prefix) // 2,
            "blob_bytes": 4 * len(self.container.blob.words()),
        }

    def _moved(self, index: int, relocation: Relocation) -> Words:
        part = self._part(relocation)
        words = [f"{word + 2}U" for word in relocation.offsets]  # magic and length lie in front
        by_user = isinstance(part, UserBuffer)
        return {
            **{"key": f"{self.name}_{relocation.symbol}", "index": index, "symbol": self.network.c_symbol(part)},
            **{"count": len(words), "offsets": names.lines_of(words, 12)},
            **{"of_application": by_user, "of_network": not by_user},
        }

    def _part(self, relocation: Relocation) -> Movable:
        return next(part for part in self.network.program.movable if part.symbol == relocation.symbol)


def ecblobs_h(network: CNetwork) -> str:
    rows = [StoredProgram(network, block).row() for block in network.blocks if not block.on_cpu]
    relocated = [row for row in rows if row["moved"]]
    return render(
        "network/ecblobs.h",
        network.words,
        programs=rows,
        relocates=bool(relocated),
        initialisation=_initialisation(network, relocated),
    )


def _initialisation(network: CNetwork, relocated: Sequence[Words]) -> str:
    missing = " || ".join(f"({network.c_symbol(user)} == NULL)" for user in network.program.user_io)
    return render("network/initialisation.c", network.words, relocated=list(relocated), missing=missing)


# -------------------------------------------------------------------------------------------------- resident weights


def residents(network: CNetwork) -> list[Placed]:
    """Weights that live in RAM (`--resident`)."""
    homes = (home for home in network.program.placed.values() if home.copy_of)
    return sorted(homes, key=lambda home: home.address)


def _residents_text(network: CNetwork) -> str:
    """The list of copies, and the functions that make and release them."""
    found = residents(network)
    if not found:
        return ""
    small = any(network.home(home.copy_of).buffer.four_bits for home in found)
    rows = []
    for home in found:
        constant = network.home(home.copy_of)
        rows.append(
            {
                **{"source": network.place(constant.address), "target": network.place(home.address)},
                "size": home.buffer.size_bytes,
                "bits": f", .bits = {4 if constant.buffer.four_bits else 8}U" if small else "",
                "label": names.comment(home.copy_of),
            }
        )
    text = render(
        "network/resident.c",
        network.words,
        total=sum(home.buffer.size_bytes for home in found),
        evidence=KERNELS_IN_RAM,
        line=CPU_CACHE_LINE,
        small=small,
        plain=not small,
        unpacking=kernels.unpacking().removesuffix("\n") if small else "",
        rows=rows,
    )
    return text.removesuffix("\n")


def _copies_text(network: CNetwork) -> str:
    """The lists of copies that the DMA makes, and the functions that start and await them."""
    if not network.copies:
        return ""
    labels = {home.address: home.buffer.name for home in network.constants()}
    begins = sorted(labels)
    links = dma_links(network.program)
    rows = [
        {
            **{"source": network.place(one.source), "target": network.place(one.target), "size": one.size_bytes},
            "label": names.comment(labels[begins[bisect_right(begins, one.source) - 1]]),
        }
        for one in network.copies
    ]
    text = render(
        "network/dma.c",
        network.words,
        total=sum(one.size_bytes for one in network.copies),
        channel=network.dma_channel,
        links=links,
        alignment=1 << (LINK_BYTES * links - 1).bit_length(),  # all of them share the upper half of their addresses
        block=MOST_BLOCK_BYTES,
        rows=rows,
    )
    return text.removesuffix("\n")


def resident_ranges(network: CNetwork) -> list[tuple[int, int]]:
    """Neighbours together, in whole cache lines."""
    merged: list[tuple[int, int]] = []
    for home in residents(network):
        start, end = home.address, -(-home.end // CPU_CACHE_LINE) * CPU_CACHE_LINE
        if merged and merged[-1][1] == start:
            start = merged.pop()[0]
        merged.append((start, end))
    return merged


# ------------------------------------------------------------------------------------------------------------ states


def _labelled_states(network: CNetwork) -> list[tuple[StateMemory, str]]:
    return [(one, network.labels[one.name]) for one in network.program.states]


def _states_text(network: CNetwork) -> str:
    """The list of states with their first values, and the function that writes them."""
    states = network.program.states
    if not states:
        return ""
    arrays = [(k, one.first) for k, one in enumerate(states) if len(set(one.first)) > 1]
    text = render(
        "network/states.c",
        network.words,
        total=sum(one.size_bytes for one in states),
        line=CPU_CACHE_LINE,
        arrays=[{"k": k, "values": names.lines_of(names.int_literals(first), 20)} for k, first in arrays],
        states=[
            {
                **{"target": network.place(one.address), "size": one.size_bytes, "label": label},
                **{"fill": one.first[0] if one.first else 0},
                "first": f"first_{k}" if len(set(one.first)) > 1 else "NULL",
            }
            for k, (one, label) in enumerate(_labelled_states(network))
        ],
    )
    return text.removesuffix("\n")


# ---------------------------------------------------------------------------------------------------------- <name>.h


def network_h(network: CNetwork) -> str:
    """Numbers and sizes of inputs and outputs as macros, and what the application may call."""
    ranges = resident_ranges(network)
    return render(
        "network/network.h",
        network.words,
        prefix=f"LL_ATON_{names.macro(network.name)}",
        origin=network.origin_name,
        edges=[_edge_row(network, "IN", "input"), _edge_row(network, "OUT", "output")],
        ram_constants=bool(memories.ram_ranges(network)),
        resident_bytes=network.memory.resident_bytes,
        resident_count=len(ranges),
        resident_ranges=[
            {"number": number, "start": names.address(start), "size": end - start}
            for number, (start, end) in enumerate(ranges, 1)
        ],
        states_count=len(network.program.states),
        states_bytes=sum(one.size_bytes for one in network.program.states),
        states=[
            {"number": number, "start": names.address(one.address), "size": one.size_bytes, "label": label}
            for number, (one, label) in enumerate(_labelled_states(network), 1)
        ],
    )


def _edge_row(network: CNetwork, short: str, direction: str) -> Words:
    buffers = network.program.inputs if direction == "input" else network.program.outputs
    users = [_user_row(network, user) for user in network.program.user_io if user.direction == direction]
    return {
        **{"short": short, "direction": direction, "DIRECTION": direction.upper(), "count": len(buffers)},
        "line": CPU_CACHE_LINE,
        "buffers": [
            {"number": number, "label": network.labels[name], "size": network.home(name).buffer.size_bytes}
            for number, name in enumerate(buffers, 1)
        ],
        **{"supplied": bool(users), "users_count": len(users), "users": users},
    }
