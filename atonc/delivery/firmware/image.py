"""A firmware for the virtual board: generated networks, a runtime and the harness in one image.

The runtime is the one of this package, or the vendor's sources in a folder that the user names.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from itertools import pairwise
from pathlib import Path

from atonc.compiler.frontends.custom_file import declaration_name, read_custom
from atonc.delivery.firmware import building
from atonc.delivery.firmware.building import CompileUnit, Placement
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.files.types import CompiledNetwork
from atonc.machine.emu.network import read_contents
from atonc.machine.hw.board import Board, find_board
from atonc.machine.hw.four_bits import FourBits, saved_form
from atonc.machine.hw.machine import FLASH

PROTOCOL = ("wire/wire_serve.c", "wire/wire_messages.c", "wire/wire_packets.c", "wire/wire_chip.c")
WIRE_BAUD = 921_600
_SIGNATURE = 32  # hexadecimal digits
ASYNC, POLLING = "LL_ATON_RT_ASYNC", "LL_ATON_RT_POLLING"
_MAX_FILES = 200_000
_VERSION = re.compile(r"LL_ATON_VERSION_(MAJOR|MINOR|MICRO|DEV)\s*!=\s*(\d{1,6})")
_INCLUDE = re.compile(r'^\s*#\s*include\s+"([\w.]{1,120})"', re.MULTILINE)
_NAME = re.compile(r"[A-Za-z_]\w{0,120}")
DEFAULT_BOARD = "stm32n6570-dk"
# what the vendor's runtime needs to run a network; ll_sw_*.c lean on a closed library and stay out
_VENDOR_SOURCES = ("ll_aton.c", "ll_aton_runtime.c", "ll_aton_lib.c", "ll_aton_lib_sw_operators.c", "ll_aton_util.c")
_VENDOR_OPTIONAL = ("ecloader.c", "ll_aton_cipher.c", "ll_aton_dbgtrc.c")
_VENDOR_HEADERS = ("ll_aton_runtime.h", "ATON.h", "npu_cache.h", "stm32n6xx.h", "core_cm55.h", "stm32n6xx_hal.h")


@dataclass(frozen=True)
class Harness:
    """Who tells the networks of a firmware to run."""

    sources: tuple[str | Path, ...]  # of the runtime's folder, or others with their headers beside them
    with_contents: bool = False  # constants are in the file too, for whoever loads nothing else
    taken: tuple[tuple[int, int], ...] = ()  # memory that is neither the firmware's nor its networks'


STEPWISE = Harness(("harness/main.c",))  # the host says each step through memory
APPLICATION = Harness(("harness/app_main.c",))  # the same, through the table of an application
WIRE = Harness(("harness/wire_main.c", "wire/uart_usart1.c", *PROTOCOL), with_contents=True)  # a client over a line


@dataclass(frozen=True)
class ImageNetwork:
    """A generated network on its way into an image."""

    name: str  # suffix of its C symbols
    c_file: Path
    ranges: tuple[tuple[int, int], ...]  # addresses that its buffers occupy
    contents: tuple[tuple[int, bytes], ...] = field(default=(), repr=False)  # memory before the first inference
    symbols: tuple[tuple[str, int], ...] = ()  # pools of relative mode, where the linker puts them
    four_bits: FourBits | None = None  # how its engines are taken to read kernels of 4 bits, where it says so
    reset: str = ""  # the function that gives its states their first values

    @property
    def folder(self) -> Path:
        return self.c_file.parent


def network_in(folder: Path, name: str | None = None, weights: Sequence[Path] | None = None) -> ImageNetwork:
    """A folder as `atonc generate` or the vendor's tool writes it."""
    network, segments = read_contents(folder, name, weights)
    contents = tuple((segment.address, segment.data) for segment in segments)
    relative = [pool for pool in network.pools if not pool.absolute]
    symbols = tuple((f"_mem_pool_{pool.postfix}_{network.name}", pool.base) for pool in relative)
    assumed = saved_form(network.directory / f"{network.stem}_program.json")
    reset = reset_function(network.stem) if network.states else ""
    return ImageNetwork(network.name, network.c_file, tuple(_ranges(network)), contents, symbols, assumed, reset)


def reset_function(stem: str) -> str:
    """As NAME.c defines it where the network keeps states."""
    return f"{stem}_reset"


@dataclass(frozen=True)
class Runtime:
    """Sources of an LL_ATON runtime and what every file that includes its headers must see."""

    label: str
    sources: tuple[Path, ...]
    includes: tuple[Path, ...]
    defines: dict[str, str] = field(default_factory=dict)
    ours: bool = True
    options: tuple[str, ...] = ()


def our_runtime(mode: str = ASYNC) -> Runtime:
    sources = sorted(building.runtime_folder("src").glob("*.c"))
    includes = (building.runtime_folder("include"), building.runtime_folder("kernels"))
    return Runtime("atonc", tuple(sources), includes, {"LL_ATON_RT_MODE": mode})


def wire_runtime(minor: int = 1, baud: int = WIRE_BAUD) -> Runtime:
    """For firmware that answers validation clients: blocks know their epochs. `minor`: of protocol 3."""
    ours = our_runtime()
    told = {"LL_ATON_EB_DBG_INFO": "", "ATONC_WIRE_MINOR": str(minor), "ATONC_WIRE_BAUD": f"{baud}u"}
    return replace(ours, defines=ours.defines | told)


def vendor_runtime(folder: Path, mode: str = ASYNC) -> Runtime:
    """The published LL_ATON sources with CMSIS and HAL headers, wherever they lie below the folder."""
    files = _files_by_name(folder)
    home = _one(files, "ll_aton_runtime.c", folder).parent
    missing = [name for name in _VENDOR_SOURCES if not (home / name).is_file()]
    if missing:
        raise InputError(f"{home} has no {', '.join(missing)}", where=str(folder))
    sources = [home / name for name in (*_VENDOR_SOURCES, *_VENDOR_OPTIONAL) if (home / name).is_file()]
    headers = [_one(files, name, folder).parent for name in _VENDOR_HEADERS]
    configured = files.get("stm32n6xx_hal_conf.h", [])
    headers += [configured[0].parent] if configured else []
    includes = tuple(dict.fromkeys((home, *headers)))
    defines = {
        "STM32N657xx": "",
        "LL_ATON_PLATFORM": "LL_ATON_PLAT_STM32N6",
        "LL_ATON_OSAL": "LL_ATON_OSAL_BARE_METAL",
        "LL_ATON_RT_MODE": mode,
        "LL_ATON_SW_FALLBACK": "",
        "PRIx64": '"llx"',  # newlib's small library leaves these out
        "PRIu64": '"llu"',
    }
    return Runtime(str(folder), tuple(sources), includes, defines, ours=False)


def compile_runtime(runtime: Runtime, folder: Path, board: Board | None = None) -> list[Path]:
    """The objects that do not depend on the networks: who builds several images compiles them once."""
    folder.mkdir(parents=True, exist_ok=True)
    harness = building.runtime_folder("harness")
    cpu_khz = round((board or find_board(DEFAULT_BOARD)).clocks["cpu_mhz"] * 1000)
    names = ["startup.c", "board_io.c", *(() if runtime.ours else ("caches.c",))]
    units = [
        CompileUnit(tuple(harness / name for name in names), (harness,), {"BOARD_CPU_KHZ": f"{cpu_khz}u"}),
        CompileUnit(
            (harness / "board_network.c",), (harness, *runtime.includes), runtime.defines, options=runtime.options
        ),
        CompileUnit(runtime.sources, runtime.includes, runtime.defines, options=runtime.options),
    ]
    return building.compile_units(building.find_toolchain(), units, folder)


def build_firmware(
    networks: Sequence[ImageNetwork],
    runtime: Runtime,
    folder: Path,
    common: Sequence[Path] | None = None,
    harness: Harness = STEPWISE,
    board: Board | None = None,
) -> Path:
    """Compiles and links everything into `folder/firmware.elf`; `common` is what `compile_runtime` gave."""
    toolchain = building.find_toolchain()
    _check_contents(networks)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "networks.h").write_text(network_list(networks))
    homes: tuple[Path, ...] = building.runtime_folder("harness"), building.runtime_folder("wire")
    sources = tuple(name if isinstance(name, Path) else building.runtime_folder(name) for name in harness.sources)
    homes += tuple(dict.fromkeys(name.parent for name in harness.sources if isinstance(name, Path)))
    every = dict.fromkeys(part for network in networks for part in network.contents)
    contents = runs(every) if harness.with_contents else []
    units = [
        CompileUnit(sources, (*homes, folder, *runtime.includes), runtime.defines),
        *_kernels(networks, runtime),
        *(_network_unit(network, runtime) for network in networks),
        *(CompileUnit((path,), (path.parent,)) for path in dict.fromkeys(_custom(networks))),
        *([CompileUnit((_contents_source(contents, folder),))] if contents else []),
    ]
    common = compile_runtime(runtime, folder / "runtime", board) if common is None else common
    objects = building.compile_units(toolchain, units, folder)
    symbols = dict(pair for network in networks for pair in network.symbols)
    fixed = [address for address, _ in contents]
    placement, elf = place(networks, board, harness.taken), folder / "firmware.elf"
    return building.link(toolchain, [*common, *objects], elf, placement, symbols=symbols, fixed=fixed)


def _contents_source(contents: Sequence[tuple[int, bytes]], folder: Path) -> Path:
    """Constants as sections, each of which the linker puts where it belongs."""
    lines = []
    for number, (_, data) in enumerate(contents):
        file = folder / f"contents_{number}.bin"
        file.write_bytes(data)
        lines.append(f'.section .contents_{number}, "a", %progbits\n.incbin "{file}"\n')
    source = folder / "contents.S"
    source.write_text("".join(lines))
    return source


def runs(parts: Iterable[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """The same bytes, sorted, and as one where they touch."""
    joined: list[tuple[int, bytearray]] = []
    for address, data in sorted(part for part in parts if part[1]):
        if joined and joined[-1][0] + len(joined[-1][1]) == address:
            joined[-1][1].extend(data)
        else:
            joined.append((address, bytearray(data)))
    return [(address, bytes(data)) for address, data in joined]


def _network_unit(network: ImageNetwork, runtime: Runtime) -> CompileUnit:
    defines = dict(runtime.defines)
    defines |= version_defines(network) if runtime.ours else {}
    return CompileUnit((network.c_file,), (network.folder, *runtime.includes), defines)


def _custom(networks: Sequence[ImageNetwork]) -> Iterator[Path]:
    """Networks of one folder may call the same functions."""
    for network in networks:
        yield from custom_sources(network.c_file)


def custom_sources(c_file: Path) -> list[Path]:
    """C operators of the user, which lie beside the network's own file (`generate --custom`)."""
    declared = c_file.with_name(declaration_name(c_file.stem))
    known = read_custom(str(declared)).values() if declared.is_file() else ()
    names = dict.fromkeys(name for one in known for name, _ in one.files if name.endswith(".c"))
    return [c_file.with_name(name) for name in names]


def version_defines(network: ImageNetwork) -> dict[str, str]:
    """A network that insists on one release gets its number from our runtime: the interface suits all of them."""
    found = _VERSION.findall(network.c_file.read_text(errors="replace"))
    return {f"LL_ATON_VERSION_{part}": number for part, number in found}


def _kernels(networks: Sequence[ImageNetwork], runtime: Runtime) -> list[CompileUnit]:
    """CPU layers: the file that was generated with the first network that has one serves all."""
    for network in networks:
        source = network.folder / "atonc_kernels.c"
        if source.is_file():
            return [CompileUnit((source,), (network.folder, *runtime.includes), runtime.defines)]
    return []


def network_list(networks: Sequence[ImageNetwork]) -> str:
    """networks.h, from which a harness knows them."""
    names = [network.name for network in networks]
    bad = [name for name in names if not _NAME.fullmatch(name)]
    if bad or len(set(names)) != len(names):
        raise InputError(
            f"networks are called {', '.join(names)}",
            rule="every network in a firmware has its own name, a C identifier",
            remedy="generate them with different --name",
        )
    uses = " ".join(f"use({name})" for name in names)
    hashes = ", ".join(f'"{signature(network)}"' for network in networks)
    resets = ", ".join(network.reset or "NULL" for network in networks)
    declared = "".join(f"void {network.reset}(void);\n" for network in networks if network.reset)
    known = f"#define ATONC_NETWORKS(use) {uses}\n#define ATONC_SIGNATURES {hashes}\n#define ATONC_RESETS {resets}\n"
    return known + declared


def signature(network: ImageNetwork) -> str:
    """What tells two networks apart: the generated C file with what it includes from its folder (the NPU's programs are
    there), the CPU layers that come along, and the constants."""
    digest = hashlib.sha256()
    for file in own_files(network):
        digest.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    for address, data in runs(network.contents):
        digest.update(address.to_bytes(8, "little") + hashlib.sha256(data).digest())
    return digest.hexdigest()[:_SIGNATURE]


def own_files(network: ImageNetwork) -> list[Path]:
    found, left = {network.c_file}, [network.c_file]
    kernels = network.folder / "atonc_kernels.c"
    if kernels.is_file():
        found.add(kernels)
    while left:
        names = _INCLUDE.findall(left.pop().read_text(errors="replace"))
        new = {network.folder / name for name in names if (network.folder / name).is_file()} - found
        found |= new
        left += new
    return sorted(found, key=lambda file: file.name)


# --------------------------------------------------------------------------------------------------------- placement


def place(
    networks: Iterable[ImageNetwork], board: Board | None = None, taken: Sequence[tuple[int, int]] = ()
) -> Placement:
    """Code and data where no buffer of any network lies."""
    used = [*(part for network in networks for part in network.ranges), *taken]
    board = board or find_board(DEFAULT_BOARD)
    for start, end in board.data_places():
        if not any(first < end and start < last for first, last in used):
            placement = replace(_code_place(board), data=start, data_bytes=end - start)
            break
    else:
        raise InputError(
            "the networks leave no RAM for the firmware's own data",
            remedy="keep one of AXISRAM1, AXISRAM2, VENCRAM or DTCM out of the memory pools",
        )
    code = placement.code, placement.code + placement.code_bytes
    if any(first < code[1] and code[0] < last for first, last in used):
        raise InputError(f"the networks use flash at {code[0]:#010x}, where the firmware's code goes")
    return placement


def _code_place(board: Board) -> Placement:
    """The last part of the flash: weights grow towards it from below."""
    usual = Placement()
    flash = max(board.of_kind(FLASH), key=lambda memory: memory.size_bytes, default=None)
    if flash is None or flash.size_bytes < usual.code_bytes:
        raise InputError(
            f"{board.title} has no flash of {usual.code_bytes >> 20} MiB",
            rule="the virtual board runs firmware from flash",
        )
    return replace(usual, code=flash.end - usual.code_bytes)


def _check_contents(networks: Sequence[ImageNetwork]) -> None:
    """RAM may be shared by networks that take turns, constants only where they are the same."""
    parts = sorted((start, data, n.name) for n in networks for start, data in n.contents if data)
    for (before, data, one), (start, more, other) in pairwise(parts):
        if start < before + len(data) and (before, data) != (start, more):
            raise InputError(
                f"{one} and {other} both want their constants at {start:#010x}",
                rule="every network in a firmware has its own place for constants",
                remedy="compile one of them with another base in its memory pool file (--mpool)",
            )


def _ranges(network: CompiledNetwork) -> Iterator[tuple[int, int]]:
    for buffer in (*network.inputs, *network.outputs, *network.internals, *network.params):
        if not buffer.is_user_allocated:
            yield buffer.address, buffer.address + max(buffer.size_bytes, buffer.limit_bytes)
    yield from ((copy.address, copy.address + copy.size_bytes) for copy in network.residents)
    if not network.internals:
        yield from ((pool.base, pool.base + pool.size_bytes) for pool in network.pools if pool.writable)


# ------------------------------------------------------------------------------------------------------ vendor files


def _files_by_name(folder: Path) -> dict[str, list[Path]]:
    if not folder.is_dir():
        raise InputError("no such folder of runtime sources", where=str(folder))
    found: dict[str, list[Path]] = {}
    for count, path in enumerate(folder.rglob("*.[ch]")):
        if count > _MAX_FILES:
            raise InputError("too many files below it", where=str(folder), remedy="name the folder more closely")
        found.setdefault(path.name, []).append(path)
    return found


def _one(files: dict[str, list[Path]], name: str, folder: Path) -> Path:
    """The file of this name; of several the one for this chip, then the one with the shortest path."""
    choices = files.get(name, [])
    if not choices:
        raise InputError(
            f"{name} is nowhere below it",
            where=str(folder),
            rule="a vendor runtime is its LL_ATON sources with the CMSIS and HAL headers of the STM32N6",
            remedy="give the root of a getting-started project, or of a folder with Middlewares and Drivers",
        )

    def rank(path: Path) -> tuple[bool, int, str]:
        return "STM32N6" not in str(path.relative_to(folder)).upper(), len(path.parts), str(path)

    return min(choices, key=rank)
