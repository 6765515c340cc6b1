"""The command line: parse, call, print. The verbs are in `atonc/doors/verbs`."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from atonc.doors.verbs import stedgeai
from atonc.doors.verbs.compiling import MODELS
from atonc.doors.verbs.parser import Command, Parser, add_full_help, examples_text
from atonc.doors.verbs.reply import give, note, print_document, report_error, show_error
from atonc.doors.verbs.stedgeai import StRelease
from atonc.insight.report.terminal import on_terminal, plain_streams
from atonc.machine.base.about import SENTENCE, __version__
from atonc.machine.base.collecting import few_collections
from atonc.machine.base.declare import did_you_mean
from atonc.machine.base.errors import AtoncError, InputError, InternalError, interrupted

# every verb with the file of its command, in the order of the help. Only what is asked for is loaded: all options of
# all verbs were a twelfth of the time of a small model.
FILES = {
    "generate": "verbs.generate",
    "compile": "verbs.generate",
    "analyze": "verbs.generate",
    "quantize": "verbs.quantize",
    "explain": "verbs.explain",
    "ops": "verbs.explain",
    "supported-ops": "verbs.explain",
    "validate": "verbs.validate",
    "evaluate": "verbs.quantize",
    "run": "verbs.run",
    "compare": "verbs.compare",
    "estimate": "verbs.quantize",
    "sweep": "verbs.quantize",
    "yolo": "verbs.yolo",
    "view": "verbs.run",
    "serve": "serve.command",
    "mcp": "agents.command",
    "disasm": "verbs.run",
    "asm": "verbs.run",
    "probe": "verbs.probe",
    "reloc": "verbs.reloc",
    "load-and-run": "verbs.reloc",
    "recordings": "verbs.probe",
    "deploy": "verbs.deploy",
    "app": "verbs.deploy",
    "board": "verbs.board",
    "stedgeai": "verbs.stedgeai",
    "doctor": "verbs.doctor",
    "completion": "verbs.doctor",
}
VERBS = tuple(FILES)
_EXAMPLES = (
    "atonc generate model.tflite  # C files, images, reports into st_ai_output",
    "atonc -m model.onnx --target stm32n6 --st-neural-art  # no verb: analyze",
    "atonc VERB --help  # all options of a verb",
)
_OF_ALL = ("completion",)  # they look at every verb
TRACEBACK = "ATONC_TRACEBACK"


def main(arguments: Sequence[str] | None = None, program: str = "atonc") -> int:
    """Entry point; returns the exit code. `program`: the name that it was called by."""
    words, program = (sys.argv[1:], sys.argv[0]) if arguments is None else (arguments, program)
    with plain_streams(), warnings.catch_warnings():
        if not sys.warnoptions:
            warnings.simplefilter("ignore")  # they are for who writes the code, not for who runs it
        return _run(words, program)


def _run(words: Sequence[str], program: str) -> int:
    options: argparse.Namespace | None = None
    try:
        options = parse(words, stedgeai.release_for(program))
        silent = getattr(options, "quiet", False) or "--quiet" in words
        with few_collections(), on_terminal(silent=silent):
            return int(give(options.run(options), options))
    except AtoncError as error:
        return _refused(error, words, options)
    except (MemoryError, RecursionError) as error:
        what = "runs out of memory" if isinstance(error, MemoryError) else "is nested too deeply"
        return _refused(InputError(f"the input {what}", remedy="give a smaller or simpler one"), words, options)
    except KeyboardInterrupt:
        print("atonc: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of a pipe had enough
        _nobody_reads()
        return 0
    except OSError as error:  # of a folder that cannot be listed, a name that is too long, a full disk
        return _refused(InputError(error.strerror or str(error), where=str(error.filename or "")), words, options)
    except Exception as error:
        if interrupted(error):
            raise KeyboardInterrupt from error
        return _refused(_mistake(error), words, options)


def _nobody_reads() -> None:
    """What is still to be written goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refused(error: AtoncError, words: Sequence[str], options: argparse.Namespace | None) -> int:
    """The lines of the error, and an object for tools."""
    error.remedy = error.fix or f"see atonc {words[0] if words and words[0] in VERBS else 'VERB'} --help"
    show_error(error)
    if "--json" in words:
        try:
            print_document("error", {"error": error.as_dict()})
            sys.stdout.flush()
        except BrokenPipeError:
            _nobody_reads()
    report_error(options, error)
    return error.exit_code


def _mistake(error: Exception) -> InternalError:
    """What a traceback would say, as an error."""
    import traceback

    if os.environ.get(TRACEBACK):
        traceback.print_exception(error)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "atonc" in f.filename]
    where = f"{Path(frames[-1].filename).name} line {frames[-1].lineno}" if frames else ""
    return InternalError(
        f"atonc itself failed: {type(error).__name__}: {str(error)[:300]}",
        where=where,
        remedy=f"report it together with the input; {TRACEBACK}=1 in the environment shows the way to it",
    )


@cache
def parser(only: str = "") -> argparse.ArgumentParser:
    """The whole command line, or that of one verb."""
    found = Parser(prog="atonc", description=f"{SENTENCE}\nWithout a verb: analyze.")
    found.add_argument("--version", action="version", version=f"atonc {__version__}")
    found.add_argument("--tools-version", action=_ToolsVersion, nargs=0, help="versions of everything that takes part")
    found.epilog = examples_text(_EXAMPLES)
    verbs = found.add_subparsers(required=True, metavar="VERB", title="verbs")
    for command in commands(only):
        stedgeai.add_foreign(command.add(verbs), command.name)
    if not only:
        verbs.choices["completion"].set_defaults(root=found)
    add_full_help(found)
    return found


def commands(only: str = "") -> Iterator[Command]:
    """All commands in the order of the help, or the one that has this name."""
    for name, file in FILES.items():
        if not only or file == FILES.get(only):
            for command in import_module(f"atonc.doors.{file}").COMMANDS:
                if command.name == name and (not only or only in (name, *command.aliases)):
                    yield command


class _ToolsVersion(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from atonc.insight.report.about_text import version_lines

        print("\n".join(version_lines()))
        parser.exit()


def parse(words: Sequence[str], st: StRelease | None = None) -> argparse.Namespace:
    """The options; a wrong verb or option gets the nearest name. `st`: it was called by the name of ST's tool."""
    words = stedgeai.without_levels(_with_verb(words, VERBS))
    meant = stedgeai.Meant(tuple(words)) if st is None else stedgeai.as_st(words, st)
    words = meant.words
    asked = parser(words[0] if words[0] in (*VERBS, "--version") and words[0] not in _OF_ALL else "")
    verbs = verbs_of(asked)
    options, unknown = asked.parse_known_args(words)
    options.st, options.words = meant.call, tuple(words)
    wrong = next((word for word in unknown if word.startswith("-")), "")
    if unknown:
        known = [name for verb in _path(words, verbs) for name in verb._option_string_actions]
        raise InputError(
            f"{words[0]} has no option {wrong.partition('=')[0]}" if wrong else f"{unknown[0]!r} is one word too many",
            remedy=did_you_mean(wrong.partition("=")[0], known, f"see atonc {words[0]} --help"),
        )
    for line in (*meant.notes, *getattr(options, "no_effect", [])):
        note(line, options)
    return options


def verbs_of(found: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Lists the verbs of a parser by name, aliases included; empty where it has none."""
    actions = [action for action in found._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(actions[0].choices) if actions else {}


def _path(words: Sequence[str], verbs: dict[str, argparse.ArgumentParser]) -> Iterator[argparse.ArgumentParser]:
    """The parser of the verb, and of the verb behind it."""
    for word in words:
        if word in verbs:
            yield verbs[word]
            verbs = verbs_of(verbs[word])


def _with_verb(words: Sequence[str], verbs: Iterable[str]) -> list[str]:
    """Adds the verb where none is given: as in ST's tool, that means analyze."""
    first = words[0] if words else "--help"
    if first in verbs or first in ("-h", "--help", "--version", "--tools-version"):
        return [*words] or [first]
    if first.startswith("-") or first.lower().endswith(MODELS):
        return ["analyze", *words]
    raise InputError(
        f"there is no verb {first[:60]!r}", remedy=did_you_mean(first, verbs, f"the verbs are {', '.join(verbs)}")
    )


if __name__ == "__main__":
    sys.exit(main())
