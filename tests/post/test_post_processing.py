"""`generate --post`: C and its twin in Python give the same bits, and refuse what they cannot read."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

import atonc
from atonc.delivery.firmware import building
from atonc.delivery.generate import post
from atonc.insight.evaluating import boxes
from atonc.insight.evaluating.decoders import FAMILIES, decoder_for, family, fitting
from atonc.insight.evaluating.options import DECODERS, PostOptions
from atonc.machine.base.errors import InputError
from tests.post.detectors import CASES, FEW, FLAGS, USUAL, as_words, found_in_c, library, made, samples, written

GCC = shutil.which("arm-none-eabi-gcc")
SOME = ("yolov8", "st_yolox", "st_ssd", "blazeface")  # for types that differ from int8 in one line
PAIRS = [*((c, t) for c in CASES for t in ("INT8", "FLOAT")), *((c, t) for c in SOME for t in ("UINT8", "INT16"))]
CHIP = ("-mcpu=cortex-m55", "-mfloat-abi=hard", "-mthumb")


@pytest.mark.parametrize(("case", "type_"), PAIRS)
def test_c_and_its_twin_give_the_same_bits(case: str, type_: str, tmp_path: Path) -> None:
    limits = FEW if type_ in ("UINT8", "FLOAT") else USUAL
    given = made(case, type_, limits)
    loaded, most = library(given, tmp_path), 0
    for outputs in samples(given):
        wanted = as_words(post.boxes_of(given, outputs))
        np.testing.assert_array_equal(found_in_c(loaded, given, outputs, limits.most), wanted)
        most = max(most, len(wanted))
    assert most > 1  # there is something to compare


@pytest.mark.parametrize("case", ["yolov8_heads masks", "yolo26_heads masks"])
@pytest.mark.parametrize("type_", ["INT8", "FLOAT"])
def test_masks_of_c_are_those_of_the_twin(case: str, type_: str, tmp_path: Path) -> None:
    given, seen = made(case, type_), set[bool]()
    loaded = library(given, tmp_path)
    for outputs in islice(samples(given), 3):
        found = post.boxes_of(given, outputs)
        kept = [np.ascontiguousarray(output) for output in outputs]
        pointers = (ctypes.c_void_p * len(kept))(*(one.ctypes.data for one in kept))
        for number, row in enumerate(np.ascontiguousarray(as_words(found))):
            wanted, mask = post.mask_of(given, outputs, found, number), np.full(12 * 12, 7, np.uint8)
            loaded.net_post_mask(pointers, ctypes.c_void_p(row.ctypes.data), ctypes.c_void_p(mask.ctypes.data))
            np.testing.assert_array_equal(mask, wanted.ravel())
            seen |= set(wanted.ravel().tolist())
    assert seen == {False, True}


def test_heads_are_decoded_as_written_down() -> None:
    """One object in one cell, worked out by hand: bins, points, and the middle of the cell."""
    shapes = [(1, 6, 8, 64), (1, 3, 4, 64), (1, 6, 8, 2), (1, 3, 4, 2), (1, 6, 8, 3), (1, 3, 4, 3)]
    outputs = [np.full(shape, -20, np.float32) for shape in shapes]
    outputs[3][0, 2, 1] = [-20, 2]  # row 2, column 1 of the grid of 16 pixels: the second class
    for side, bin_ in enumerate((1, 2, 0, 3)):
        outputs[1][0, 2, 1, 16 * side + bin_] = 20
    outputs[5][0, 2, 1] = [0.25, -0.5, 0]
    found = decoder_for("yolov8_heads", [], shapes, (64, 48))(outputs)
    np.testing.assert_allclose(found.corners, [[24 - 16, 40 - 32, 24, 40 + 48]], atol=1e-4)
    np.testing.assert_allclose(found.scores, [1 / (1 + np.exp(-2.0))], rtol=1e-6)
    np.testing.assert_allclose(found.points, [[[(0.5 + 1) * 16, (-1 + 2) * 16]]], atol=1e-4)
    assert (found.classes.tolist(), found.more.tolist()) == ([1], [[0.5]])
    outputs[:2] = [np.full((*shape[:3], 4), 0.5, np.float32) for shape in shapes[:2]]
    found = decoder_for("yolo26_heads", [], [one.shape for one in outputs], (64, 48))(outputs)
    np.testing.assert_allclose(found.corners, [[24 - 8, 40 - 8, 24 + 8, 40 + 8]])
    np.testing.assert_allclose(found.points, [[[(0.25 + 1.5) * 16, (-0.5 + 2.5) * 16]]])


def test_a_caller_with_less_room_gets_the_best(tmp_path: Path) -> None:
    given = made("yolov8")
    loaded, outputs = library(given, tmp_path), next(samples(given))
    whole = found_in_c(loaded, given, outputs, 20)
    assert len(whole) > 3
    for most in (0, 1, 3):
        np.testing.assert_array_equal(found_in_c(loaded, given, outputs, most), whole[:most])


def test_the_gate_hides_nothing() -> None:
    """A code below it has no score above the bound, the code itself has."""
    for case, type_ in (("yolov8", "INT8"), ("st_yolox", "INT8"), ("blazeface", "UINT8"), ("st_yolox", "INT16")):
        given = made(case, type_)
        kind = given.decoder.family.objectness or given.decoder.family.score
        first = int(post.gate(given.decoder, given.scores))
        codes = np.array([first - 1, first])
        values = boxes.score_of(kind, post.real(codes, given.scores.scales[0], given.scores.offsets[0]))
        assert values[0] <= np.float32(0.5) < values[1]
    most = replace(made("yolov8"), decoder=replace(made("yolov8").decoder, limits=replace(USUAL, score=0.999)))
    narrow = replace(most.outputs[0], scales=(0.001,))
    assert post.gate(most.decoder, narrow) == "128"  # no code passes


def test_functions_are_near_exact_ones() -> None:
    x = np.linspace(-85.9, 20, 100_001).astype(np.float32)
    exact = np.exp(x.astype(np.float64))
    assert np.abs(boxes.exponential(x) / exact - 1).max() < 3e-7
    assert np.abs(boxes.sigmoid(x) - 1 / (1 + np.exp(-x.astype(np.float64)))).max() < 2e-7
    assert (np.diff(boxes.sigmoid(x)) >= -1e-7).all()


@pytest.mark.skipif(GCC is None, reason="no arm-none-eabi-gcc")
@pytest.mark.parametrize("case", [*SOME, "ssd", "yolov8_heads masks", "yolov8_heads of onnx"])
def test_compiles_for_the_chip(case: str, tmp_path: Path) -> None:
    given = made(case)
    source, target = written(given, tmp_path), tmp_path / "post.o"
    for standard in ("-std=c99", "-std=gnu11"):
        subprocess.run([str(GCC), *CHIP, *FLAGS[1:], standard, "-c", str(source), "-o", str(target)], check=True)
    code = subprocess.run(
        ["arm-none-eabi-objdump", "-d", str(target)], check=True, capture_output=True, text=True
    ).stdout
    assert "<net_post>" in code
    assert not re.findall(r"\bv(?:fma|fms|fnma|fnms)\w*\.f\d+", code)
    listed = subprocess.run(["arm-none-eabi-size", str(target)], check=True, capture_output=True, text=True).stdout
    text, data, bss = map(int, listed.splitlines()[1].split()[:3])
    assert text <= given.constants_bytes + post.CODE_BYTES
    assert (data, bss) == (0, given.scratch_bytes)
    undefined = subprocess.run(["arm-none-eabi-nm", "-u", str(target)], check=True, capture_output=True, text=True)
    assert not re.search(r"malloc|exp|pow", undefined.stdout)


MAIN = """
#include "board_io.h"
#include "net_post.h"
@TABLES@
int main(void)
{
  static net_box_t boxes[20];
  static const void *const outputs[] = {@OUTPUTS@};
  const uint32_t count = net_post(outputs, boxes, 20), *words = (const uint32_t *)(const void *)boxes;
  for (uint32_t k = 0; k < count * (sizeof boxes[0] / 4U); k++) {
    board_print_hex(words[k]);
    board_print("\\n");
  }
  return 0;
}
"""


@pytest.mark.skipif(GCC is None, reason="no arm-none-eabi-gcc")
def test_on_the_virtual_board(tmp_path: Path) -> None:
    """The core that is emulated gives the bits of the twin."""
    pytest.importorskip("unicorn", reason="unicorn is not installed: pip install 'atonc[board]'")
    from atonc.machine.emu.board import VirtualBoard, read_firmware

    given = made("st_yolox")
    outputs = next(samples(given))
    rows = [f"static const int8_t o{k}[] = {{{', '.join(map(str, v.ravel()))}}};" for k, v in enumerate(outputs)]
    (tmp_path / "main.c").write_text(MAIN.replace("@TABLES@", "\n".join(rows)).replace("@OUTPUTS@", "o0, o1"))
    harness, source = building.runtime_folder("harness"), written(given, tmp_path)
    units = [
        building.CompileUnit((harness / "startup.c", harness / "board_io.c"), (harness,), strict=True),
        building.CompileUnit((tmp_path / "main.c", source), (harness, tmp_path), strict=True),
    ]
    chain = building.find_toolchain()
    objects = building.compile_units(chain, units, tmp_path, cpu="cortex-m55")
    board = VirtualBoard(read_firmware(building.link(chain, objects, tmp_path / "program.elf", cpu="cortex-m55")))
    board.run()
    wanted = as_words(post.boxes_of(given, outputs)).ravel()
    assert len(wanted) > 12
    assert [int(line, 16) for line in board.serial.lines] == wanted.tolist()


def test_one_list_of_families() -> None:
    assert set(DECODERS) == {"auto", *FAMILIES}
    assert {CASES[case][0] for case in CASES} == set(FAMILIES)


@pytest.mark.parametrize("case", CASES)
def test_shapes_tell_the_family(case: str) -> None:
    name, shapes, side, anchors = CASES[case]
    assert name in fitting(shapes, side, len(anchors) // 2 if name == "st_yolox" else 0)
    if FAMILIES[name].placed != boxes.APART:  # of which shapes do not say what the values are
        assert family(shapes) == name or name in ("yolov5", "yolox")  # these look like YOLOv8


def test_outputs_of_unlike_rank_are_of_no_family() -> None:
    with pytest.raises(InputError, match="of no detector that is known"):
        family([(1, 30, 4), (1, 5, 6, 30)])


def test_outputs_of_another_family_are_refused() -> None:
    with pytest.raises(InputError) as caught:
        decoder_for("yolov8", [], [(1, 6, 24, 24), (1, 6, 12, 12)], (192, 192), where="outputs a, b")
    said = str(caught.value)
    assert "outputs a, b" in said and "not those of YOLOv8" in said and "st_yolox" in said and "boxes" in said
    with pytest.raises(InputError, match="--anchors"):
        decoder_for("st_yolox", [], [(1, 24, 24, 5)], (192, 192))
    for shapes in ([(1, 10)], [(7,)], [(1, 0, 84)], [(1, 30, 3), (1, 31, 4)], []):
        for name in FAMILIES:
            if not (name == "yolov8" and shapes == [(1, 10)]):
                with pytest.raises(InputError):
                    decoder_for(name, [], shapes, (64, 64))


@pytest.mark.parametrize("wrong", [{"post_score": 1.0}, {"post_iou": 1.5}, {"post_boxes": 0}, {"post": "yolo9000"}])
def test_options_are_bounded(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError):
        PostOptions(**wrong)  # type: ignore[arg-type]


def test_poses_are_no_classes_and_options_of_boxes_need_them() -> None:
    with pytest.raises(InputError, match="17 key points"):
        family([(1, 56, 1344)])
    with pytest.raises(InputError, match="--post-score without --post"):
        PostOptions(post_score=0.3)


def test_python_refuses_what_the_command_line_refuses(tmp_path: Path) -> None:
    digits = atonc.compile(Path(__file__).parents[2] / "examples/digits/digits.tflite")
    with pytest.raises(InputError, match="--post-score without --post"):
        digits.save(tmp_path / "build", post_score=0.3)
    assert not (tmp_path / "build").exists()
