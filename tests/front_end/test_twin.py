"""The C code and the Python twin give the same codes, on this machine and on the virtual board."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atonc.delivery.firmware import building
from atonc.delivery.front_end import c_text
from atonc.delivery.front_end.c_text import Window
from atonc.delivery.front_end.fitting import cycles
from atonc.delivery.front_end.pipeline import presets
from atonc.delivery.front_end.twin import FrontEnd, front_end
from tests.front_end.ways import OnBoard, OnHost, OnQemu, pieces, sound, write
from tests.kernels import qemu

OTHERS: Mapping[str, tuple[Mapping[str, Any], tuple[str, float, int]]] = {
    "floats": ({"based_on": "nemo"}, ("float32", 1.0, 0)),
    "hop above window": (
        {
            "based_on": "nemo",
            "frame": {"length": 250, "hop": 300},
            "spectrum": {"n_fft": 256, "of": "magnitude"},
            "mel": {"count": 33},
            "normalise": {"mean": [-3.0]},
        },
        ("uint8", 0.1, 100),
    ),
    "bins": (
        {
            "spectrum": {"n_fft": 1024},
            "mel": {"count": 0},
            "log": {"guard": 1e-6, "of": "log10"},
            "frame": {"length": 1000, "first": 7, "window": "hamming_symmetric", "pre_emphasis": 0.9},
        },
        ("int16", 0.001, 100),
    ),
    "smallest": (
        {
            "spectrum": {"n_fft": 64},
            "mel": {"count": 9},
            "log": {"guard": 1e-6, "of": "log2"},
            "frame": {"length": 63, "hop": 64},
            "dct": {"count": 5},
            "normalise": {"deviation": [1.0, 2.0, 3.0, 4.0, 5.0]},
        },
        ("int8", 0.5, 3),
    ),
    "whole bins": (
        {"mel": {"count": 40, "scale": "htk", "norm": "none", "triangles": "bins"}, "log": {"guard": 1e-6}},
        ("int8", 0.1, 20),
    ),
    "integers of 1024": (
        {"based_on": "micro_speech", "frame": {"length": 601, "hop": 77}, "tflm": {"pcan": False, "log_shift": 5}},
        ("int8", 0.1, -128),
    ),
}


def case(name: str) -> FrontEnd:
    if name in OTHERS:
        sections, codes = OTHERS[name]
        return front_end(sections).for_input(*codes)
    return front_end(name).for_input("int8", 0.1, -5)


def same_bits(found: Any, expected: Any) -> None:
    assert found.shape == expected.shape
    assert found.tobytes() == expected.tobytes()


def hostile() -> Any:
    """Limits, silence, one bit now and then."""
    limits = np.where(np.arange(6000) // 37 % 2, 32767, -32768)
    rare = np.arange(6000) % 997 == 0
    return np.concatenate([limits, np.zeros(3000), np.full(3000, -32768), rare]).astype(np.int16)


@pytest.mark.parametrize("name", [*(name for name in presets() if name != "micro_speech"), *OTHERS])
def test_c_and_python_give_the_same_codes(name: str, tmp_path: Path) -> None:
    made = np.concatenate([sound(3), hostile()])
    host = OnHost(case(name), tmp_path)
    found = np.concatenate([host.push(piece) for piece in pieces(made)])
    same_bits(found, host.front_end(made))
    assert len(np.unique(found)) > 15
    host.reset()
    same_bits(host.push(made[:9000]), host.front_end(made[:9000]))


@pytest.mark.parametrize("name", ["kaldi"])
def test_no_option_of_the_command_line_changes_a_code(name: str, tmp_path: Path) -> None:
    made = sound(1)
    fast = OnHost(case(name), tmp_path, None, "-O3", "-ffp-contract=fast")
    same_bits(fast.push(made), fast.front_end(made))


@pytest.mark.parametrize("inside", [False, True])
def test_the_input_of_the_network_is_the_last_frames(inside: bool, tmp_path: Path) -> None:
    host = OnHost(case("nemo"), tmp_path, Window(5, inside))
    made = sound(0.5)
    expected = host.front_end(made)
    host.push(made[:799])
    assert host.input() is None
    for piece in pieces(made[799:]):
        host.push(piece)
    found = host.input()
    assert found is not None
    same_bits(np.ascontiguousarray(found.T) if inside else found, expected[-5:])


@pytest.mark.skipif(shutil.which(building.GCC) is None, reason="no arm-none-eabi-gcc")
@pytest.mark.parametrize(("name", "seconds"), [("nemo", 0.04), ("smallest", 0.01)])
def test_vectors_of_the_virtual_board_give_the_same_codes(name: str, seconds: float, tmp_path: Path) -> None:
    pytest.importorskip("unicorn", reason="unicorn is not installed: pip install 'atonc[board]'")
    made = sound(1)[5000 : 5000 + int(16000 * seconds)]
    board = OnBoard(case(name), tmp_path)
    same_bits(board.push(made), case(name)(made))
    assert board.board.core.vectors.executed > 1000


@pytest.mark.skipif(shutil.which(building.GCC) is None, reason="no arm-none-eabi-gcc")
def test_the_scalar_core_of_the_virtual_board_gives_the_same_codes(tmp_path: Path) -> None:
    pytest.importorskip("unicorn", reason="unicorn is not installed: pip install 'atonc[board]'")
    for name in ("micro_speech", "kaldi"):
        folder = tmp_path / name
        folder.mkdir()
        made = sound(0.2)
        same_bits(OnBoard(case(name), folder, "cortex-m33").push(made), case(name)(made))


@pytest.mark.skipif(shutil.which(building.GCC) is None, reason="no arm-none-eabi-gcc")
@pytest.mark.skipif(not qemu.is_there(), reason="no qemu-system-arm")
@pytest.mark.parametrize("name", ["nemo", "micro_speech", "hop above window", "smallest"])
def test_vectors_of_qemu_give_the_same_codes(name: str, tmp_path: Path) -> None:
    made = sound(4)
    same_bits(OnQemu(case(name), tmp_path)(made), case(name)(made))


@pytest.mark.parametrize(
    ("compiler", "flags"),
    [
        ("arm-none-eabi-gcc", ("-mcpu=cortex-m55", "-mfloat-abi=hard", "-O2")),
        ("arm-none-eabi-gcc", ("-mcpu=cortex-m33", "-mfloat-abi=hard", "-Os")),
        ("clang", ("-O2",)),
        ("g++", ("-x", "c++", "-include", "x_front_end.h", "-fsyntax-only")),
    ],
)
def test_compiles_without_a_warning(compiler: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    found = shutil.which(compiler)
    if found is None:
        pytest.skip(f"no {compiler}")
    for name in ("nemo", "torchaudio", "micro_speech"):
        source = write(case(name).pipeline, tmp_path, Window(3, name == "nemo"))
        text = source.read_text()
        assert set(line.split()[1] for line in text.splitlines() if line.startswith("#include")) <= {
            '"x_front_end.h"', "<string.h>", "<arm_mve.h>", "<math.h>",
        }  # fmt: skip
        if compiler == "g++":
            source = tmp_path / "user.cpp"
            source.write_text("")
        options = ["-Wall", "-Wextra", "-Werror", f"-I{tmp_path}", "-c", str(source), "-o", str(tmp_path / "x.o")]
        subprocess.run([found, *flags, *options], check=True)


def test_arm_code_rounds_every_product(tmp_path: Path) -> None:
    gcc, objdump = shutil.which("arm-none-eabi-gcc"), shutil.which("arm-none-eabi-objdump")
    if gcc is None or objdump is None:
        pytest.skip("no arm-none-eabi-gcc")
    source, target = write(case("kaldi").pipeline, tmp_path), tmp_path / "x.o"
    chip = ("-mcpu=cortex-m55", "-mfloat-abi=hard", "-O2", "-std=gnu11", "-march=armv8.1-m.main+mve.fp+fp.dp")
    subprocess.run([gcc, *chip, "-w", "-c", str(source), "-o", str(target)], check=True)
    code = subprocess.run([objdump, "-d", str(target)], check=True, capture_output=True, text=True).stdout
    assert "vadd.f32" in code and "fma" not in code
    listed = subprocess.run(["arm-none-eabi-nm", "-u", str(target)], check=True, capture_output=True, text=True).stdout
    assert {line.split()[-1] for line in listed.splitlines()} <= {"memset", "memcpy", "memmove"}


def test_sizes_are_those_of_the_compiler(tmp_path: Path) -> None:
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("no gcc")
    for name in (*presets(), *OTHERS):
        for window in (Window(), Window(3)):
            p = case(name).pipeline
            write(p, tmp_path, window)
            size = c_text.state_bytes(p, window)
            check = f'#include "x_front_end.h"\n_Static_assert(sizeof(x_front_end_state) == {size}, "{name}");\n'
            (tmp_path / "size.c").write_text(check)
            subprocess.run([gcc, "-O0", "-fsyntax-only", str(tmp_path / "size.c")], check=True)


def test_eighty_mels_are_predicted_below_20000_cycles() -> None:
    for name in ("nemo", "kaldi"):
        assert 15_000 < cycles(front_end(name).pipeline) < 20_500
