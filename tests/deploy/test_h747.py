"""Patching a firmware project: the right numbers, nothing else touched, all or nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from atonc.delivery.deploy import h747, journal
from atonc.delivery.deploy.h747 import INTERFACE_H, MAIN_C, MAIN_H, camera_for, update_activation_c_code
from atonc.machine.base.errors import AtoncError, CapacityError, InputError, UnsupportedError
from tests.deploy.stand_ins import stand_in

_MAIN_H = """#pragma once
#define CAMERA_RESOLUTION (CAMERA_R320x240) /* sensor */
#define CAM_RES_WIDTH (QVGA_RES_WIDTH)
  #define CAM_RES_HEIGHT (QVGA_RES_HEIGHT) // mine
#define CAM_RES_WITH_BORDERS CAM_RES_WIDTH
"""
_MAIN_C = """/* caf\u00e9 */
int my_own_line;
__attribute__((section(".CapturedImage_Buffer_AXIRAM")))
uint8_t CapturedImage_Buffer[CAM_FRAME_BUFFER_SIZE];
__attribute__((section(".RescaledImage_Buffer_AXIRAM")))
uint8_t RescaledImage_Buffer[RESCALED_FRAME_BUFFER_SIZE];
 /*** @GENERATED CODE START - DO NOT TOUCH@ ***/
stale
 /*** @GENERATED CODE STOP - DO NOT TOUCH@ ***/
int my_other_line;
"""
_INTERFACE_H = """#define AI_ACTIVATION_1_SIZE_BYTES AI_NETWORK_DATA_ACTIVATION_1_SIZE
#define AI_ACTIVATION_2_SIZE_BYTES AI_NETWORK_DATA_ACTIVATION_2_SIZE
 /*** @GENERATED CODE START - DO NOT TOUCH@ ***/
 /*** @GENERATED CODE STOP - DO NOT TOUCH@ ***/
"""
FILES = {MAIN_H: _MAIN_H, MAIN_C: _MAIN_C, INTERFACE_H: _INTERFACE_H}


def project(folder: Path, line_end: str = "\n", encoding: str = "latin-1") -> Path:
    for file, text in FILES.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.replace("\n", line_end).encode(encoding))
    return folder


def pool(name: str, used: int, number: int = 0, rights: str = "ACC_WRITE") -> dict[str, Any]:
    return {"id": number, "name": name, "rights": rights, "used_size_bytes": used}


def run(
    root: Path, pools: list[dict[str, Any]], shape: tuple[int, ...] = (1, 224, 224, 3), ratio: Any = "crop",
    axiram: int = 415_000, dry_run: bool = False, input_pool: int | None = None,
) -> str:  # fmt: skip
    document: dict[str, Any] = {"memory_pools": pools}
    if input_pool is not None:
        document |= {"buffers": [{"id": 5, "mpool_id": input_pool}], "graphs": [{"inputs": [5]}]}
    info, model = root.parent / f"{root.name}.json", root.parent / "model.tflite"
    info.write_text(json.dumps(document))
    model.write_bytes(stand_in(shape, (1, 4)))
    cfg = SimpleNamespace(
        preprocessing=SimpleNamespace(resizing=SimpleNamespace(aspect_ratio=ratio)),
        general=SimpleNamespace(model_path=str(model)),
    )
    return update_activation_c_code(str(root), str(info), axiram, cfg, dry_run=dry_run)


HEAP = [pool("heap_overlay_pool", 20_000)]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "p").mkdir()
    return project(tmp_path / "p")


@pytest.mark.parametrize(
    ("ratio", "size", "resolution", "width", "height", "buffer"),
    [
        ("crop", 240, "CAMERA_R320x240", "QVGA_RES_HEIGHT", "QVGA_RES_HEIGHT", (240, 240)),
        ("crop", 241, "CAMERA_R640x480", "VGA_RES_HEIGHT", "VGA_RES_HEIGHT", (480, 480)),
        ("padding", 320, "CAMERA_R320x240", "QVGA_RES_WIDTH", "QVGA_RES_HEIGHT", (320, 320)),
        ("padding", 321, "CAMERA_R640x480", "VGA_RES_WIDTH", "VGA_RES_HEIGHT", (640, 640)),
        ("fit", 240, "CAMERA_R320x240", "QVGA_RES_WIDTH", "QVGA_RES_HEIGHT", (320, 240)),
        ("fit", 480, "CAMERA_R640x480", "VGA_RES_WIDTH", "VGA_RES_HEIGHT", (640, 480)),
    ],
)
def test_camera(ratio: str, size: int, resolution: str, width: str, height: str, buffer: tuple[int, int]) -> None:
    assert camera_for(size, size, ratio) == h747.Camera(resolution, width, height, buffer)


@pytest.mark.parametrize(("ratio", "width", "height"), [("crop", 481, 1), ("padding", 641, 1), ("fit", 640, 481)])
def test_above_vga(ratio: str, width: int, height: int) -> None:
    with pytest.raises(UnsupportedError, match="exceeds VGA"):
        camera_for(width, height, ratio)


def test_the_three_files(root: Path) -> None:
    run(root, [pool("SDRAM", 900_000), pool("AXIRAM", 100_000, 1), pool("weights", 9, 2, "ACC_READ"), pool("X", 0, 3)])
    main_h = (root / MAIN_H).read_text()
    assert "#define CAMERA_RESOLUTION (CAMERA_R320x240) /* sensor */\n" in main_h
    assert "#define CAM_RES_WIDTH (QVGA_RES_HEIGHT)\n  #define CAM_RES_HEIGHT (QVGA_RES_HEIGHT) // mine\n" in main_h
    assert "#define CAM_RES_WITH_BORDERS CAM_RES_WIDTH\n" in main_h
    main_c = (root / MAIN_C).read_text("latin-1")
    assert main_c.split("TOUCH@ ***/\n")[1] == (
        '__attribute__((section(".NN_Activation_Buffer_AXIRAM")))\n'
        "__attribute__ ((aligned (32)))\n"
        "static uint8_t NN_Activation_Buffer_AXIRAM"
        "[AI_ACTIVATION_1_SIZE_BYTES + 32 - (AI_ACTIVATION_1_SIZE_BYTES%32)];\n"
        '__attribute__((section(".NN_Activation_Buffer_SDRAM")))\n'
        "__attribute__ ((aligned (32)))\n"
        "static uint8_t NN_Activation_Buffer_SDRAM"
        "[AI_ACTIVATION_2_SIZE_BYTES + 32 - (AI_ACTIVATION_2_SIZE_BYTES%32)];\n"
        "ai_handle NN_Activation_Buffer[AI_ACTIVATION_BUFFERS_COUNT] = "
        "{ NN_Activation_Buffer_AXIRAM, NN_Activation_Buffer_SDRAM, };\n"
        "\n /*** @GENERATED CODE STOP - DO NOT "
    )
    assert "stale" not in main_c and "my_own_line" in main_c and "my_other_line" in main_c and "caf\u00e9" in main_c
    interface = (root / INTERFACE_H).read_text()
    assert "#define AI_NETWORK_INPUTS_IN_ACTIVATIONS_INDEX 0\n" in interface
    assert "#define AI_NETWORK_INPUTS_IN_ACTIVATIONS_SIZE AI_ACTIVATION_1_SIZE_BYTES\n" in interface


def test_the_input_is_where_the_network_says(root: Path) -> None:
    run(root, [pool("SDRAM", 900_000), pool("AXIRAM", 100_000, 1)], input_pool=0)
    assert "IN_ACTIVATIONS_INDEX 1\n#define AI_NETWORK_INPUTS_IN_ACTIVATIONS_SIZE AI_ACTIVATION_2_SIZE_BYTES" in (
        (root / INTERFACE_H).read_text()
    )


def sections(root: Path) -> tuple[str, ...]:
    text = (root / MAIN_C).read_text("latin-1")
    return tuple(text.split(f".{name}Image_Buffer_")[1].split('"')[0] for name in ("Captured", "Rescaled"))


@pytest.mark.parametrize(
    ("axiram", "channels", "placed"),
    [
        (20_000 + 240 * 240 * 2 + 224 * 224 * 2 + 1, 3, ("AXIRAM", "AXIRAM")),
        (20_000 + 240 * 240 * 2 + 224 * 224 * 2, 3, ("AXIRAM", "SDRAM")),
        (20_000 + 240 * 240 * 2, 3, ("SDRAM", "AXIRAM")),
        (20_000 + 224 * 224 * 2, 3, ("SDRAM", "SDRAM")),
        (20_000 + 240 * 240 + 224 * 224 + 1, 1, ("AXIRAM", "AXIRAM")),
        (20_000 + 240 * 240 + 224 * 224, 1, ("AXIRAM", "SDRAM")),
    ],
)
def test_pictures_go_where_there_is_room(root: Path, axiram: int, channels: int, placed: tuple[str, str]) -> None:
    run(root, HEAP, (1, 224, 224, channels), axiram=axiram)
    assert sections(root) == placed


def test_a_grey_picture_takes_what_the_application_declares(root: Path) -> None:
    """Two bytes a pixel, if its size is a multiple of RGB_565_BPP."""
    path = root / MAIN_H
    path.write_text(path.read_text() + "#define CAM_FRAME_BUFFER_SIZE (CAM_RES_WIDTH * CAM_RES_HEIGHT * RGB_565_BPP)\n")
    run(root, HEAP, (1, 224, 224, 1), axiram=20_000 + 240 * 240 + 224 * 224 + 1)
    assert sections(root) == ("SDRAM", "AXIRAM")


@pytest.mark.parametrize(("line_end", "encoding"), [("\r\n", "latin-1"), ("\n", "utf-8"), ("\r\n", "utf-8")])
def test_line_ends_and_encoding_stay(tmp_path: Path, line_end: str, encoding: str) -> None:
    (tmp_path / "p").mkdir()
    root = project(tmp_path / "p", line_end, encoding)
    run(root, HEAP)
    for file in FILES:
        data = (root / file).read_bytes()
        assert data.count(b"\n") == data.count(line_end.encode())
    assert "caf\u00e9".encode(encoding) in (root / MAIN_C).read_bytes()


def snapshot(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def test_twice_is_once_and_edits_outside_survive(root: Path) -> None:
    first = run(root, HEAP)
    assert "--- a/Application" in first
    once = snapshot(root)
    assert run(root, HEAP) == ""
    assert snapshot(root) == once
    path = root / MAIN_C
    path.write_bytes(path.read_bytes() + b"int added_by_hand;\n")
    run(root, [pool("AXIRAM", 30_000)])
    assert b"int added_by_hand;\n" in path.read_bytes()
    assert (root / f"{MAIN_C}{journal.BACKUP}").read_bytes() == _MAIN_C.encode("latin-1")


def test_a_dry_run_shows_a_patch_and_changes_nothing(root: Path) -> None:
    before = snapshot(root)
    assert "-stale\n" in run(root, HEAP, dry_run=True)
    assert snapshot(root) == before


def _break(root: Path, file: str, old: str, new: str) -> None:
    path = root / file
    path.write_bytes(path.read_bytes().replace(old.encode(), new.encode()))


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        (MAIN_C, "CODE START", "CODE BEGIN", "no line with the mark"),
        (MAIN_C, "CODE STOP", "CODE START", "2 lines with the mark"),
        (INTERFACE_H, "CODE STOP", "CODE END", "no line with the mark"),
        (MAIN_H, "CAM_RES_WIDTH (", "CAM_WIDTH (", "#define CAM_RES_WIDTH is not there"),
        (MAIN_C, ".RescaledImage_Buffer", ".Rescaled", "no section attribute of RescaledImage_Buffer"),
        (INTERFACE_H, "", "", "read-only"),
    ],
)
def test_what_cannot_be_patched_stays_as_it_is(root: Path, file: str, old: str, new: str, said: str) -> None:
    if said == "read-only":
        os.chmod(root / file, 0o444)
    elif "mark" in said and "2" in said:
        _break(root, file, "int my_own", " /*** @GENERATED CODE START - DO NOT TOUCH@ ***/\nint my_own")
    else:
        _break(root, file, old, new)
    before = snapshot(root)
    with pytest.raises(InputError, match="nothing was changed") as error:
        run(root, HEAP)
    assert said in str(error.value) and snapshot(root) == before


@pytest.mark.parametrize(
    ("pools", "kind", "said"),
    [
        ([pool(f"P{n}", 10 + n, n) for n in range(3)], CapacityError, "3 activation buffers, the application knows 2"),
        ([pool("a b", 10)], InputError, "is no C"),
        ([pool("A", 10), pool("A", 20)], InputError, "two memory pools"),
        ([pool("A", 10, rights="ACC_READ")], InputError, "no memory pool is written"),
        ([{"name": "A"}], InputError, "is not a network_c_info.json"),
    ],
)
def test_pools_that_make_no_sense(root: Path, pools: list[dict[str, Any]], kind: type[AtoncError], said: str) -> None:
    before = snapshot(root)
    with pytest.raises(kind) as error:
        run(root, pools)
    assert said in str(error.value) and snapshot(root) == before


def test_two_channels_are_no_picture(root: Path) -> None:
    with pytest.raises(UnsupportedError, match="2 channels"):
        run(root, HEAP, (1, 32, 32, 2))
