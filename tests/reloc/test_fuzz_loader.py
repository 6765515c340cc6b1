"""Damaged images never make the loader read or write outside its memory: sanitizers watch it on this machine."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.board.programs import needs_compiler
from tests.reloc import fuzzing, images

pytestmark = needs_compiler
COUNT = 1000  # of each image


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    command = fuzzing.compiler()
    if command is None:
        pytest.skip("no C compiler for this machine")
    try:
        return fuzzing.build(tmp_path_factory.mktemp("fuzz"), command)
    except subprocess.CalledProcessError as error:
        if "sanitizer" in error.stderr or "lasan" in error.stderr or "lubsan" in error.stderr:
            pytest.skip("this compiler has no sanitizers")
        raise AssertionError(error.stderr) from error


@pytest.mark.parametrize("memories", ["flash", "ram", "inside"])
def test_damaged_images(program: Path, tmp_path: Path, memories: str) -> None:
    path = tmp_path / "image.bin"
    path.write_bytes(images.image(images.folder(memories)).image.data)
    accepted, refused = fuzzing.run(program, COUNT, 1, path)
    assert accepted > COUNT // 20 and refused > COUNT // 4  # both sides are reached
