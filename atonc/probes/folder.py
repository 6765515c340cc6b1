"""A folder that builds to one firmware with these probes in it: sources, runtime, Makefile, how to use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from atonc.emit.c import files, images, names
from atonc.firmware.building import runtime_folder
from atonc.probes.build import BuiltProbe

_PARTS = {"probe": "*", "bare_metal": "*", "include": "*.h", "src": "*.[ch]"}  # of the runtime that ships with atonc

_README = """# Probes

Each probe is a small program for the NPU in a form that no published program shows, with the bytes that atonc's
emulator expects. Not yet run on a board: your run is the evidence.

```
make                      # probes.elf; needs arm-none-eabi-gcc
```

1. Boot switches to development mode; load `probes.elf` with the debugger (it lives in AXISRAM1) and let it run.
2. Read the virtual COM port of the board's debugger: 115200 baud, 8N1. A line for each probe, then their count.
3. Send all lines to the project, with the marking on the chip and the board's name.

PASS: the form works as emulated. FAIL names the first byte that differs. ERROR with a timeout: the form hangs; the NPU
is reset and the next probe runs. A probe whose control did not pass says nothing.

| probe | form | published programs | control |
|---|---|---|---|
{rows}
"""


def folder_files(built: Sequence[BuiltProbe]) -> dict[str, bytes]:
    """File name -> contents."""
    found: dict[str, bytes] = {}
    for part, pattern in _PARTS.items():
        found |= {path.name: path.read_bytes() for path in sorted(runtime_folder(part).glob(pattern))}
    for one in built:
        found |= _network_files(one)
    found["probes.c"] = _table(built).encode()
    found["README.md"] = _README.format(rows="\n".join(map(_row, built))).encode()
    return found


def _network_files(one: BuiltProbe) -> Mapping[str, bytes]:
    """Constants travel inside the firmware, so no image of a memory is needed."""
    return {name: data for name, data in files.files(one.network).items() if name.endswith((".c", ".h"))}


def _row(one: BuiltProbe) -> str:
    probe = one.probe
    return f"| {probe.name} | {probe.form} | {probe.known} | {probe.control or '-'} |"


def _table(built: Sequence[BuiltProbe]) -> str:
    parts = ['/* The probes of this image, written by atonc. Do not edit. */\n#include "probes.h"\n\n']
    rows = []
    for one in built:
        name = one.network.name
        load = images.loader_function(one.network) if images.ram_ranges(one.network) else ""
        parts.append(f"LL_ATON_DECLARE_NAMED_NN_INSTANCE_AND_INTERFACE({one.network.suffix})\n")
        parts.append(f"void {load}(void);\n" if load else "")
        parts.append(_array(f"{name}_stimulus", one.stimulus))
        parts.append(_array(f"{name}_expected", one.expected))
        rows.append(
            f'    {{"{one.probe.name}", &NN_Instance_{one.network.suffix}, {load or "0"}, {name}_stimulus, '
            f"sizeof {name}_stimulus, {name}_expected, sizeof {name}_expected}},\n"
        )
    parts.append(f"const probe_t probes[] = {{\n{''.join(rows)}}};\n")
    parts.append("const uint32_t probes_count = sizeof probes / sizeof probes[0];\n")
    return "".join(parts)


def _array(name: str, data: bytes) -> str:
    return f"static const uint8_t {name}[{len(data)}] = {{\n{names.lines_of(map(str, data), 32)}}};\n\n"
