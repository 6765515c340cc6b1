"""The options of a verb that a visitor may set: shown with their help, checked by the command line itself.

They are those that the verb declares, without the `local` ones: options that name files of the machine, or that change
what the server writes and where. Where the command line takes more than a visitor may say (a function of the user's),
the declaration has what is offered.
"""

from __future__ import annotations

import argparse
import functools
import math
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from atonc.compiler.emit.write import check_name
from atonc.compiler.request.options import Options
from atonc.doors.verbs import explain, generate, quantize
from atonc.doors.verbs.compiling import ModelOptions, compiler_options
from atonc.doors.verbs.parser import Command, Parser, declared_values
from atonc.insight.evaluating.options import EvaluateOptions
from atonc.insight.quantizing.types import QuantizeOptions
from atonc.machine.base.declare import PAIRS, Option, declared, did_you_mean
from atonc.machine.base.errors import AtoncError, InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.board import board_names, find_board

# the command line also takes files, and names of boards for which it can only tell why not
_CHOICES = {"board": tuple(name for name in board_names() if find_board(name).has_npu)}
LONG_VALUE = 2000
_KINDS: dict[str, dict[str, Any]] = {"switch": {"type": "boolean"}, "text": {"type": ["string", "number"]}}
GENERATE, EXPLAIN, EVALUATE, QUANTIZE = "generate", "explain", "evaluate", "quantize"


@dataclass(frozen=True)
class ServedVerb:
    """What visitors may ask for."""

    does: str  # what its button says
    command: Command
    declared: tuple[type[Any], ...]
    check: Callable[[argparse.Namespace], object]  # refuses what the verb would refuse before it begins
    samples: str  # what it does with samples, for who sends some
    needs: tuple[str, ...] = ()  # it needs one file of samples, which ends so
    words: tuple[str, ...] = ()  # behind the model, where those are
    without: tuple[str, ...] = ()  # options that say nothing about what visitors can send


Asked = str | ServedVerb  # a verb of the service by its name, or one that another door offers


def _check_compiling(found: argparse.Namespace) -> None:
    compiler_options(found, getattr(found, "verify", False))
    check_name(found.name)


def _check_evaluate(found: argparse.Namespace) -> None:
    _check_compiling(found)
    declared_values(EvaluateOptions, found)


def _check_quantize(found: argparse.Namespace) -> None:
    declared_values(QuantizeOptions, found)


_COMMANDS = {one.name: one for file in (generate, explain, quantize) for one in file.COMMANDS}
_PICTURES = ("resize", "normalise", "colours", "decoder")
VERBS = {
    GENERATE: ServedVerb(
        "Compile", _COMMANDS[GENERATE], generate.DECLARED, _check_compiling,
        "Samples, if you have some: .npz, .npy or .csv; the program is compared with the reference on them",
    ),
    EXPLAIN: ServedVerb(
        "Explain", _COMMANDS[EXPLAIN], explain.DECLARED, _check_compiling,
        "Samples, if you have some: .npz, .npy or .csv; where accuracy is lost is measured on them",
        words=("--accuracy", "--input=SAMPLES"),
    ),
    EVALUATE: ServedVerb(
        "Evaluate", _COMMANDS[EVALUATE], (ModelOptions, Options, EvaluateOptions), _check_evaluate,
        "Samples to judge by: one .npz with the inputs by name, samples first, and labels; or a .csv",
        (".npz", ".csv"), ("--data=SAMPLES",), _PICTURES,
    ),
    QUANTIZE: ServedVerb(
        "Quantise", _COMMANDS[QUANTIZE], (QuantizeOptions,), _check_quantize,
        "Samples to calibrate with: one .npz with the inputs by name, samples first",
        (".npz",), ("--data=SAMPLES.npz",),
    ),
}  # fmt: skip


def schema(verb: Asked = GENERATE) -> list[dict[str, Any]]:
    """Describes the options for the form and for the description of the interface."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for name, known in _allowed(verb).items():
        title = known.group.split(":")[0].capitalize()
        groups.setdefault(title, []).append(_described(verb, name, known))
    return [{"group": title, "options": found} for title, found in groups.items()]


def options_schema(verb: Asked = GENERATE) -> dict[str, Any]:
    """The same as a JSON schema."""
    properties: dict[str, Any] = {}
    for group in schema(verb):
        for option in group["options"]:
            properties[option["name"]] = {**_kind(option), "description": option["help"]}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _kind(option: dict[str, Any]) -> dict[str, Any]:
    if option["kind"] == "choice":
        return {"type": "string", "enum": option["choices"]}
    if option["kind"] == "pairs":
        return {"type": "array", "items": {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}}
    return {"type": ["string", "number", "boolean"]} if option["bare"] else dict(_KINDS[option["kind"]])


def parsed(options: Mapping[str, Any], verb: str = GENERATE) -> argparse.Namespace:
    """Parses options as if they stood on the command line; errors are the command line's."""
    files = VERBS[verb].words if VERBS[verb].needs else ()
    found: argparse.Namespace = _parser(verb).parse_args([verb, "MODEL", *files, *words(verb, options)])
    return found


def check(options: Mapping[str, Any], verb: str) -> None:
    """Refuses what the verb would refuse before it begins; says of which option, where that one alone is wrong, too."""
    try:
        _check(options, verb)
    except AtoncError as error:
        alone = (name for name, value in options.items() if _complaint({name: value}, verb) == error.what)
        name = next(alone, "")
        error.where = f"--{name}" if name else error.where
        raise


def _complaint(options: Mapping[str, Any], verb: str) -> str:
    try:
        _check(options, verb)
    except AtoncError as error:
        return error.what
    return ""


def _check(options: Mapping[str, Any], verb: str) -> None:
    VERBS[verb].check(parsed(options, verb))


def field(where: str) -> dict[str, str]:
    """The option that an error is about, by its name in the form: `--on`, or `model.onnx, --on`."""
    flag = where.rpartition(", ")[2]
    name = flag.removeprefix("--")
    return {"field": name} if flag.startswith("--") and any(name in _allowed(verb) for verb in VERBS) else {}


def command(title: str, options: Mapping[str, Any], verb: str = GENERATE, samples: bool = False) -> str:
    files = VERBS[verb].words if samples else ()
    return shlex.join(["atonc", verb, title, *files, *words(verb, options)])


def words(verb: Asked, options: Mapping[str, Any]) -> Iterator[str]:
    """A value is joined to its option, so that it cannot become one itself."""
    for name, value in options.items():
        known = _allowed(verb).get(name)
        if known is None:
            what = f"there is no option {name[:60]!r}"
            if name in _actions(verb):
                rule = f"--{name} is one of the command line alone, as all that say what is written and where"
                raise InputError(what, rule=rule, remedy="leave it out, or call atonc in a shell")
            rule = f"it is none of the {len(_allowed(verb))} options that the schema and the form name"
            raise InputError(what, rule=rule, remedy=did_you_mean(name, _allowed(verb), "leave it out"))
        flag = f"--{name}"
        if known.many == PAIRS:
            yield from _pairs(flag, known, value)
        elif known.bare is not None and value is True:
            yield flag
        elif _actions(verb)[name].nargs == 0:
            if not isinstance(value, bool):
                raise InputError(f"{_shown(value)} is not true or false")
            if value:
                yield flag
        else:
            yield f"{flag}={_text(name, known, value)}"


def _text(name: str, known: Option, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InputError(f"{_shown(value)} is neither text nor a number")
    choices = _choices(name, known)
    if choices and str(value) not in choices:
        raise InputError(f"{_shown(value)} is not offered", rule=f"one of {', '.join(choices)}")
    if len(str(value)) > LONG_VALUE:
        raise InputError(f"{len(str(value)):,} characters are more than {LONG_VALUE:,}")
    if known.parse in (int, float) and not _is_number(value):  # the others say themselves what is wrong
        raise InputError(f"{_shown(value)} is not a number")
    return str(value)


def _is_number(value: str | int | float) -> bool:
    try:
        return math.isfinite(float(value))
    except ValueError:
        return False


def _choices(name: str, known: Option) -> tuple[str, ...]:
    return _CHOICES.get(name, known.offered or known.choices)


def _pairs(flag: str, known: Option, value: Any) -> Iterator[str]:
    pairs = value if isinstance(value, list) else [value]
    for pair in pairs:
        sound = isinstance(pair, list) and len(pair) == 2 and pair[0] in _places(known)
        if not sound or not isinstance(pair[1], str) or pair[1].startswith("-") or not 0 < len(pair[1]) <= LONG_VALUE:
            raise InputError(f"{_shown(value)} is no list of pairs", remedy='give [["cpu", "NODE"], ...]')
        yield from (flag, pair[0], pair[1])


def _places(known: Option) -> list[str]:
    """The first words of pairs."""
    return known.metavar.split()[0].split("|") if known.many == PAIRS else []


def _shown(value: Any) -> str:
    return repr(value)[:60]


def _served(verb: Asked) -> ServedVerb:
    return verb if isinstance(verb, ServedVerb) else VERBS[verb]


@functools.cache
def _parser(verb: Asked) -> argparse.ArgumentParser:
    found: argparse.ArgumentParser = Parser(prog="atonc")
    _served(verb).command.add(found.add_subparsers(required=True, metavar="VERB"))
    return found


@functools.cache
def _actions(verb: Asked) -> dict[str, argparse.Action]:
    verbs = next(a for a in _parser(verb)._actions if isinstance(a, argparse._SubParsersAction))
    known = verbs.choices[_served(verb).command.name]._option_string_actions
    return {flag.removeprefix("--"): action for flag, action in known.items()}


@functools.cache
def _allowed(verb: Asked) -> dict[str, Option]:
    asked = _served(verb)
    members = [pair for kind in asked.declared for pair in declared(kind)]
    found = (known for member, known in members if not known.local and member.name not in asked.without)
    named = {next(flag for flag in known.flags if flag.startswith("--"))[2:]: known for known in found}
    return {name: known for name, known in named.items() if name in _actions(verb)}  # it may leave some out


def _described(verb: Asked, name: str, known: Option) -> dict[str, Any]:
    action = _actions(verb)[name]
    choices = _choices(name, known) or tuple(_places(known))
    kind = "pairs" if known.many == PAIRS else "switch" if action.nargs == 0 else "choice" if choices else "text"
    default = action.default if isinstance(action.default, str | int | float | bool) else None
    return {
        "name": name,
        "kind": kind,
        "choices": list(choices),
        "default": None if kind == "switch" else default or None,
        "bare": known.bare is not None,  # it may be given without a value: true
        "hint": "" if kind == "pairs" else known.metavar,
        "help": known.help,
    }
