"""Options that are lists: a flag once for every value, or all values behind one flag; both become tuples."""

from __future__ import annotations

import argparse
from pathlib import Path

from atonc.doors.verbs.parser import add_declared, declared_values
from atonc.insight.runs.run_options import RunOptions
from atonc.insight.validating.validate_options import ValidateOptions


def parsed(kind: type, line: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_declared(parser, kind)
    return parser.parse_args(line.split())


def test_a_flag_once_for_every_value() -> None:
    given = parsed(RunOptions, "--input a.npy --weights w.raw --input b.npy --no-check")
    found = declared_values(RunOptions, given, directory=Path("build"))
    assert found == RunOptions(
        Path("build"), inputs=(Path("a.npy"), Path("b.npy")), weights=(Path("w.raw"),), check=False
    )


def test_all_values_behind_one_flag() -> None:
    found = declared_values(ValidateOptions, parsed(ValidateOptions, "--range 0 0.5 -vi a.npz b.npz -b 3"))
    assert found == ValidateOptions(range=(0.0, 0.5), valinput=(Path("a.npz"), Path("b.npz")), batches=3)


def test_lists_that_nobody_gave_are_empty_and_shared_by_nobody() -> None:
    first = parsed(RunOptions, "--weights a.raw")
    assert first.weights == [Path("a.raw")] and parsed(RunOptions, "").weights == []
    assert declared_values(RunOptions, parsed(RunOptions, ""), directory=Path()) == RunOptions(Path())
