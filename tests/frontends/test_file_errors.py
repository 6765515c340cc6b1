"""What cannot be read says in which file, and what to do; wrong names get the ones that there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from atonc.compiler.frontends.read import in_file, read
from atonc.machine.base.errors import InputError, ModelError
from atonc.machine.base.words import instead

DIGITS = Path(__file__).parent.parent.parent / "examples" / "digits"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"


@pytest.mark.parametrize("suffix", [".tflite", ".onnx"])
def test_a_pointer_of_git_lfs_is_recognised(suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"model{suffix}"
    file.write_bytes(POINTER)
    with pytest.raises(ModelError, match=f"model{suffix}: is a pointer of git-lfs") as caught:
        read(file)
    assert "git lfs pull" in caught.value.remedy


@pytest.mark.parametrize("name", ["digits.tflite", "digits.onnx"])
@pytest.mark.parametrize("content", [b"", b"hello", b"<html>not found</html>", None])
def test_damaged_files_are_named(name: str, content: bytes | None, tmp_path: Path) -> None:
    whole = (DIGITS / name).read_bytes()
    (tmp_path / name).write_bytes(whole[: len(whole) // 2] if content is None else content)
    with pytest.raises(ModelError) as caught:
        read(tmp_path / name)
    assert caught.value.where.startswith(name) and caught.value.remedy


@pytest.mark.parametrize("name", ["digits.tflite", "digits.onnx"])
def test_a_wrong_name_to_cut_at_lists_what_there_is(name: str) -> None:
    with pytest.raises(InputError, match="--cut-output-tensors: the model has no tensor 'zzz'") as caught:
        read(DIGITS / name, ["zzz"])
    assert caught.value.remedy.startswith("there are 'image") and "more" in caught.value.remedy
    with pytest.raises(InputError) as caught:
        read(DIGITS / name, ["probabilitys"])
    assert caught.value.remedy.startswith("did you mean 'probabilities")


def test_names_instead() -> None:
    assert instead("x", ["a", "a", ""]) == "there is 'a'"
    assert instead("pol", ["pool", "conv"]) == "did you mean 'pool'?"
    assert instead("conv", ["backbone/conv_long_name_1", "b"]) == "did you mean 'backbone/conv_long_name_1'?"
    assert instead("zz", [f"n{k}" for k in range(10)]).endswith("'n7' and 2 more")


def test_the_file_is_named_once() -> None:
    error = in_file(Path("a/m.onnx"), ModelError("bad", where="m"))
    assert error.where == "m.onnx" and in_file(Path("a/m.onnx"), error).where == "m.onnx"
    assert in_file(Path("m.onnx"), ModelError("bad", where="conv")).where == "m.onnx, conv"


def test_an_error_of_another_file_keeps_its_place(tmp_path: Path) -> None:
    other = tmp_path / "weights.bin"
    for where in (f"{other}, tensor 3", "Conv_1, input 0"):
        assert in_file(Path("m.onnx"), ModelError("x", where=where)).where == f"m.onnx, {where}"
    other.touch()
    assert in_file(Path("m.onnx"), ModelError("x", where=f"{other}, tensor 3")).where == f"{other}, tensor 3"
