"""A PyTorch module or exported program as a float ONNX model, by PyTorch's own exporter. Nodes and tensors are named
after the modules that they come from, so that whatever is said of a layer says where it stands in the source.

An exported program (.pt2) is an archive from strangers and is looked at before torch loads it: `torch.export.load` runs
what some members of such an archive say: pickled weights, constants and sample inputs, compiled libraries, expressions
of open sizes, guards, and operators that are named by any path below `torch`. A program of fixed sizes made of
PyTorch's own operators needs none of them. So an archive that has them is refused, and torch gets a new one that holds
nothing but what was looked at.
"""

from __future__ import annotations

import ast
import io
import json
import logging
import re
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from atonc.compiler.frontends import limits
from atonc.insight.quantizing.graph import WEIGHTED
from atonc.machine.base import progress
from atonc.machine.base.errors import ModelError, UnsupportedError, not_loaded

MAX_MEMBERS = 20_000
MAX_PROGRAM_BYTES = 64 << 20  # of JSON
MAX_DEPTH = 64
# what torch.export.save writes for one program of fixed sizes, below the folder that all members share
KNOWN = re.compile(
    r"archive_format|archive_version|byteorder|\.data/version|\.data/serialization_id|models/model\.json"
    r"|data/weights/(model_weights_config\.json|weight_\d{1,6})"
    r"|data/constants/(model_constants_config\.json|tensor_\d{1,6})|data/sample_inputs/model\.pt"
)
PROGRAM, SAMPLE_INPUTS = "models/model.json", "data/sample_inputs/model.pt"
PAYLOADS = ("data/weights/model_weights_config.json", "data/constants/model_constants_config.json")
STORED = re.compile(r"(weight|tensor)_\d{1,6}")
OPERATOR = re.compile(r"torch\.ops\.(aten|prims)\.\w+\.\w+|_operator\.getitem")
OPEN_SIZES = ("as_expr", "expr_str")
AGAIN = "save it again with torch.export.save of a current PyTorch, or give the module itself to atonc.torch.quantize"


def is_pt2(path: Path) -> bool:
    return path.suffix.lower() == ".pt2"


def checked_archive(data: bytes, name: str) -> dict[str, bytes]:
    """The members of an archive by their names below its folder, all of kinds that run nothing when they are read."""
    members = _members(data, name)
    missing = [wanted for wanted in (PROGRAM, SAMPLE_INPUTS, *PAYLOADS) if wanted not in members]
    if missing:
        raise ModelError(f"not an exported program: it has no {missing[0]}", where=name, remedy=AGAIN)
    for payload in PAYLOADS:
        _require_plain(_json(members[payload], name), payload, name)
    program = _json(members[PROGRAM], name)
    _require_own_operators(program, name)
    if isinstance(program, dict):
        program["guards_code"] = []  # Python text; nothing is guarded where sizes are fixed
    return members | {PROGRAM: json.dumps(program).encode()}


def packed(members: dict[str, bytes]) -> bytes:
    """These members and no others, as torch reads them."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(f"archive/{name}", (1980, 1, 1, 0, 0, 0)), content)
    return made.getvalue()


def _members(data: bytes, name: str) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            limits.count(len(entries), MAX_MEMBERS, "members of the archive")
            if sum(entry.file_size for entry in entries) > limits.MAX_TOTAL_CONSTANT_BYTES:
                raise ModelError("unpacked it is larger than 1 GiB", where=name)
            folders = {entry.filename.partition("/")[0] for entry in entries}
            if len(folders) != 1 or len({entry.filename for entry in entries}) != len(entries):
                raise ModelError("not an exported program: its members lie in several folders or twice", where=name)
            return {inside: archive.read(entry) for entry, inside in _known(entries, name)}
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, OSError, ValueError, KeyError) as error:
        raise ModelError(f"not a .pt2 archive: {str(error)[:200]}", where=name, remedy=AGAIN) from None


def _known(entries: list[zipfile.ZipInfo], name: str) -> Iterator[tuple[zipfile.ZipInfo, str]]:
    for entry in entries:
        inside = entry.filename.partition("/")[2]
        if not KNOWN.fullmatch(inside):
            raise UnsupportedError(
                f"it has a member {inside[:120]!r}",
                where=name,
                rule="only what torch.export.save writes of one program is read: its graph, tensors and sample inputs",
                remedy="leave compiled code, custom objects and further files out of it",
            )
        if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1:
            raise ModelError(f"its member {inside} is compressed or encrypted", where=name, remedy=AGAIN)
        yield entry, inside


def _json(content: bytes, name: str) -> Any:
    if len(content) > MAX_PROGRAM_BYTES:
        raise ModelError(f"its program takes {len(content):,} bytes", where=name, rule=f"at most {MAX_PROGRAM_BYTES:,}")
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"not an exported program: {str(error)[:200]}", where=name, remedy=AGAIN) from None


def _require_plain(config: Any, member: str, name: str) -> None:
    """Tensors as bytes with shape and type; none that is an object of Python."""
    entries = config.get("config") if isinstance(config, dict) else None
    if not isinstance(entries, dict):
        raise ModelError(f"not an exported program: {member} has no list of tensors", where=name)
    for tensor, entry in entries.items():
        plain = isinstance(entry, dict) and entry.get("use_pickle") is False
        if not plain or not STORED.fullmatch(str(entry.get("path_name"))):
            raise UnsupportedError(
                f"{tensor[:120]!r} is a pickled object",
                where=name,
                rule="unpickling runs what the archive says, so tensors are read as plain bytes only",
                remedy="keep tensor subclasses and custom objects out of the module, and save it again",
            )


def _require_own_operators(program: Any, name: str) -> None:
    for key, value in _entries(program, name):
        if key == "target" and isinstance(value, str) and not OPERATOR.fullmatch(value):
            raise UnsupportedError(
                f"it calls {value[:120]!r}",
                where=name,
                rule="programs are made of PyTorch's own operators (aten)",
                remedy="write the custom operator with torch functions, or export without it",
            )
        if key in OPEN_SIZES or (key == "range_constraints" and value):
            raise UnsupportedError(
                "it has open sizes",
                where=name,
                rule="all shapes are known when a program is read",
                remedy="export without dynamic_shapes: torch.export.export(module, (example,))",
            )


def _entries(value: Any, name: str, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """All keys with their values, however deep."""
    if depth > MAX_DEPTH:
        raise ModelError(f"its program is nested deeper than {MAX_DEPTH}", where=name)
    if isinstance(value, dict):
        yield from value.items()
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for one in inner:
        if isinstance(one, (dict, list)):
            yield from _entries(one, name, depth + 1)


SCOPES = "pkg.torch.onnx.name_scopes"  # of a node: the modules around it, outermost first, then its own name
MOST_WORDS = 400  # characters of what torch says
NAMED_OPERATOR = re.compile(r"(?:op='|torch\.ops\.)(aten\.\w+)")


def torch_package() -> Any:
    """PyTorch, where it is installed."""
    try:
        import onnxscript  # noqa: F401  (the exporter needs it)
        import torch
    except ImportError as error:
        raise not_loaded(error, error.name or "torch", "'atonc[torch]'") from None
    return torch


def read_pt2(path: Path) -> Any:
    """The float ONNX model of an exported program in a file; see `pt2_archive` for what is refused before."""
    members = checked_archive(limits.read_bytes(path), path.name)
    torch = torch_package()
    _require_tensors(torch, members[SAMPLE_INPUTS], path.name)
    try:
        with _quiet():
            program = torch.export.load(io.BytesIO(packed(members)))
    except Exception as error:  # a damaged program raises whatever its parts meet first
        raise ModelError(
            f"PyTorch {torch.__version__} cannot load it: {_said(error)}",
            where=path.name,
            remedy="save it with the same release of PyTorch: torch.export.save(program, path)",
        ) from None
    return onnx_of_program(program, path.name)


def _require_tensors(torch: Any, content: bytes, name: str) -> None:
    """Sample inputs are pickled; torch would run what they say where its careful reader refuses them."""
    try:
        torch.load(io.BytesIO(content), weights_only=True)
    except Exception as error:  # of the pickle, of the archive around it, of torch
        raise UnsupportedError(
            f"its sample inputs are more than tensors: {_said(error)}",
            where=name,
            rule="unpickling runs what the archive says, so only tensors are read",
            remedy="export with an example of plain tensors",
        ) from None


def onnx_of_module(module: Any, example: Any) -> Any:
    """The module as it computes in evaluation, on inputs of the shapes of the example."""
    torch = torch_package()
    progress.stage("exporting the module")
    inputs = example if isinstance(example, tuple) else (example,)
    training = {name for name, part in module.named_modules() if part.training}
    module.eval()
    try:
        with _quiet():
            program = torch.export.export(module, inputs)
    except Exception as error:  # what a module does in Python may raise anything
        raise UnsupportedError(
            f"torch.export cannot follow the module: {_said(error)}",
            where=_path_in(error, module) or type(module).__name__,
            rule="a module whose path depends on values has no graph",
            remedy="take the branch or loop out of forward; torch.export.export(module, example) shows where it stands",
        ) from None
    finally:
        for name, part in module.named_modules():
            part.training = name in training
    return onnx_of_program(program, type(module).__name__)


def onnx_of_program(program: Any, name: str) -> Any:
    torch = torch_package()
    progress.stage("exporting to ONNX")
    try:
        with _quiet():
            model = torch.onnx.export(program, dynamo=True, verbose=False).model_proto
    except Exception as error:  # its translator raises whatever an operator meets
        raise UnsupportedError(
            f"PyTorch's ONNX exporter refuses it: {_said(error)}",
            where=_unknown_operator(program, error) or name,
            rule="operators come in as ONNX, by torch.onnx.export",
            remedy="write that module with operators that ONNX has",
        ) from None
    model.graph.name = name
    _name_after_modules(model.graph)
    return model


# -------------------------------------------------------------------------------------------------------------- names


def _name_after_modules(graph: Any) -> None:
    """`backbone.layer3.0.attn/MatMul_2`: the path of the module, then the operator, counted where there are several."""
    constants = {proto.name for proto in graph.initializer}
    kept = {value.name for value in (*graph.input, *graph.output)} | constants
    taken = Counter[str]()
    renamed: dict[str, str] = {}
    for node in graph.node:
        path = _path_of(node, constants)
        label = f"{path}/{node.op_type}" if path else node.op_type
        taken[label] += 1
        node.name = label if taken[label] == 1 else f"{label}_{taken[label]}"
        for index, output in enumerate(node.output):
            if output and output not in kept:
                renamed[output] = node.name if index == 0 else f"{node.name}:{index}"
    for node in graph.node:
        for names in (node.input, node.output):
            for index, found in enumerate(names):
                names[index] = renamed.get(found, found)
    for value in graph.value_info:
        value.name = renamed.get(value.name, value.name)


def _path_of(node: Any, constants: set[str]) -> str:
    """The module whose weight it has, where norms were folded into it; else the innermost one around it."""
    if node.op_type in WEIGHTED and node.input[1] in constants and node.input[1].endswith(".weight"):
        return str(node.input[1]).removesuffix(".weight")
    said = next((entry.value for entry in node.metadata_props if entry.key == SCOPES), "")
    try:
        scopes = ast.literal_eval(said) if said else []
    except (ValueError, SyntaxError):
        return ""
    return str(scopes[-2]) if len(scopes) > 1 else ""


def _unknown_operator(program: Any, error: BaseException) -> str:
    """The path of the module with the operator that the exporter names; it may be a part of what was written."""
    named = {match[1] for one in _chain(error) for match in NAMED_OPERATOR.finditer(str(one))}
    for graph in (program.graph, program.run_decompositions().graph):
        for node in graph.nodes:
            if node.op == "call_function" and str(node.target).rpartition(".")[0] in named:
                stack = node.meta.get("nn_module_stack") or {}
                path = next((path for path, _ in reversed(stack.values()) if path), "forward")
                return f"{path} ({node.target})"
    return ""


def _path_in(error: BaseException, module: Any) -> str:
    """The module whose forward was running when it was raised, by the objects on the way."""
    paths = {id(part): path for path, part in module.named_modules()}
    found, trace = "", error.__traceback__
    while trace is not None:
        owner = trace.tb_frame.f_locals.get("self")
        found = paths.get(id(owner), "") or found
        trace = trace.tb_next
    return found


def _said(error: BaseException) -> str:
    """What the first cause says, in a line."""
    lines = [line.strip() for line in str(_chain(error)[-1]).splitlines() if line.strip()]
    return " ".join(lines)[:MOST_WORDS] or type(error).__name__


def _chain(error: BaseException) -> list[BaseException]:
    found = [error]
    while (cause := found[-1].__cause__ or found[-1].__context__) is not None and cause not in found:
        found.append(cause)
    return found


@contextmanager
def _quiet() -> Iterator[None]:
    """Torch warns of packages that nobody asked for, and prints the graph before it raises."""
    logger = logging.getLogger("torch")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)
