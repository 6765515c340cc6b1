"""Does a firmware image keep clear of the memory that its network uses?

    python benchmarks/check_firmware.py Project.elf FOLDER [--name network]

FOLDER is what `atonc generate` wrote. Every section that the ELF file loads or reserves is held against every buffer
and constant of the network; secure and non-secure addresses of the same memory count as one. Exit code 1 on overlap.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile

from atonc.hw.machine import secure


def sections(path: Path) -> list[tuple[str, int, int]]:
    with path.open("rb") as file:
        found = [s for s in ELFFile(file).iter_sections() if s["sh_flags"] & SH_FLAGS.SHF_ALLOC and s["sh_size"]]
        return [(s.name, secure(s["sh_addr"]), secure(s["sh_addr"]) + s["sh_size"]) for s in found]


def buffers(folder: Path, name: str) -> list[tuple[str, int, int]]:
    described = json.loads((folder / f"{name}_program.json").read_text())
    return [(b["name"], secure(b["address"]), secure(b["address"]) + b["size_bytes"]) for b in described["buffers"]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("elf", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--name", default="network")
    options = parser.parse_args()
    image, network = sections(options.elf), buffers(options.folder, options.name)
    clashes = [(s, b) for s in image for b in network if s[1] < b[2] and b[1] < s[2]]
    for name, start, end in sorted(image, key=lambda s: s[1]):
        print(f"section {name:24} {start:#010x} to {end:#010x} {end - start:10,} bytes")
    print(f"network: {len(network)} buffers, {min(b[1] for b in network):#010x} to {max(b[2] for b in network):#010x}")
    for section, buffer in clashes:
        print(f"OVERLAP: section {section[0]} and {buffer[0]} at {buffer[1]:#010x}")
    print(f"{len(clashes)} overlaps")
    return 1 if clashes else 0


if __name__ == "__main__":
    sys.exit(main())
