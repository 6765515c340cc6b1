"""Writes docs/reference/schemas: what the documents of `--json` always have, read off documents that the verbs give.

    python tools/gen_schemas.py

A key is required if every document of a kind has it; its types are those that were seen. `tests/docs/test_schemas.py`
holds new documents against the files. A key that goes, or changes its type, needs a new `FORMAT`
(`atonc/doors/verbs/reply.py`).
"""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from atonc.doors.cli.cli import main
from atonc.doors.verbs.reply import FORMAT

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "reference" / "schemas"
DIGITS = ROOT / "examples" / "digits"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
WRONG = ["analyze", "absent.tflite"]  # the one that ends with an error
# objects whose keys are names, not words of ours
_MAPS = ("bound_by", "figures", "distances", "curves", "options", "with_form", "by_argument")
_MAPS_INSIDE = {("errors", "outputs"), ("silicon", "epochs"), ("energy", "parts"), ("boards", "pools"), ("pools",)}
_OR_NULL = ("ratio",)  # objects whose figures may be without end, which JSON does not know
_NAMES = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}


def commands(work: Path) -> Iterator[list[str]]:
    """One or more for every kind of document that needs no board, no network and no long time."""
    tflite, onnx, out = str(DIGITS / "digits.tflite"), str(DIGITS / "digits.onnx"), str(work / "out")
    plain, wide = str(work / "plain"), str(work / "wide")  # float edges and not verified; outputs of many values
    base = work / "base.json"
    yield ["generate", tflite, "-o", out]
    yield ["generate", onnx, "-o", plain, "--no-verify"]
    yield ["generate", tflite, "-o", wide, "--no-verify", "--cut-output-tensors", "conv1"]
    yield ["run", wide]
    yield ["analyze", tflite]
    yield ["analyze", onnx, "--no-verify", "--max-latency", "0.001", "--resident"]
    yield ["estimate", tflite]
    yield ["estimate", onnx]
    yield ["explain", tflite]
    yield ["explain", out]
    yield ["explain", str(ROOT / "examples" / "first")]  # of ST's tool: some figures are not known
    yield ["explain", "--terms"]
    yield ["explain", tflite, "--search"]
    yield ["explain", tflite, "--accuracy", "--no-prices"]
    yield ["validate", tflite, "--samples", "2"]
    yield ["validate", onnx, "--samples", "2", "--io-only"]
    yield ["run", out]
    yield ["run", plain]
    yield ["run", str(ROOT / "examples" / "first")]
    yield ["compare", out, out, "--seed", "1"]
    yield ["compare", plain, out]
    yield ["compare", out, plain]
    yield ["compare", out, str(ROOT / "examples" / "first")]
    base.write_text(said(["analyze", tflite]))
    yield ["compare", out, "--against", str(base)]
    yield ["compare", out, plain, str(base)]
    yield ["evaluate", tflite, "--data", str(DIGITS / "test.npz"), "--limit", "8", "-o", str(work / "evaluation")]
    yield ["app", "build", tflite, onnx, "-o", str(work / "app"), "--resident"]
    field = str(ROOT / "examples" / "field_update.toml")
    yield ["app", "build", field, "-o", str(work / "field")]
    yield ["app", "update", field, "check", "--built", str(work / "field"), "-o", str(work / "update")]
    yield ["compare", str(work / "app"), str(ROOT / "examples" / "two_networks.toml")]
    yield ["ops"]
    yield ["ops", "--type", "onnx"]
    yield ["board", "list"]
    yield ["board", "show", "stm32n6570-dk"]
    yield ["board", "show", "openmv-n6"]
    yield ["doctor"]
    yield ["probe", "--list"]
    yield WRONG


def said(words: Sequence[str]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        main([*words, "--json"])
    return out.getvalue()


def documents() -> dict[str, list[dict[str, Any]]]:
    """By kind."""
    found: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as work:
        for words in commands(Path(work)):
            one = json.loads(said(words))
            if one["document"] == "error" and words != WRONG:
                raise SystemExit(f"atonc {' '.join(words)}: {one['error']}")
            found.setdefault(one["document"], []).append(one)
    return found


def schema(kind: str, found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    head = {"$schema": _DIALECT, "title": f"atonc --json: {kind}, format {FORMAT}"}
    body = inferred(found)
    body["properties"]["format"] = {"const": FORMAT}
    body["properties"]["document"] = {"const": kind}
    body["properties"]["model_sha256"] = {"type": ["string", "null"]}
    return head | body


def inferred(values: Sequence[Any], path: tuple[str, ...] = ()) -> dict[str, Any]:
    """What all of these values have in common; an integer may be any number."""
    objects = [value for value in values if isinstance(value, dict)]
    lists = [value for value in values if isinstance(value, list)]
    names = {_NAMES[type(value)] for value in values if not isinstance(value, dict | list)}
    names |= ({"object"} if objects else set()) | ({"array"} if lists else set())
    names |= {"number"} if "integer" in names and _is_any_number(path) else set()
    names |= {"null"} if path[-2:-1] and path[-2] in _OR_NULL else set()
    names -= {"integer"} if "number" in names else set()
    if names <= {"null"}:
        return {}  # nothing was seen: anything may come
    found: dict[str, Any] = {"type": sorted(names) if len(names) > 1 else next(iter(names))}
    if lists and (items := [item for value in lists for item in value]):
        found["items"] = inferred(items, path)
    if objects and not _is_map(path):
        keys = list(dict.fromkeys(key for value in objects for key in value))
        found["required"] = [key for key in keys if all(key in value for value in objects)]
        found["properties"] = {
            key: inferred([value[key] for value in objects if key in value], (*path, key)) for key in keys
        }
    elif objects and (inner := [item for value in objects for item in value.values()]):
        found["additionalProperties"] = inferred(inner, (*path, "of a name"))
    return found


def _is_map(path: tuple[str, ...]) -> bool:
    return path[-1:] in {(name,) for name in _MAPS} or path[-2:] in _MAPS_INSIDE


def _is_any_number(path: tuple[str, ...]) -> bool:
    """Whole in our boards and for codes; boards of users have other clocks, and some outputs are float."""
    return path[-2:] == ("top", "value") or (bool(path) and path[-1].endswith("_mhz"))


def text(kind: str, found: Sequence[dict[str, Any]]) -> str:
    return json.dumps(schema(kind, found), indent=1) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, seen in documents().items():
        (FOLDER / f"{name}.json").write_text(text(name, seen), encoding="utf-8")
