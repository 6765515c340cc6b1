"""The command line: parse, call, print. The verbs are in `atonc/verbs`."""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import atonc
from atonc.errors import AtoncError, InputError, InternalError
from atonc.report.terminal import plain_streams
from atonc.verbs import (
    board,
    compare,
    deploy,
    disasm,
    explain,
    generate,
    load_and_run,
    ops,
    probe,
    reloc,
    run,
    validate,
    view,
)
from atonc.verbs.common import without_levels

TRACEBACK = "ATONC_TRACEBACK"
OBJECTS_BETWEEN_COLLECTIONS = 50_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    words = without_levels(sys.argv[1:] if arguments is None else arguments)
    with plain_streams(), warnings.catch_warnings():
        if not sys.warnoptions:
            warnings.simplefilter("ignore")  # they are for who writes the code, not for who runs it
        return _run(words)


def _run(words: Sequence[str]) -> int:
    try:
        options = parser().parse_args(words)
        with _few_collections():
            return int(options.verb(options))
    except AtoncError as error:
        return _refused(error, words)
    except (MemoryError, RecursionError) as error:
        what = "runs out of memory" if isinstance(error, MemoryError) else "is nested too deeply"
        return _refused(InputError(f"the input {what}", remedy="give a smaller or simpler one"), words)
    except KeyboardInterrupt:
        print("atonc: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of a pipe had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # of a folder that cannot be listed, a name that is too long, a full disk
        return _refused(InputError(error.strerror or str(error), where=str(error.filename or "")), words)
    except Exception as error:
        return _refused(_mistake(error), words)


def _refused(error: AtoncError, words: Sequence[str]) -> int:
    """One paragraph, and an object for tools."""
    print("\n".join((f"atonc: {error}", *error.details)), file=sys.stderr)
    if "--json" in words:
        print(json.dumps({"error": error.as_dict()}, indent=1))
    return error.exit_code


def _mistake(error: Exception) -> InternalError:
    """What a traceback would say, in one paragraph."""
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


class _Parser(argparse.ArgumentParser):
    """Errors as one paragraph, like all others."""

    def error(self, message: str) -> NoReturn:
        raise InputError(message, remedy=f"see {self.prog} --help")


def parser() -> argparse.ArgumentParser:
    found = _Parser(prog="atonc", description=atonc.__doc__)
    found.add_argument("--version", action="version", version=f"atonc {atonc.__version__}")
    verbs = found.add_subparsers(required=True, metavar="VERB")
    looks = (generate, explain, ops, validate, run, compare, view, disasm)
    for verb in (*looks, probe, reloc, load_and_run, deploy, board):
        verb.add(verbs)
    return found


if __name__ == "__main__":
    sys.exit(main())
