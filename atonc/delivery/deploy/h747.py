"""The STM32H747I-DISCO applications: camera, activation buffers and pictures where a model needs them.

`update_activation_c_code` is the function of the model zoo, with its arguments. It changes three files together or none
(`journal.py`), and only what belongs to it: bytes, line ends, comments and what people wrote stay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from atonc.delivery.deploy import journal
from atonc.delivery.deploy.app_config.header import read_facts
from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import CapacityError, InputError, UnsupportedError
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.machine import read_json

START = b"/*** @GENERATED CODE START - DO NOT TOUCH@ ***/"
STOP = b"/*** @GENERATED CODE STOP - DO NOT TOUCH@ ***/"


def line_end(data: bytes) -> bytes:
    """Finds the line end that most lines of the file have."""
    return b"\r\n" if data.count(b"\r\n") * 2 > data.count(b"\n") else b"\n"


def replace_generated(data: bytes, lines: Sequence[str], where: str) -> bytes:
    """What stands between the two marks; they stay."""
    start, stop = (_line_of(data, mark, where) for mark in (START, STOP))
    if stop[0] < start[1]:
        raise _refused("the mark of the end of generated code stands before that of its start", where)
    end = line_end(data)
    return data[: start[1]] + b"".join(line.encode() + end for line in lines) + data[stop[0] :]


def _line_of(data: bytes, mark: bytes, where: str) -> tuple[int, int]:
    """Where the line with the mark begins and ends."""
    found = list(re.finditer(rb"^[ \t]*" + re.escape(mark) + rb"[ \t]*(?:\r?\n|\Z)", data, re.MULTILINE))
    if len(found) != 1:
        count = "no line" if not found else f"{len(found)} lines"
        raise _refused(f"{count} with the mark {mark.decode()}", where)
    return found[0].start(), found[0].end()


def set_define(data: bytes, name: str, value: str, where: str) -> bytes:
    """The value of a macro, wherever it is defined; a comment behind it stays."""
    pattern = rb"^([ \t]*#[ \t]*define[ \t]+" + name.encode() + rb")[ \t]+[^\r\n]*?([ \t]*(?://|/\*)[^\r\n]*)?(?=\r?$)"
    changed, count = re.subn(pattern, rb"\g<1> " + value.encode() + rb"\2", data, flags=re.MULTILINE)
    if not count:
        raise _refused(f"#define {name} is not there", where)
    return changed


def set_section(data: bytes, variable: str, memory: str, where: str) -> bytes:
    """The memory at the end of the name of a variable's section."""
    pattern = rb'(__attribute__\s*\(\(\s*section\s*\(\s*"\.' + variable.encode() + rb"_)\w+"
    changed, count = re.subn(pattern, rb"\g<1>" + memory.encode(), data)
    if not count:
        raise _refused(f"no section attribute of {variable}", where)
    return changed


def _refused(what: str, where: str) -> InputError:
    remedy = "take the file from the application as published, and put your changes outside the generated parts"
    return InputError(f"{what}; nothing was changed", where=where, remedy=remedy)


MAIN_H = "Application/STM32H747I-DISCO/Inc/CM7/main.h"
MAIN_C = "Application/STM32H747I-DISCO/Src/CM7/main.c"
INTERFACE_H = "Application/STM32H747I-DISCO/Inc/CM7/ai_interface.h"
_MOST_BYTES = 8 << 20
_HEAP = "heap_overlay_pool"  # what ST's tool calls the only pool, which is in AXIRAM
_SIZES: Mapping[str, tuple[int, int]] = {"QVGA": (320, 240), "VGA": (640, 480)}
_AXIRAM = "NN_Activation_Buffer_AXIRAM"
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Camera:
    """What it captures, by the names of the application, and the picture that has room for it."""

    resolution: str
    width: str
    height: str
    buffer: tuple[int, int]  # width, height

    @property
    def pixels(self) -> int:
        return self.buffer[0] * self.buffer[1]


@dataclass(frozen=True)
class ActivationPool:
    name: str
    used_bytes: int
    has_input: bool = False

    @property
    def buffer(self) -> str:
        return _AXIRAM if self.name == _HEAP else f"NN_Activation_Buffer_{self.name}"


def camera_for(width: int, height: int, aspect_ratio: str) -> Camera:
    """The smaller of the two formats that holds the network's picture."""
    for name, (wide, high) in _SIZES.items():
        square = {"crop": high, "padding": wide}.get(aspect_ratio)
        room = (square, square) if square else (wide, high)
        if width <= room[0] and height <= room[1]:
            shown = "HEIGHT" if aspect_ratio == "crop" else "WIDTH"
            return Camera(f"CAMERA_R{wide}x{high}", f"{name}_RES_{shown}", f"{name}_RES_HEIGHT", room)
    raise UnsupportedError(
        f"an image of {width}x{height} with aspect ratio {aspect_ratio!r} exceeds VGA",
        rule="the camera gives at most 640x480",
        remedy="use a model with a smaller input, or another aspect ratio",
    )


def pools_of(document: Any, where: str) -> list[ActivationPool]:
    """Memories that the network writes, the smallest first: the order of ST's activation buffers."""
    try:
        found = [pool for pool in document["memory_pools"] if pool["rights"] == "ACC_WRITE" and pool["used_size_bytes"]]
        # those that hold inputs of the network
        edges = {buffer for graph in document.get("graphs", [])[:1] for buffer in graph.get("inputs", [])}
        inputs = {b.get("mpool_id") for b in document.get("buffers", []) if b.get("id") in edges} - {None}
        pools = [
            ActivationPool(str(pool["name"]), int(pool["used_size_bytes"]), pool.get("id") in inputs) for pool in found
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"is not a network_c_info.json: {error!r} fails", where=where) from None
    names = [pool.buffer for pool in pools]
    wrong = next((name for name in names if not _NAME.fullmatch(name) or names.count(name) > 1), "")
    if wrong or not pools:
        what = f"two memory pools give a buffer {wrong}, or its name is no C" if wrong else "no memory pool is written"
        raise InputError(what, where=where)
    return sorted(pools, key=lambda pool: pool.used_bytes)


def declarations(pools: Sequence[ActivationPool]) -> list[str]:
    lines = []
    for number, pool in enumerate(pools, 1):
        size = f"AI_ACTIVATION_{number}_SIZE_BYTES"
        lines += [
            f'__attribute__((section(".{pool.buffer}")))',
            "__attribute__ ((aligned (32)))",
            f"static uint8_t {pool.buffer}[{size} + 32 - ({size}%32)];",
        ]
    handles = "".join(f"{pool.buffer}, " for pool in pools)
    return [*lines, f"ai_handle NN_Activation_Buffer[AI_ACTIVATION_BUFFERS_COUNT] = {{ {handles}}};", ""]


def input_macros(pools: Sequence[ActivationPool]) -> list[str]:
    """Which activation buffer the picture goes to: the one that holds the input, the first where nobody says."""
    index = next((at for at, pool in enumerate(pools) if pool.has_input), 0)
    return [
        f"#define AI_NETWORK_INPUTS_IN_ACTIVATIONS_INDEX {index}",
        f"#define AI_NETWORK_INPUTS_IN_ACTIVATIONS_SIZE AI_ACTIVATION_{index + 1}_SIZE_BYTES",
        "",
    ]


def patched(
    files: Mapping[str, bytes],
    pools: Sequence[ActivationPool],
    picture: tuple[int, int, int],
    aspect_ratio: str,
    available_axiram: int,
) -> dict[str, bytes]:
    """The three files as they should be; nothing is written. `picture` is height, width, channels."""
    height, width, channels = picture
    if channels not in (1, 3):
        raise UnsupportedError(f"the network takes {channels} channels", rule="the camera gives grey or RGB images")
    camera = camera_for(width, height, aspect_ratio)
    known = [int(n) for n in re.findall(rb"define[ \t]+AI_ACTIVATION_(\d+)_SIZE_BYTES\b", files[INTERFACE_H])]
    if known and max(known) < len(pools):
        knows = f"the application knows {max(known)}"
        what = f"the network has {len(pools)} activation buffers, {knows}; nothing was changed"
        raise CapacityError(what, where=INTERFACE_H, remedy="compile the network with fewer memory pools")
    main_h = files[MAIN_H]
    for name, value in (
        ("CAMERA_RESOLUTION", camera.resolution),
        ("CAM_RES_WIDTH", camera.width),
        ("CAM_RES_HEIGHT", camera.height),
    ):
        main_h = set_define(main_h, name, f"({value})", MAIN_H)
    left = available_axiram - sum(pool.used_bytes for pool in pools if pool.buffer == _AXIRAM)
    main_c = replace_generated(files[MAIN_C], declarations(pools), MAIN_C)
    # the applications declare two bytes a pixel, also for grey ones; others may know better
    declared = re.search(rb"#[ \t]*define[ \t]+CAM_FRAME_BUFFER_SIZE[^\r\n]*RGB_565_BPP", files[MAIN_H])
    depth = 2 if channels == 3 or declared else 1
    for variable, pixels in (("CapturedImage_Buffer", camera.pixels), ("RescaledImage_Buffer", height * width)):
        fits = pixels * depth < left
        left -= pixels * depth * fits
        main_c = set_section(main_c, variable, "AXIRAM" if fits else "SDRAM", MAIN_C)
    interface = replace_generated(files[INTERFACE_H], input_macros(pools), INTERFACE_H)
    return {MAIN_H: main_h, MAIN_C: main_c, INTERFACE_H: interface}


def read_project(root: Path) -> dict[str, bytes]:
    return {file: read_file(root / file, _MOST_BYTES) for file in (MAIN_H, MAIN_C, INTERFACE_H)}


def plan_patch(
    root: Path, c_info: Path, available_axiram: int, aspect_ratio: str, picture: tuple[int, int, int]
) -> dict[str, bytes]:
    pools = pools_of(read_json(c_info), str(c_info))
    return patched(read_project(root), pools, picture, aspect_ratio, available_axiram)


def update_activation_c_code(
    c_project_path: str,
    path_network_c_info: str,
    available_AXIRAM: int,
    cfg: Any = None,
    custom_objects: Mapping[str, Any] | None = None,
    dry_run: bool = False,
) -> str:
    """As in the model zoo; `cfg` needs `preprocessing.resizing.aspect_ratio` and `general.model_path`, as attributes or
    keys, and `custom_objects`, which only Keras models need, is not used. The changes come back as a patch; with
    `dry_run` that is all."""
    root, model = Path(c_project_path), Path(str(_at(cfg, "general", "model_path")))
    ratio = str(_at(cfg, "preprocessing", "resizing", "aspect_ratio"))
    recovered = [] if dry_run else journal.recover(root)
    files = plan_patch(root, Path(path_network_c_info), available_AXIRAM, ratio, read_facts(model).image)
    changed = journal.unified_diff(root, files)
    if not dry_run:
        journal.commit(root, files, backup=tuple(files))
    return changed if not recovered else f"recovered: {', '.join(recovered)}\n{changed}"


def _at(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
    if value is None:
        raise InputError(f"has no {'.'.join(names)}", where="cfg")
    return value
