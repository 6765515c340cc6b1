"""The runtime that ships with atonc, as part of a folder: what a project without LL_ATON needs to run a network."""

from __future__ import annotations

from atonc.delivery.firmware.building import runtime_folder

_PARTS = (("include", "*.h"), ("src", "*.[ch]"))


def runtime_files(place: str) -> dict[str, bytes]:
    """Path -> contents, all of it: definitions of the project leave out what its networks do not need."""
    found = {}
    for part, pattern in _PARTS:
        for path in sorted(runtime_folder(part).glob(pattern)):
            found[f"{place}/{part}/{path.name}"] = path.read_bytes()
    return found
