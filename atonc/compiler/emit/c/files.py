"""All files of the firmware side, by name."""

from __future__ import annotations

import re
from collections.abc import Mapping

from atonc.compiler.emit.c import blobs_h, images, memories_h, network_c, network_h, stai
from atonc.compiler.emit.c.kernels import kernel_files
from atonc.compiler.emit.c.network import CNetwork
from atonc.machine.base.disk import together
from atonc.machine.base.errors import InputError


def files(
    network: CNetwork, with_hex: bool = False, with_stai: bool = False, macs: int = 0, shared_kernels: bool = False
) -> dict[str, bytes]:
    """`with_stai`: also the interface that applications for later releases call. `shared_kernels`: CPU layers call
    kernels in a file for all networks, else each network's C file has those that it calls."""
    name = network.name
    own = {
        f"{name}.c": network_c.text(network, shared_kernels).encode(),
        f"{name}.h": network_h.text(network).encode(),
        **blobs_h.files(network),
        f"{name}_memories.h": memories_h.text(network).encode(),
        **images.raw_files(network),
        **(images.hex_files(network) if with_hex else {}),
        **images.loader_files(network),
    }
    interface = stai.files(network, macs) if with_stai else {}
    kernels = kernel_files() if shared_kernels and network.cpu_blocks else {}
    found = together(
        [(f"the network {name!r}", own), ("its ST.AI interface", interface), ("the kernels of all networks", kernels)]
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
