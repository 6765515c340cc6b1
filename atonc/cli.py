"""The command line: parse, call, print. The verbs are in `atonc/verbs`."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

import atonc
from atonc.errors import AtoncError
from atonc.verbs import compare, disasm, explain, generate, ops, probe, run, validate, view
from atonc.verbs.common import without_levels

OBJECTS_BETWEEN_COLLECTIONS = 50_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    options = parser().parse_args(without_levels(sys.argv[1:] if arguments is None else arguments))
    try:
        with _few_collections():
            return int(options.verb(options))
    except AtoncError as error:
        print(f"atonc: {error}", file=sys.stderr)
        return error.exit_code
    except (MemoryError, RecursionError) as error:
        what = "runs out of memory" if isinstance(error, MemoryError) else "is nested too deeply"
        print(f"atonc: the input {what}. What to do: give a smaller or simpler one.", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("atonc: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of a pipe had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


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
        print(f"atonc: {message}. What to do: see {self.prog} --help.", file=sys.stderr)
        sys.exit(2)


def parser() -> argparse.ArgumentParser:
    found = _Parser(prog="atonc", description=atonc.__doc__)
    found.add_argument("--version", action="version", version=f"atonc {atonc.__version__}")
    verbs = found.add_subparsers(required=True, metavar="VERB")
    for verb in (generate, explain, ops, validate, run, compare, view, disasm, probe):
        verb.add(verbs)
    return found


if __name__ == "__main__":
    sys.exit(main())
