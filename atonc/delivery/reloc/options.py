"""What the user may ask of `atonc reloc`: every option once."""

from __future__ import annotations

from atonc.machine.base.declare import Takes, check, option
from atonc.machine.base.frozen import dataclass

IMAGE = "the image"
RELEASES = "LL_ATON release of the firmware: 1.1.0, 1.1.1, 1.1.3-8, 1.1.3 (default: the network's, or the newest)"


@dataclass(frozen=True)
class RelocOptions:
    """Arguments of `atonc.relocate`; flags of the command line with their help; rows of the reference."""

    name: str = option("", "-n --name", IMAGE, "of the network and of the image (default: as the C file)")
    secure: bool = option(True, "--no-secure", IMAGE, "for the non-secure state of the CPU")
    split: bool = option(False, "--split", IMAGE, "parameters in a file of their own")
    blobs_in_params: bool = option(False, "--ecblob-in-params", IMAGE, "programs of the NPU beside the parameters")
    cleans: bool = option(
        False, "--clean-cache", IMAGE, "it cleans the CPU's cache over itself: for loaders of files that do not"
    )
    debug_info: bool = option(True, "--no-dbg-info", IMAGE, "for firmware without LL_ATON_EB_DBG_INFO")
    cpu: str = option(
        "cortex-m55",
        "--cpu",
        IMAGE,
        "that loads it; the virtual board is a cortex-m55",
        takes=Takes(choices=("cortex-m55", "cortex-m33")),
    )
    runtime: str = option("", "--runtime", IMAGE, RELEASES, metavar="VERSION")

    def __post_init__(self) -> None:
        check(self)
