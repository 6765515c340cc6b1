"""Files of strangers: values with their lines, limits, one clear sentence for what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from atonc.delivery.deploy import config
from atonc.delivery.deploy.config import read_yaml
from atonc.machine.base.errors import InputError


def _file(folder: Path, text: str | bytes) -> Path:
    path = folder / "config.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_values_have_dotted_keys_and_lines(tmp_path: Path) -> None:
    found = read_yaml(_file(tmp_path, "a:\n  b: 3   # three\n  c: [None, x]\nd: 1e-3\n"))
    assert found.values == {"a.b": 3, "a.c": ["None", "x"], "d": 0.001}
    assert found.lines == {"a": 2, "a.b": 2, "a.c": 3, "d": 4}
    assert found.where("a.c") == f"{tmp_path / 'config.yaml'}:3: a.c"
    assert found.where("a.missing").endswith(":2: a.missing")


def test_windows_line_ends_and_byte_order_mark(tmp_path: Path) -> None:
    assert read_yaml(_file(tmp_path, b"\xef\xbb\xbfa: 1\r\nb: two\r\n")).values == {"a": 1, "b": "two"}


def test_aliases_are_values(tmp_path: Path) -> None:
    assert read_yaml(_file(tmp_path, "x: &n [1, 2]\ny: *n\n")).values == {"x": [1, 2], "y": [1, 2]}


def _laughs() -> str:
    return "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\na: 2\n", ":2: a: is there twice, first in line 1"),
        ("a: [1\n", "is no YAML"),
        ("- a\n", "has no sections"),
        ("", "has no sections"),
        ("a: !!python/object/apply:os.system [true]\n", "a"),
        ("a: !!python/name:os.system x\n", "cannot be read"),
        (_laughs(), "more than 20,000 values"),
        ("a: &a [*a]\n", "levels"),
        ("? [x]\n: 1\n", "a key must be a word"),
        (b"a: \xff\n", "config.yaml:1: is not UTF-8"),
        ("a: " + "[" * 5000, "config.yaml"),
        ("#" * (config.MOST_BYTES + 1), "bytes"),
    ],
)
def test_refusals(tmp_path: Path, text: str | bytes, said: str) -> None:
    if "object/apply" in str(text):  # a list with a foreign tag is a list, nothing is called
        assert read_yaml(_file(tmp_path, text)).values == {"a": [True]}
        return
    with pytest.raises(InputError, match=r".") as error:
        read_yaml(_file(tmp_path, text))
    assert said in str(error.value)
