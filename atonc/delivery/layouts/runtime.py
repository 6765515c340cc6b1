"""The runtime that ships with atonc, as part of a folder: what a project without LL_ATON needs to run a network."""

from __future__ import annotations

from atonc.delivery.firmware.building import runtime_folder

_PARTS = (("include", "*.h"), ("src", "*.[ch]"))
_UNUSED = ("atonc_reloc", "atonc_lib", "atonc_unit")  # loaders of images, layers and drivers of other compilers' networks


def runtime_files(place: str, epoch_controller: bool = True) -> dict[str, bytes]:
    """Path -> contents; drivers of single units only for networks that the processor starts epoch by epoch."""
    found = {}
    for part, pattern in _PARTS:
        for path in sorted(runtime_folder(part).glob(pattern)):
            unit = path.name.startswith("atonc_unit")
            if path.suffix == ".c" and path.name.startswith(_UNUSED) and not (unit and not epoch_controller):
                continue
            found[f"{place}/{part}/{path.name}"] = path.read_bytes()
    return found
