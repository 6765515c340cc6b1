"""Archives of PyTorch programs from strangers: what would run code is refused before torch sees it. No PyTorch here."""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest

from atonc.insight.quantizing.from_torch import PROGRAM, checked_archive, packed
from atonc.insight.quantizing.loading import read
from atonc.machine.base.errors import AtoncError, ModelError, UnsupportedError

CONV = "torch.ops.aten.conv2d.default"


def program(target: str = CONV, **more: Any) -> bytes:
    graph = {"nodes": [{"target": target, "inputs": [], "metadata": {}}]}
    return json.dumps({"graph_module": {"graph": graph}, "range_constraints": {}, "guards_code": [], **more}).encode()


def payload(**entry: Any) -> bytes:
    plain = {"path_name": "weight_0", "is_param": True, "use_pickle": False}
    return json.dumps({"config": {"stem.weight": {**plain, **entry}}}).encode()


def members() -> dict[str, bytes]:
    return {
        "models/model.json": program(),
        "data/weights/model_weights_config.json": payload(),
        "data/weights/weight_0": b"\0\0\0\0",
        "data/constants/model_constants_config.json": b'{"config": {}}',
        "data/sample_inputs/model.pt": b"looked at with torch",
        "archive_format": b"pt2",
        "archive_version": b"0",
        "byteorder": b"little",
        ".data/version": b"3\n",
    }


def archive(changes: dict[str, bytes | None] | None = None, kind: int = zipfile.ZIP_STORED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", kind) as target:
        for name, content in (members() | (changes or {})).items():
            if content is not None:
                target.writestr(f"model/{name}", content)
    return made.getvalue()


def test_a_plain_program_is_packed_anew_with_what_was_looked_at() -> None:
    found = checked_archive(archive({PROGRAM: program(guards_code=["__import__('os')"])}), "m.pt2")
    with zipfile.ZipFile(io.BytesIO(packed(found))) as again:
        assert {name.partition("/")[2] for name in again.namelist()} == set(members())
        assert json.loads(again.read(f"archive/{PROGRAM}"))["guards_code"] == []
        assert again.read("archive/data/weights/weight_0") == b"\0\0\0\0"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"data/aotinductor/model/x.so": b"\x7fELF"}, "member 'data/aotinductor"),
        ({"data/constants/custom_obj_0": b"x"}, "member 'data/constants/custom_obj_0'"),
        ({"data/constants/opaque_obj_0": b"x"}, "member 'data/constants/opaque_obj_0'"),
        ({"data/weights/model.pt": b"\x80\x04"}, "member 'data/weights/model.pt'"),
        ({"../../etc/passwd": b"x"}, "member '../../etc/passwd'"),
        ({"data/weights/model_weights_config.json": payload(use_pickle=True)}, "is a pickled object"),
        ({"data/weights/model_weights_config.json": payload(use_pickle=0)}, "is a pickled object"),
        ({"data/weights/model_weights_config.json": payload(path_name="../x")}, "is a pickled object"),
        ({"data/weights/model_weights_config.json": payload(path_name="opaque_obj_0")}, "is a pickled object"),
        ({PROGRAM: program("torch.os.system")}, "it calls 'torch.os.system'"),
        ({PROGRAM: program("_operator.methodcaller")}, "it calls '_operator.methodcaller'"),
        ({PROGRAM: program("torch.ops.higher_order.cond")}, "it calls"),
        ({PROGRAM: program(range_constraints={"s0": {}})}, "open sizes"),
        ({PROGRAM: program(sizes=[{"as_expr": {"expr_str": "__import__('os')"}}])}, "open sizes"),
    ],
)
def test_what_would_run_code_is_refused(changes: dict[str, bytes | None], words: str) -> None:
    with pytest.raises(UnsupportedError, match=words.replace("(", r"\(")) as caught:
        checked_archive(archive(changes), "m.pt2")
    assert caught.value.rule and caught.value.remedy and caught.value.where == "m.pt2"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PK\x03\x04 but no more",
        archive()[:-40],
        archive(kind=zipfile.ZIP_DEFLATED),
        archive({PROGRAM: None}),
        archive({PROGRAM: b"{"}),
        archive({PROGRAM: b"[" * 100_000}),
        archive({PROGRAM: b"[" * 90 + b"]" * 90}),
        archive({"data/weights/model_weights_config.json": b"[]"}),
    ],
    ids=["empty", "cut", "no end", "compressed", "no program", "no JSON", "bottomless", "deep", "no tensors"],
)
def test_what_is_no_program_is_refused(data: bytes) -> None:
    with pytest.raises(ModelError):
        checked_archive(data, "m.pt2")


@pytest.mark.parametrize("name", ["other/models/model.json", "model/byteorder"])
def test_members_lie_in_one_folder_and_each_once(name: str) -> None:
    """Which of two of one name counts, readers do not agree on."""
    data = io.BytesIO(archive())
    with zipfile.ZipFile(data, "a") as target, warnings.catch_warnings(action="ignore"):
        target.writestr(name, b"little")
    with pytest.raises(ModelError, match="in several folders or twice"):
        checked_archive(data.getvalue(), "m.pt2")


def test_a_bomb_is_refused_by_what_it_says_of_itself() -> None:
    data = bytearray(archive())
    place = data.find(b"PK\x01\x02")  # its first entry in the directory: size unpacked
    data[place + 24 : place + 28] = (0x7FFFFFFF).to_bytes(4, "little")
    with pytest.raises(ModelError, match="1 GiB"):
        checked_archive(bytes(data), "m.pt2")


def test_quantize_meets_it_before_torch(tmp_path: Path) -> None:
    file = tmp_path / "model.pt2"
    file.write_bytes(archive({PROGRAM: program("torch.os.system")}))
    with pytest.raises(AtoncError, match=r"torch\.os\.system"):
        read(file)
