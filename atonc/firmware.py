"""A firmware for the virtual board: generated networks, a runtime and the harness in one image.

The runtime is the one of this package, or the vendor's sources in a folder that the user names.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from atonc import building
from atonc.building import Placement, Unit
from atonc.emu.files.types import CompiledNetwork
from atonc.emu.network import read_contents
from atonc.errors import InputError
from atonc.hw.board import Board
from atonc.hw.board_file import find_board
from atonc.hw.machine import FLASH

STEPWISE = ("main.c",)  # the host says each step through memory
WIRE = ("wire_main.c", "wire_messages.c", "wire_packets.c")  # a client of the validation protocol does
_SIGNATURE = 32  # hexadecimal digits
ASYNC, POLLING = "LL_ATON_RT_ASYNC", "LL_ATON_RT_POLLING"
_MAX_FILES = 200_000
_VERSION = re.compile(r"LL_ATON_VERSION_(MAJOR|MINOR|MICRO|DEV)\s*!=\s*(\d{1,6})")
_NAME = re.compile(r"[A-Za-z_]\w{0,120}")
DEFAULT_BOARD = "stm32n6570-dk"
# what the vendor's runtime needs to run a network; ll_sw_*.c lean on a closed library and stay out
_VENDOR_SOURCES = ("ll_aton.c", "ll_aton_runtime.c", "ll_aton_lib.c", "ll_aton_lib_sw_operators.c", "ll_aton_util.c")
_VENDOR_OPTIONAL = ("ecloader.c", "ll_aton_cipher.c", "ll_aton_dbgtrc.c")
_VENDOR_HEADERS = ("ll_aton_runtime.h", "ATON.h", "npu_cache.h", "stm32n6xx.h", "core_cm55.h", "stm32n6xx_hal.h")


@dataclass(frozen=True)
class ImageNetwork:
    """A generated network on its way into an image."""

    name: str  # suffix of its C symbols
    c_file: Path
    ranges: tuple[tuple[int, int], ...]  # addresses that its buffers occupy
    contents: tuple[tuple[int, bytes], ...] = field(default=(), repr=False)  # memory before the first inference
    symbols: tuple[tuple[str, int], ...] = ()  # pools of relative mode, where the linker puts them

    @property
    def folder(self) -> Path:
        return self.c_file.parent


def network_in(folder: Path, name: str | None = None, weights: Sequence[Path] | None = None) -> ImageNetwork:
    """A folder as `atonc generate` or the vendor's tool writes it."""
    network, segments = read_contents(folder, name, weights)
    contents = tuple((segment.address, segment.data) for segment in segments)
    relative = [pool for pool in network.pools if not pool.absolute]
    symbols = tuple((f"_mem_pool_{pool.postfix}_{network.name}", pool.base) for pool in relative)
    return ImageNetwork(network.name, network.c_file, tuple(_ranges(network)), contents, symbols)


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


def wire_runtime(minor: int = 1) -> Runtime:
    """For firmware that answers validation clients: blocks know their epochs. `minor`: of protocol 3."""
    ours = our_runtime()
    return replace(ours, defines=ours.defines | {"LL_ATON_EB_DBG_INFO": "", "ATONC_WIRE_MINOR": str(minor)})


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
        Unit(tuple(harness / name for name in names), (harness,), {"BOARD_CPU_KHZ": f"{cpu_khz}u"}),
        Unit((harness / "board_network.c",), (harness, *runtime.includes), runtime.defines, options=runtime.options),
        Unit(runtime.sources, runtime.includes, runtime.defines, options=runtime.options),
    ]
    return building.compile_units(building.find_toolchain(), units, folder)


def build_firmware(
    networks: Sequence[ImageNetwork],
    runtime: Runtime,
    folder: Path,
    common: Sequence[Path] | None = None,
    harness: Sequence[str] = STEPWISE,
    board: Board | None = None,
) -> Path:
    """Compiles and links everything into `folder/firmware.elf`; `common` is what `compile_runtime` gave, `harness` who
    tells the networks to run."""
    toolchain = building.find_toolchain()
    _check_contents(networks)
    folder.mkdir(parents=True, exist_ok=True)
    _write_network_list(networks, folder)
    home = building.runtime_folder("harness")
    units = [
        Unit(tuple(home / name for name in harness), (home, folder, *runtime.includes), runtime.defines),
        *_kernels(networks, runtime),
        *(_network_unit(network, runtime) for network in networks),
    ]
    common = compile_runtime(runtime, folder / "runtime", board) if common is None else common
    objects = building.compile_units(toolchain, units, folder)
    symbols = dict(pair for network in networks for pair in network.symbols)
    placement, elf = place(networks, board), folder / "firmware.elf"
    return building.link(toolchain, [*common, *objects], elf, placement, symbols=symbols)


def _network_unit(network: ImageNetwork, runtime: Runtime) -> Unit:
    defines = dict(runtime.defines)
    if runtime.ours:  # a network that insists on one release gets its number: the interface suits all of them
        found = _VERSION.findall(network.c_file.read_text(errors="replace"))
        defines |= {f"LL_ATON_VERSION_{part}": number for part, number in found}
    return Unit((network.c_file,), (network.folder, *runtime.includes), defines)


def _kernels(networks: Sequence[ImageNetwork], runtime: Runtime) -> list[Unit]:
    """CPU layers: the file that was generated with the first network that has one serves all."""
    for network in networks:
        source = network.folder / "atonc_kernels.c"
        if source.is_file():
            return [Unit((source,), (network.folder, *runtime.includes), runtime.defines)]
    return []


def _write_network_list(networks: Sequence[ImageNetwork], folder: Path) -> None:
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
    (folder / "networks.h").write_text(f"#define ATONC_NETWORKS(use) {uses}\n#define ATONC_SIGNATURES {hashes}\n")


def signature(network: ImageNetwork) -> str:
    """What tells two networks apart: of the generated C file and of the constants."""
    digest = hashlib.sha256(network.c_file.read_bytes())
    for address, data in sorted(network.contents):
        digest.update(address.to_bytes(8, "little") + len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:_SIGNATURE]


# --------------------------------------------------------------------------------------------------------- placement


def place(networks: Iterable[ImageNetwork], board: Board | None = None) -> Placement:
    """Code and data where no buffer of any network lies."""
    used = [part for network in networks for part in network.ranges]
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
    """RAM may be shared by networks that take turns, constants not."""
    parts = sorted((start, start + len(data), n.name) for n in networks for start, data in n.contents if data)
    for (_, end, one), (start, _, other) in pairwise(parts):
        if start < end:
            raise InputError(
                f"{one} and {other} both want their constants at {start:#010x}",
                rule="every network in a firmware has its own place for constants",
                remedy="compile one of them with another base in its memory pool file (--mpool)",
            )


def _ranges(network: CompiledNetwork) -> Iterator[tuple[int, int]]:
    for buffer in (*network.inputs, *network.outputs, *network.internals, *network.params):
        if not buffer.is_user_allocated:
            yield buffer.address, buffer.address + max(buffer.size_bytes, buffer.limit_bytes)
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
