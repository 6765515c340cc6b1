"""All files of the firmware side, by name."""

from __future__ import annotations

from atonc.compiler.emit.c import blobs_h, images, memories_h, network_c, network_h, stai
from atonc.compiler.emit.c.kernels import kernel_files
from atonc.compiler.emit.c.network import CNetwork


def files(
    network: CNetwork, with_hex: bool = False, with_stai: bool = False, macs: int = 0, shared_kernels: bool = False
) -> dict[str, bytes]:
    """`with_stai`: also the interface that applications for later releases call. `shared_kernels`: CPU layers call
    kernels in a file for all networks, else each network's C file has those that it calls."""
    name = network.name
    return {
        f"{name}.c": network_c.text(network, shared_kernels).encode(),
        f"{name}.h": network_h.text(network).encode(),
        **blobs_h.files(network),
        f"{name}_memories.h": memories_h.text(network).encode(),
        **images.raw_files(network),
        **(images.hex_files(network) if with_hex else {}),
        **images.loader_files(network),
        **(stai.files(network, macs) if with_stai else {}),
        **(kernel_files() if shared_kernels and network.cpu_blocks else {}),
    }
