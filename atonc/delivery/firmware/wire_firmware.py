"""`atonc board build`: networks with a harness that answers validation clients, as a firmware or as C files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from atonc.compiler.emit.c import names
from atonc.delivery.firmware import image as firmware
from atonc.delivery.firmware.building import runtime_folder
from atonc.delivery.firmware.image import ImageNetwork
from atonc.delivery.firmware.launch_files import absent, launch_files
from atonc.insight.report.document import SummaryRow, next_row, summary_lines
from atonc.machine.base.disk import write_file, write_files
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.templates import render
from atonc.machine.base.words import count, shell

_BAUDS = range(1200, 8_000_001)  # eight times oversampled, the UART's 64 MHz give no more
_PARTS = {"wire": "*", "bare_metal": "*", "include": "*.h", "src": "*.[ch]"}  # of the runtime that ships with atonc
_BARE_RAM = (0x3400_0000, 0x3410_0000)  # AXISRAM1, where axisram.ld puts the firmware


@dataclass(frozen=True)
class BuildOptions:
    folders: tuple[Path, ...]
    minor: int = 1  # of protocol 3
    baud: int = firmware.WIRE_BAUD


def build(options: BuildOptions, output: Path) -> list[str]:
    """The firmware with all constants in it; what the user reads."""
    networks = _networks(options)
    with tempfile.TemporaryDirectory(prefix="atonc_") as folder:
        runtime = firmware.wire_runtime(options.minor, options.baud)
        parts = Path(folder)
        content = firmware.build_firmware(networks, runtime, parts, harness=firmware.WIRE).read_bytes()
    write_file(output, content)
    rows = (
        SummaryRow("networks", ", ".join(network.name for network in networks)),
        SummaryRow("answers", f"protocol 3.{options.minor}, {options.baud} baud, on the virtual board"),
        SummaryRow("written", str(output)),
        next_row(shell("board", "run", output, "--serial", "socket:5555")),
        SummaryRow("and", "atonc validate MODEL --mode target -d socket:localhost:5555"),
    )
    return [*_told(networks), *summary_lines(rows)]


def _networks(options: BuildOptions) -> list[ImageNetwork]:
    if options.baud not in _BAUDS:
        raise InputError(f"{options.baud} is no speed of this UART", rule=f"{_BAUDS.start} to {_BAUDS.stop - 1} baud")
    return [firmware.network_in(folder) for folder in options.folders]


def _told(networks: Sequence[ImageNetwork]) -> Iterator[str]:
    for network in networks:
        size = sum(len(data) for _, data in network.contents)
        yield f"network {network.name}: hash {firmware.signature(network)}, {size:,} bytes of constants"


# -------------------------------------------------------------------------------------------------------- sources


def write_sources(options: BuildOptions, output: Path) -> list[str]:
    """Everything that a project for a real board needs; what the user reads."""
    networks = _networks(options)
    contents = firmware.runs(part for network in networks for part in network.contents)
    outside = [(address, data) for address, data in contents if address >> 28 not in (2, 3)]
    paths = (path for part, kind in _PARTS.items() for path in sorted(runtime_folder(part).glob(kind)))
    files = {path.name: path.read_bytes() for path in paths if path.is_file()}
    for network in networks:
        _add(files, network)
    files["networks.h"] = firmware.network_list(networks).encode()
    files["options.mk"] = _options(options, networks).encode()
    files["wire_constants.c"] = _constants([part for part in contents if part not in outside]).encode()
    files |= {_flash_name(address): data for address, data in outside}
    bare = _bare_obstacle(networks, outside)
    files["README.md"] = _readme(options, networks, outside, bare).encode()
    write_files(output, files)
    _write_launch_files(output, [f"{_flash_name(address)}@{address:#x}" for address, _ in outside])
    how = f"make -C {output}" if not bare else f"put them into your project: {bare}"
    rows = (
        SummaryRow("networks", ", ".join(network.name for network in networks)),
        SummaryRow("written", f"{output}: {count(len(files), 'file')}"),
        next_row(f"{how}; {output / 'README.md'}"),
    )
    return [*_told(networks), *summary_lines(rows)]


def _write_launch_files(output: Path, flash: Sequence[str]) -> None:
    def current(file: str) -> bytes | None:
        return (output / file).read_bytes() if (output / file).is_file() else None

    for file, data in absent(launch_files("firmware.elf", flash), current).items():
        (output / file).parent.mkdir(exist_ok=True)
        write_file(output / file, data)


def _add(files: dict[str, bytes], network: ImageNetwork) -> None:
    """The CPU layers are the same file for all networks of one release; nothing else may be called alike."""
    for path in firmware.own_files(network):
        content = path.read_bytes()
        if files.setdefault(path.name, content) != content:
            raise InputError(
                f"two different files are called {path.name}",
                where=str(network.folder),
                remedy="generate the networks with the same release of atonc and with different --name",
            )


def _options(options: BuildOptions, networks: Sequence[ImageNetwork]) -> str:
    defines = [(network.c_file.stem, firmware.version_defines(network)) for network in networks]
    symbols = [f"-Wl,--defsym={name}={value:#x}" for network in networks for name, value in network.symbols]
    return render(
        "wire/options.mk",
        options=_defines(firmware.wire_runtime(options.minor, options.baud).defines),
        networks=[{"stem": stem, "defines": _defines(wanted)} for stem, wanted in defines if wanted],
        symbols=" ".join(symbols),
    )


def _defines(values: Mapping[str, str]) -> str:
    return " ".join(f"-D{name}={value}" if value else f"-D{name}" for name, value in values.items())


def _constants(contents: Sequence[tuple[int, bytes]]) -> str:
    parts = [
        {
            **{"k": k, "size": len(data), "values": names.lines_of(map(str, data), 32)},
            **{"start": f"{address:#x}", "end": f"{address + len(data):#x}"},
        }
        for k, (address, data) in enumerate(contents)
    ]
    return render("wire/wire_constants.c", parts=parts)


def _bare_obstacle(networks: Sequence[ImageNetwork], outside: Sequence[tuple[int, bytes]]) -> str:
    if outside:
        return "constants lie outside the chip, and the bare firmware maps no external memory"
    start, end = _BARE_RAM
    used = [part for network in networks for part in network.ranges]
    if any(first < end and start < last for first, last in used):
        return "the network works in AXISRAM1, where the bare firmware is"
    external = any(first >> 28 not in (2, 3) for first, _ in used)
    return "buffers lie outside the chip, and the bare firmware maps no external memory" if external else ""


def _flash_name(address: int) -> str:
    return f"constants_{address:#010x}.bin"


def _readme(
    options: BuildOptions, networks: Sequence[ImageNetwork], outside: Sequence[tuple[int, bytes]], obstacle: str
) -> str:
    bare = f"Not with these networks: {obstacle} (compile with a pool file like examples/bare_metal/ram_only.mpool)."
    return render(
        "wire/README.md",
        networks=[{"told": line} for line in _told(networks)],
        baud=options.baud,
        bare=bare if obstacle else "",
        flash=[{"file": _flash_name(at), "start": f"{at:#010x}", "size": f"{len(data):,}"} for at, data in outside],
    )
