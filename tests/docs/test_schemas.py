"""Documents of `--json` hold what the published schemas promise, those of other models too."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from atonc.doors.verbs.reply import FORMAT, document
from atonc.machine.base.about import __version__
from tests.frontends.tflite_models import O, T, build

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "tools"))
import gen_schemas

SCHEMAS = {path.stem: json.loads(path.read_text()) for path in gen_schemas.FOLDER.glob("*.json")}
_TYPES = {"boolean": bool, "integer": int, "number": int | float, "string": str, "null": type(None)}
_TYPES |= {"object": dict, "array": list}


def broken(value: Any, schema: dict[str, Any], where: str = "") -> list[str]:
    """Where a document is not what its schema says; the words of schemas that ours use."""
    if "const" in schema:
        return [] if value == schema["const"] else [where]
    names = schema.get("type", list(_TYPES))
    names = [names] if isinstance(names, str) else names
    if not any(isinstance(value, _TYPES[name]) and (name == "boolean") == isinstance(value, bool) for name in names):
        return [f"{where}: {value!r} is no {names}"]
    found = []
    if isinstance(value, list):
        for item in value:
            found += broken(item, schema.get("items", {}), f"{where}[]")
    if isinstance(value, dict):
        found += [f"{where}.{key} is missing" for key in schema.get("required", ()) if key not in value]
        rest = schema.get("additionalProperties", {})
        for key, item in value.items():
            found += broken(item, schema.get("properties", {}).get(key, rest), f"{where}.{key}")
    return found


@pytest.fixture(scope="module")
def given() -> dict[str, list[dict[str, Any]]]:
    return gen_schemas.documents()


def test_every_kind_has_a_schema(given: dict[str, list[dict[str, Any]]]) -> None:
    assert set(given) == set(SCHEMAS), "run tools/gen_schemas.py"


def test_documents_are_what_schemas_say(given: dict[str, list[dict[str, Any]]]) -> None:
    for kind, found in given.items():
        for one in found:
            assert broken(one, SCHEMAS[kind]) == [], f"{kind}: a key that changes its meaning needs a new FORMAT"
            assert list(one)[:4] == ["format", "atonc", "document", "model_sha256"]


def test_another_model_gives_the_same_kind_of_document(tmp_path: Path) -> None:
    tensors = [T("x", (1, 8, 8, 8), scale=0.1), T("y", (1, 8, 8, 8), scale=0.2)]
    model = tmp_path / "one.tflite"
    model.write_bytes(build(tensors, [O("RELU", ["x"], ["y"])], ["x"], ["y"]))
    for verb in ("analyze", "explain"):
        one = json.loads(gen_schemas.said([verb, str(model)]))
        assert broken(one, SCHEMAS[verb]) == []
        assert len(one["model_sha256"]) == 64 and one["format"] == FORMAT and one["atonc"] == __version__


def test_schemas_hold_for_float_edges_and_wide_outputs(tmp_path: Path) -> None:
    """Codes without a scale, more values than are listed, nothing verified: all of it is usual."""
    tensors = [T("x", (1, 16, 16, 8), "float32"), T("q", (1, 16, 16, 8), scale=0.1), T("r", (1, 16, 16, 8), scale=0.2)]
    tensors += [T("y", (1, 16, 16, 8), "float32")]
    ops = [O("QUANTIZE", ["x"], ["q"]), O("RELU", ["q"], ["r"]), O("DEQUANTIZE", ["r"], ["y"])]
    model, out = tmp_path / "edges.tflite", str(tmp_path / "out")
    model.write_bytes(build(tensors, ops, ["x"], ["y"]))
    generated = ["generate", str(model), "-o", out, "--no-verify", "--npu-mhz", "812.5"]
    board = ["board", "show", "nucleo-n657x0-q"]
    for words in (generated, ["run", out], ["explain", out], ["compare", out, out], board):
        one = json.loads(gen_schemas.said(words))
        assert broken(one, SCHEMAS[one["document"]]) == [], words


def test_what_is_wrong_is_found() -> None:
    schema = SCHEMAS["error"]
    words = dict.fromkeys(("kind", "what", "where", "rule", "remedy"), "")
    good = document("error", {"error": {"exit_code": 2, **words}})
    assert broken(good, schema) == []
    assert broken(good | {"format": FORMAT + 1}, schema) == [".format"]
    assert broken({key: value for key, value in good.items() if key != "error"}, schema) == [".error is missing"]
    assert broken(good | {"error": good["error"] | {"exit_code": "2"}}, schema)
    assert broken(True, {"type": "integer"}) and not broken(1, {"type": ["integer", "null"]})
