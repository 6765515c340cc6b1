"""The verbs that an agent may call, and how a call becomes a command line.

A call has paths by name, checked by the sandbox, and `options`: those that visitors of `atonc serve` may set, by their
names on the command line, checked by the same form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from atonc.compiler.request.options import Options
from atonc.doors.agents.sandbox import FILE, INPUT, OUTPUT_FILE, OUTPUT_FOLDER, Sandbox
from atonc.doors.serve import form
from atonc.doors.serve.form import ServedVerb
from atonc.doors.verbs import board, compare, explain, generate, quantize, validate
from atonc.doors.verbs.compiling import AnalyzeOptions, ModelOptions
from atonc.doors.verbs.parser import Command
from atonc.insight.quantizing.types import QuantizeOptions
from atonc.insight.validating.validate_options import ValidateOptions
from atonc.machine.base.declare import did_you_mean
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass

OPTIONS, DOCUMENT = "options", "document"
BUILD_FOLDER = "st_ai_output"
# of `validate`: options that name files, lines to boards, or what is written
_NOT_FOR_AGENTS = (
    "valinput", "valoutput", "range", "mode", "val_json", "desc", "bisect", "record", "record_board", "record_licence",
    "page", "patience", "runtime", "output", "save_csv", "no_report",
)  # fmt: skip


@dataclass(frozen=True)
class ToolPath:
    """A path that a tool takes."""

    name: str
    kind: str
    help: str
    flag: str = ""  # behind which it stands on the command line; else in its place among the words
    required: bool = False
    default: str = ""  # where the verb writes if nothing is said


@dataclass(frozen=True)
class AgentTool:
    name: str
    does: str
    words: tuple[str, ...]
    verb: ServedVerb
    paths: tuple[ToolPath, ...]
    writes: bool = False
    staged: bool = False  # its stages are those of one compilation: progress is a share of the whole


def _verb(command: Command, declared: tuple[type[Any], ...], without: tuple[str, ...] = ()) -> ServedVerb:
    return ServedVerb(command.name, command, declared, lambda found: None, "", without=without)


_COMMANDS = {one.name: one for file in (compare, explain, generate, quantize, validate) for one in file.COMMANDS}
_TRY = next(kind for one in board.COMMANDS for kind in one.kinds if kind.name == "try")
_MODEL = ToolPath("model", FILE, "quantised model, .tflite or .onnx", required=True)
_DOCUMENT = ToolPath(DOCUMENT, OUTPUT_FILE, "also write the whole document here, .json")
_COMPILED = (ModelOptions, Options)
TOOLS = {
    tool.name: tool
    for tool in (
        AgentTool(
            "analyze",
            "Where each operator runs (NPU or CPU), predicted latency with error bounds, memory by pool, gates and "
            "advice of a quantised model for the STM32N6; writes nothing. Begin here.",
            ("analyze",),
            _verb(_COMMANDS["analyze"], (AnalyzeOptions, *generate.DECLARED[:2], *generate.DECLARED[4:])),
            (_MODEL,),
            staged=True,
        ),
        AgentTool(
            "explain",
            "Why each layer runs where it does: the rule, what was seen, the limit, the fix and what it brings "
            "(option layer: only that one). accuracy: every layer against float, with actions.",
            ("explain",),
            _verb(_COMMANDS["explain"], explain.DECLARED),
            (
                ToolPath("model", INPUT, "model, or the folder of a build", required=True),
                ToolPath("float", FILE, "the float model that it was made from; with accuracy", "--float"),
                ToolPath("input", FILE, "samples, .npz; with accuracy", "--input"),
            ),
        ),
        AgentTool(
            "compare",
            "Two builds or models side by side: latency, memory, layer by layer, options that differ.",
            ("compare",),
            _verb(_COMMANDS["compare"], (Options,)),
            (
                ToolPath("a", INPUT, "model, or folder of a build: before", required=True),
                ToolPath("b", INPUT, "the same: after", required=True),
            ),
        ),
        AgentTool(
            "quantize",
            "A float .onnx or .tflite model becomes int8, calibrated on samples and tuned to the NPU; the result says "
            "accuracy before and after.",
            ("quantize",),
            _verb(_COMMANDS["quantize"], (QuantizeOptions,)),
            (
                ToolPath("model", FILE, "float model", required=True),
                ToolPath("data", INPUT, "folder of images, or .npz with samples first", "--data", required=True),
                ToolPath("output", OUTPUT_FILE, "the int8 model, .onnx", "--output", required=True),
            ),
            writes=True,
        ),
        AgentTool(
            "generate",
            "Compiles a quantised model, verifies it on the emulator and writes C files, memory images and reports.",
            ("generate",),
            _verb(_COMMANDS["generate"], generate.DECLARED),
            (_MODEL, ToolPath("output", OUTPUT_FOLDER, f"default {BUILD_FOLDER}", "--output", default=BUILD_FOLDER)),
            writes=True,
            staged=True,
        ),
        AgentTool(
            "validate",
            "Runs the compiled program on the emulator and compares it with the model's reference kernels, layer by "
            "layer, on synthetic samples or yours.",
            ("validate",),
            _verb(_COMMANDS["validate"], (*_COMPILED, ValidateOptions), _NOT_FOR_AGENTS),
            (
                ToolPath("model", INPUT, "model, or folder of a build", required=True),
                ToolPath("input", FILE, "samples, .npz, .npy or .csv", "--input"),
            ),
        ),
        AgentTool(
            "board_try",
            "Self-test and probes as Arm firmware on the virtual STM32N6 board: checks tools and firmware, proves "
            "nothing about silicon.",
            ("board", "try", "--virtual"),
            _verb(_TRY, (Options,)),
            (ToolPath("output", OUTPUT_FOLDER, "default board_try", "--output", default="board_try"),),
            writes=True,
        ),
    )
}


def input_schema(tool: AgentTool) -> dict[str, Any]:
    places = {one.name: {"type": "string", "description": one.help} for one in (*tool.paths, _DOCUMENT)}
    return {
        "type": "object",
        "properties": {**places, OPTIONS: form.options_schema(tool.verb)},
        "required": [one.name for one in tool.paths if one.required],
        "additionalProperties": False,
    }


def command_line(tool: AgentTool, arguments: Mapping[str, Any], sandbox: Sandbox) -> list[str]:
    """The words that the verb is called with, behind `atonc`; refuses what leads out of the folder."""
    options = arguments.get(OPTIONS, {})
    if not isinstance(options, dict):
        raise InputError(f"{str(options)[:60]!r} is no object", where=OPTIONS, remedy='write {"prefer": "memory"}')
    for name in arguments:
        known = [one.name for one in tool.paths] + [OPTIONS, DOCUMENT]
        if name not in known:
            others = f"the arguments are {', '.join(known)}; what the command line has as --{name[:40]} is in options"
            raise InputError(f"{tool.name} has no argument {name[:60]!r}", remedy=did_you_mean(name, known, others))
    document_place(arguments, sandbox)
    sandbox.path(BUILD_FOLDER, OUTPUT_FOLDER, "the usual folder of a build")  # which some verbs look into by themselves
    return [*tool.words, *_places(tool, arguments, sandbox), *form.words(tool.verb, options), "--json"]


def _places(tool: AgentTool, arguments: Mapping[str, Any], sandbox: Sandbox) -> Iterator[str]:
    for one in tool.paths:
        given = arguments.get(one.name, one.default or None)
        if given is not None:
            text = sandbox.path(given, one.kind, one.name)
            yield f"{one.flag}={text}" if one.flag else text
        elif one.required:
            raise InputError(f"{one.name} is missing", where=tool.name, remedy=f"name it: {one.help}")


def document_place(arguments: Mapping[str, Any], sandbox: Sandbox) -> str:
    """Where the whole document is wanted, too; empty if nowhere."""
    if DOCUMENT not in arguments:
        return ""
    place = sandbox.path(arguments[DOCUMENT], OUTPUT_FILE, DOCUMENT)
    if not place.endswith(".json"):
        raise InputError("is no name of a document", where=f"{DOCUMENT} {place!r}", remedy="let it end in .json")
    return place
