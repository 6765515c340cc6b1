"""What is taken from a stranger's file: how much of it, which files beside it, which sizes of free dimensions, what a
quantiser told in it; and what is said about operators that are not supported.

A file beside a model is read only if the model names it relative to its own folder and it lies there; symbolic links do
not lead out of it. The model then goes on as if all had been one file.
"""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from math import isfinite, prod
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np

from atonc.compiler.frontends.tflite_file import NPU_CODE
from atonc.compiler.ir.types import MAX_DIM, Array
from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError, ModelError, UnsupportedError

MAX_FILE_BYTES = 512 << 20
MAX_TENSORS = 100_000
MAX_OPS = 50_000
MAX_OPERANDS = 4_096
MAX_TOTAL_CONSTANT_BYTES = 1 << 30
MAX_NAME = 4_096


_LFS_POINTER = b"version https://git-lfs.github.com/spec/"


def read_bytes(path: Path) -> bytes:
    """The whole file, if it is a file of reasonable size and not what git-lfs leaves in its place."""
    data = read_file(path, MAX_FILE_BYTES)
    if data.startswith(_LFS_POINTER):
        raise ModelError(
            "is a pointer of git-lfs, not the model itself",
            where=str(path),
            remedy=f"git lfs pull --include '{path.name}' in its repository fetches the file",
        )
    return data


def count(number: int, limit: int, what: str) -> int:
    if number > limit:
        raise ModelError(f"{number} {what}, at most {limit} are supported")
    return number


MAX_TEXT = 4_096
PAIR = re.compile(r"\s*([^=,{}\[\]'\"]+?)\s*=(.*)|\s*([^=:,{}\[\]'\"]+?)\s*:([^=]*)", re.DOTALL)
FIX = "--fix-parametric-shapes"
TELL = f"give its value: {FIX}"

Given = dict[str, Any]  # sizes of dimensions, or values of inputs: a number, a truth value, or lists of these


def parse_fixed_shapes(text: str) -> Given:
    """Takes "{'B': 1, 'T': 16}" as ST's tool does, JSON, or B=1,x:2=16,axes=0,2,alpha=0.5."""
    if not text.strip():
        return {}
    if len(text) > MAX_TEXT:
        raise InputError("the list of fixed shapes is too long", where=FIX)
    found: Given = {}
    if text.strip().startswith("{"):
        found = _literal(text)
    else:
        name = ""
        for part in text.split(","):
            if pair := PAIR.fullmatch(part):
                name, part = pair[1] or pair[3], pair[2] if pair[1] else pair[4]
                found[name] = [] if part.strip() in ("[]", "[") else None
            elif not name:
                raise _unreadable(text)
            value = part.strip(" []")
            if value or found[name] != []:
                found[name] = _joined(found[name], _word(value, text))
    if not all(map(_is_given, found.values())):
        raise _unreadable(text)
    return found


def _joined(before: Any, value: Any) -> Any:
    return value if before is None else [*(before if isinstance(before, list) else [before]), value]


def _word(word: str, text: str) -> Any:
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    raise _unreadable(text)


def _is_given(value: Any, depth: int = 0) -> bool:
    if isinstance(value, (list, tuple)):
        return depth < 8 and all(_is_given(one, depth + 1) for one in value)
    return isinstance(value, (int, float))


def size_given(given: Mapping[str, Any], *names: str) -> int:
    """The size of a dimension by its name or by INPUT:NUMBER, 0 if it is not given."""
    for name in names:
        size = given.get(name) if name else None
        if size is not None:
            if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= MAX_DIM:
                raise InputError(f"{name!r} cannot have the size {size!r}", where=FIX)
            return size
    return 0


def value_given(given: Any, name: str, shape: tuple[int, ...] | None, dtype: str) -> Array:
    """The value of an input: one number fills it, a list has its elements in order. Without a shape it is that of the
    list."""
    try:
        data = np.array(given)
        wanted = np.asarray(given, np.bool_ if dtype == "bool" else dtype) if data.dtype.kind in "biuf" else None
    except (ValueError, OverflowError):  # rows of different lengths, numbers that do not fit
        data, wanted = np.empty(0), None
    same = wanted is not None and np.array_equal(wanted.astype(np.float64), data.astype(np.float64), equal_nan=True)
    fits = shape is None or data.size == 1 or data.size == prod(shape)
    if wanted is None or not fits or not (same or np.dtype(dtype).kind == "f"):
        holds = f"{dtype} of shape {shape}" if shape is not None else dtype
        raise InputError(
            f"the input {name[:60]!r} cannot have the value {str(given)[:60]}: it holds {holds}", where=FIX
        )
    if shape is None:
        return wanted
    return np.full(shape, wanted.reshape(-1)[0]) if data.size == 1 else wanted.reshape(shape)


def require_names(given: Mapping[str, Any], sizes: Collection[str], inputs: Collection[str] = ()) -> tuple[str, ...]:
    """Sizes for dimensions that the model does not have are a mistake of the user; where it has none, a note."""
    named = sorted(name for name in sizes if name)
    unknown = [name for name in given if name not in named and name not in inputs]
    if unknown and not named:
        return (f"{FIX} has no effect: all sizes of the inputs are fixed in the model",)
    for name in unknown:
        raise InputError(
            f"the inputs have no dimension {name[:60]!r}",
            where=FIX,
            rule=f"its free dimensions are {', '.join(map(repr, named[:10]))}",
            remedy="leave it out, or correct the name",
        )
    return ()


def _literal(text: str) -> Given:
    value = None
    for read in (ast.literal_eval, json.loads):
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            value = read(text.strip())
            break
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise _unreadable(text)
    return value


def _unreadable(text: str) -> InputError:
    return InputError(
        f"{text[:80]!r} is not a list of sizes and values",
        where=FIX,
        remedy="write {'B': 1, 'T': 16} or B=1,T=16; values of an input as axes=0,2; INPUT:1=16 without a name",
    )


STATEFUL = (
    "LSTM", "GRU", "RNN", "UNIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_LSTM", "UNIDIRECTIONAL_SEQUENCE_RNN",
    "BIDIRECTIONAL_SEQUENCE_RNN", "SVDF", "CALL_ONCE",
)  # fmt: skip
CONTROL = ("IF", "WHILE", "CALL", "SequenceMap")
UNROLLED = (
    "convert one step of a recurrent layer with its states as inputs and outputs (generate --state keeps them in RAM), "
    "or unroll it (Keras: unroll=True); int8 LSTMs of the converter need no loop"
)
DYNAMIC = ("DynamicQuantizeLinear", "ConvInteger", "MatMulInteger", "com.microsoft.DynamicQuantizeMatMul",
           "com.microsoft.MatMulIntegerToFloat", "com.microsoft.DynamicQuantizeLSTM")  # fmt: skip
SOUND = ("STFT", "DFT", "MelWeightMatrix", "HannWindow", "HammingWindow")
MOST_NAMED = 8
KNOWN = "weights, scales, zero points, shapes and bounds are known when the model is compiled"
FORMS = "operators, attributes and element types are those of docs/reference/ops.md"
DECLARE_C = "declare a C function for it: --custom FILE (docs/custom_operators.md)"
CUT = "replace the operator or stop before it with --cut-output-tensors"


def advise(error: UnsupportedError, computed: Sequence[str] = ()) -> UnsupportedError:
    """Whatever was refused, it says by which rule and what to do; `computed` are the tensors that it works on."""
    late = "at run time" in error.what
    cut = f"{CUT} {','.join(computed)}" if 0 < len(computed) <= MOST_NAMED else CUT
    error.rule = error.rule or (KNOWN if late else FORMS)
    if not error.remedy or (error.remedy.startswith(TELL) and "; " not in error.remedy):
        made = f"make it a constant when the model is exported, or {cut}" if late else cut
        error.remedy = f"{error.remedy}; {made}" if error.remedy else made
    return error


def refuse(kind: str, where: str, computed: Sequence[str] = ()) -> UnsupportedError:
    """The error for an operator that has no translation."""
    does = rule = remedy = ""
    if kind in STATEFUL or kind.endswith("LSTM"):
        does, rule = "keeps a state between its steps and ", "operators are functions of their inputs"
        remedy = "use convolutions over time instead, or cut the model before it"
    elif kind in CONTROL:
        does, rule = "runs other graphs and ", "the order of operators is fixed when the model is compiled"
        remedy = UNROLLED if kind == "WHILE" else "export the model without control flow"
    elif kind in DYNAMIC:
        does, rule = "chooses scales at run time and ", "the NPU needs scales that are known when the model is compiled"
        remedy = "quantise statically (onnxruntime.quantization.quantize_static with QDQ and calibration data)"
    elif kind == f"CUSTOM '{NPU_CODE}'":
        does, rule = "is what --layout tflite wrote and ", "it is compiled already"
        remedy = "atonc run runs the file; compile the model that it was made from, or begin behind the operator: "
        remedy += "--cut-input-tensors"
    elif kind in SOUND:
        remedy = "in front of the first quantisation: --front-end MODEL makes C of it (docs/front_ends.md)"
    elif kind.startswith("CUSTOM 'Signal"):
        does, rule = "is a part of TFLM's front end and ", "what turns sound into features is declared, not compiled"
        remedy = "begin behind (--cut-input-tensors NAME): --front-end micro_speech, or its keys (docs/front_ends.md)"
    elif kind.startswith("CUSTOM"):
        does = "is an operator of the user and "
    if not rule and ("." in kind or kind.startswith("CUSTOM '")):
        rule = "an operator that only its author knows is compiled where he says how it is computed"
        remedy = f"{DECLARE_C}; {CUT}"
    what = f"{kind} {does}is not supported"
    return advise(UnsupportedError(what, where=where, rule=rule, remedy=remedy), computed)


MOST_NAME = 1024  # characters
EXTERNAL = 1  # TensorProto.data_location
_KEY = b"location"  # every constant that lies elsewhere has it


def model_bytes(path: Path) -> bytes:
    """The model as one file, with the constants that lie beside it."""
    data = read_bytes(path)
    model = _parsed(data) if _KEY in data else None
    if model is None or not any(stored_beside(model)):
        return data
    files: dict[str, bytes] = {}
    for constant in stored_beside(model):
        said = {entry.key: entry.value for entry in constant.external_data}
        place = said.get("location", "")
        if place not in files:
            left = MAX_FILE_BYTES - len(data) - sum(map(len, files.values()))
            files[place] = read_file(_inside(path, place), max(left, 0))
        content = _part(files[place], said, constant.name)
        constant.ClearField("external_data")
        constant.ClearField("data_location")
        constant.raw_data = content
    return bytes(model.SerializeToString(deterministic=True))


def data_files(path: Path) -> tuple[Path, ...]:
    """Files beside a model that hold its constants, in the order of their names."""
    data = read_bytes(path) if path.suffix.lower() == ".onnx" else b""
    model = _parsed(data) if _KEY in data else None
    if model is None:
        return ()
    places = {e.value for constant in stored_beside(model) for e in constant.external_data if e.key == "location"}
    return tuple(_inside(path, place) for place in sorted(places))


def _parsed(data: bytes) -> Any:
    """None where it is no ONNX file, or the package is not there: the front end says so."""
    try:
        import onnx
        from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    except ImportError:
        return None
    try:
        return onnx.ModelProto.FromString(data)
    except (DecodeError, ValueError, RuntimeError):
        return None


def stored_beside(model: Any) -> Iterator[Any]:
    for constant in model.graph.initializer:
        if constant.data_location == EXTERNAL or constant.external_data:
            yield constant
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t") and attribute.t.data_location == EXTERNAL:
                yield attribute.t


def _inside(model: Path, place: str) -> Path:
    """The file that a model names, if it lies in the model's own folder or below."""
    absolute = PurePosixPath(place).is_absolute() or PureWindowsPath(place).drive or PureWindowsPath(place).root
    folder = model.resolve().parent
    usable = 0 < len(place) <= MOST_NAME and "\0" not in place and not absolute
    if not usable or not (file := (folder / place).resolve()).is_relative_to(folder):
        raise ModelError(
            f"its constants lie in {place[:200]!r}, which is not in its folder",
            where=str(model),
            rule="files beside a model are read by a relative name, from its own folder only",
            remedy="put the file beside the model, or save both as one: onnx.save(onnx.load(path), new_path)",
        )
    if not os.path.isfile(file):  # also where a part of the name is longer than the file system takes
        raise InputError(
            f"its constants lie in {place[:200]!r}, which is not there",
            where=str(model),
            remedy="copy both files to the same folder (torch.onnx.export writes model.onnx and model.onnx.data)",
        )
    return file


def _part(content: bytes, said: dict[str, str], name: str) -> bytes:
    offset, length = _number(said, "offset", 0, name), _number(said, "length", -1, name)
    end = len(content) if length < 0 else offset + length
    if not 0 <= offset <= end <= len(content):
        raise ModelError(
            f"its values are bytes {offset:,} to {end:,} of a file of {len(content):,}", where=name[:200],
            remedy="the file beside the model is cut off or of another model: export both again",
        )  # fmt: skip
    return content[offset:end]


def _number(said: dict[str, str], key: str, missing: int, name: str) -> int:
    text = said.get(key, "")
    if not text:
        return missing
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise ModelError(f"{key} {text[:40]!r} of its values is no number of bytes", where=name[:200])
    return int(text)


# in the metadata of an ONNX file: tensor of the float model -> a factor for each channel
EQUALISED_KEY = "atonc.equalised"
_MOST_CHARACTERS = 16 << 20
Gains = dict[str, tuple[float, ...]]


def tell_equalised(model: Any, gains: Mapping[str, Any]) -> None:
    """Writes it into an ONNX model."""
    rounded = {name: [float(f"{factor:.7g}") for factor in factors] for name, factors in sorted(gains.items())}
    model.metadata_props.add(key=EQUALISED_KEY, value=json.dumps(rounded, separators=(",", ":")))


def told_equalised(model: Any) -> Gains:
    """Reads it; what makes no sense is as if nothing had been said."""
    text = next((entry.value for entry in model.metadata_props if entry.key == EQUALISED_KEY), "")
    if not text or len(text) > _MOST_CHARACTERS:
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    named = found.items() if isinstance(found, dict) and len(found) <= MAX_TENSORS else ()
    return {name: tuple(map(float, factors)) for name, factors in named if _are_factors(factors)}


def _are_factors(found: Any) -> bool:
    return isinstance(found, list) and all(
        isinstance(factor, int | float) and not isinstance(factor, bool) and isfinite(factor) and factor > 0
        for factor in found
    )
