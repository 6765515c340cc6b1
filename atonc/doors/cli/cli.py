"""The command line: parse, call, print. The verbs are in `atonc/doors/verbs`."""

from __future__ import annotations

import argparse
import gc
import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from atonc.doors.cli import st_name
from atonc.doors.verbs import ci
from atonc.doors.verbs.common import MODELS, note, without_levels
from atonc.doors.verbs.documents import print_document
from atonc.doors.verbs.examples import add_examples
from atonc.doors.verbs.parser import Parser, add_full_help
from atonc.doors.verbs.st_release import StRelease
from atonc.insight.report.terminal import on_terminal, plain_streams, show
from atonc.machine.base.about import SENTENCE, __version__
from atonc.machine.base.declare import did_you_mean
from atonc.machine.base.errors import AtoncError, InputError, InternalError

# one line for every file of verbs, with the verbs that it adds; their order is that of the help. Only what is asked for
# is loaded: all options of all verbs were a twelfth of the time of a small model.
FILES = {
    "verbs.generate": ("generate", "compile"),
    "verbs.analyze": ("analyze",),
    "verbs.quantize": ("quantize",),
    "verbs.explain": ("explain",),
    "verbs.ops": ("ops", "supported-ops"),
    "verbs.validate": ("validate",),
    "verbs.evaluate": ("evaluate",),
    "verbs.run": ("run",),
    "verbs.compare": ("compare",),
    "verbs.sweep": ("sweep",),
    "verbs.view": ("view",),
    "cli.serve": ("serve",),
    "verbs.disasm": ("disasm", "asm"),
    "verbs.probe": ("probe",),
    "verbs.reloc": ("reloc",),
    "verbs.load_and_run": ("load-and-run",),
    "verbs.recordings": ("recordings",),
    "verbs.deploy": ("deploy",),
    "verbs.app": ("app",),
    "verbs.board": ("board",),
    "verbs.stedgeai": ("stedgeai",),
    "verbs.doctor": ("doctor",),
    "verbs.completion": ("completion",),
}
VERBS = tuple(verb for verbs in FILES.values() for verb in verbs)
_OF_ALL = ("completion",)  # they look at every verb
TRACEBACK = "ATONC_TRACEBACK"
OBJECTS_BETWEEN_COLLECTIONS = 500_000


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
        options = parse(words, st_name.release_for(program))
        silent = getattr(options, "quiet", False) or "--quiet" in words
        with _few_collections(), on_terminal(silent=silent):
            return int(options.verb(options))
    except AtoncError as error:
        return _refused(error, words, options)
    except (MemoryError, RecursionError) as error:
        what = "runs out of memory" if isinstance(error, MemoryError) else "is nested too deeply"
        return _refused(InputError(f"the input {what}", remedy="give a smaller or simpler one"), words, options)
    except KeyboardInterrupt:
        print("atonc: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of a pipe had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # of a folder that cannot be listed, a name that is too long, a full disk
        return _refused(InputError(error.strerror or str(error), where=str(error.filename or "")), words, options)
    except Exception as error:
        return _refused(_mistake(error), words, options)


def _refused(error: AtoncError, words: Sequence[str], options: argparse.Namespace | None) -> int:
    """One paragraph, and an object for tools."""
    show((f"atonc: {error}", *error.details), sys.stderr)
    if "--json" in words:
        print_document("error", {"error": error.as_dict()})
    ci.report_error(options, error)
    return error.exit_code


def _mistake(error: Exception) -> InternalError:
    """What a traceback would say, in one paragraph."""
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


@contextmanager
def _few_collections() -> Iterator[None]:
    """Looking for cycles among the many small objects of a program took 6 % of a compilation."""
    before = gc.get_threshold()
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


@cache
def parser(only: str = "") -> argparse.ArgumentParser:
    """The whole command line, or that of one verb."""
    found = Parser(prog="atonc", description=f"{SENTENCE}\nWithout a verb: analyze.")
    found.add_argument("--version", action="version", version=f"atonc {__version__}")
    found.add_argument("--tools-version", action=_ToolsVersion, nargs=0, help="versions of everything that takes part")
    verbs = found.add_subparsers(required=True, metavar="VERB", title="verbs")
    for file, names in FILES.items():
        if not only or only in names:
            import_module(f"atonc.doors.{file}").add(verbs)
    if not only:
        verbs.choices["completion"].set_defaults(root=found)
    add_examples(found)
    add_full_help(found)
    return found


class _ToolsVersion(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from atonc.insight.report.about_text import version_lines

        print("\n".join(version_lines()))
        parser.exit()


def parse(words: Sequence[str], st: StRelease | None = None) -> argparse.Namespace:
    """The options; a wrong verb or option gets the nearest name. `st`: it was called by the name of ST's tool."""
    words = without_levels(_with_verb(words, VERBS))
    meant = st_name.Meant(tuple(words)) if st is None else _as_st(words, st)
    words = meant.words
    asked = parser(words[0] if words[0] in (*VERBS, "--version") and words[0] not in _OF_ALL else "")
    verbs = verbs_of(asked)
    options, unknown = asked.parse_known_args(words)
    options.st = meant.call
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


def _as_st(words: Sequence[str], release: StRelease) -> st_name.Meant:
    """The first line of every output says who answers; a script that wants JSON on standard output gets only that."""
    print(release.banner, file=sys.stderr if "--json" in words else sys.stdout)
    if words[0] in ("--version", "--tools-version"):
        print("\n".join(release.version_lines[1:]))
        if words[0] == "--version":
            raise SystemExit(0)
    return st_name.meant(words, release)


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
