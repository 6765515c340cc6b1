"""`<name>.h`: numbers and sizes of inputs and outputs as macros."""

from __future__ import annotations

from collections.abc import Sequence

from atonc.compiler.emit.c import images, names, resident
from atonc.compiler.emit.c.network import CNetwork
from atonc.machine.hw.limits import CPU_CACHE_LINE


def text(network: CNetwork) -> str:
    prefix = f"LL_ATON_{names.macro(network.name)}"
    lines = [
        f"/* {network.name}.h: inputs and outputs of the network, written by {network.tool}. Do not edit. */",
        "",
        f"#ifndef {prefix}_H",
        f"#define {prefix}_H",
        "",
        f'#define {prefix}_C_MODEL_NAME "{network.suffix}"',
        f'#define {prefix}_ORIGIN_MODEL_NAME "{network.origin_name}"',
        "",
        *_edges(network, prefix, "IN", "input", network.program.inputs),
        "",
        *_edges(network, prefix, "OUT", "output", network.program.outputs),
        "",
        *_loader(network),
        *resident.header_lines(network, prefix),
        f"#endif /* {prefix}_H */",
    ]
    return "\n".join(lines) + "\n"


def _edges(network: CNetwork, prefix: str, short: str, direction: str, buffers: Sequence[str]) -> list[str]:
    users = [user for user in network.program.user_io if user.direction == direction]
    lines = [f"#define {prefix}_{short}_NUM ({len(buffers)})"]
    for number, buffer in enumerate(buffers, 1):
        size = network.home(buffer).buffer.size_bytes
        lines += [
            f"/* {direction} {number}: {network.labels[buffer]} */",
            f"#define {prefix}_{short}_{number}_ALIGNMENT ({CPU_CACHE_LINE})",
            f"#define {prefix}_{short}_{number}_SIZE_BYTES ({size})",
        ]
    if users:
        lines += ["", f"/* {direction} buffers that the application allocates, in whole cache lines */"]
        lines += [f"#define {prefix}_USER_ALLOCATED_{direction.upper()}S ({len(users)})"]
    for user in users:
        number = user.index + 1
        padded = -(-user.size_bytes // user.alignment) * user.alignment
        lines += [
            f"#define {prefix}_USER_{short}_{number}_INDEX ({user.index}) /* for the setter */",
            f"#define {prefix}_USER_{short}_{number}_ALIGNMENT ({user.alignment})",
            f"#define {prefix}_USER_{short}_{number}_SIZE_BYTES ({padded})",
        ]
        if user.npu_ram_only:
            lines += ["/* place it in the RAM of the NPU (AXISRAM3 to 6): elsewhere it was never seen to work */"]
    return lines


def _loader(network: CNetwork) -> list[str]:
    if not images.ram_ranges(network):
        return []
    return [
        "/* Constants in RAM: call this once before the network is initialised, or load the .raw images otherwise. */",
        "#ifdef __cplusplus",
        'extern "C"',
        "#endif",
        f"void {images.loader_function(network)}(void);",
        "",
    ]
