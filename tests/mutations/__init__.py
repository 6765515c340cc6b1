"""Damaged files of every kind, each made from a seed and a number, and what a user would do with them.

`attempt` does it in this process: an `AtoncError` is a good answer, and so is to work; everything else is a mistake of
ours. The tests try a few hundred, `benchmarks/mutations.py` as many as one likes.
"""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from atonc.machine.base.errors import AtoncError, ToolError
from tests.mutations import arrays, models, networks, pictures, pools, programs
from tests.patience import HangsError, no_hang

SECONDS = 60.0  # of the processor, for one file: what takes longer hangs
OUT_OF_MEMORY = ("out of memory", "Unable to allocate", "MemoryError")  # somebody asked for more than the limit

Attempt = Callable[[random.Random, int, Path], None]
KINDS: dict[str, Attempt] = {
    "tflite": models.try_tflite,
    "onnx": models.try_onnx,
    "mpool": pools.try_pools,
    "network": networks.try_network,
    "arrays": arrays.try_arrays,
    "pictures": pictures.try_picture,
    "programs": programs.try_program,
}


@dataclass(frozen=True)
class Outcome:
    kind: str
    seed: int
    number: int
    refused: bool
    seconds: float = 0.0  # of the processor, where somebody measures (`benchmarks/mutations.py`)
    problem: str = ""  # empty: as it should be
    said: str = ""  # where it was refused

    def __str__(self) -> str:
        return f"{self.kind} --seed {self.seed} --first {self.number}: {self.problem}"


def attempt(kind: str, seed: int, number: int, work: Path) -> Outcome:
    """Nothing but the kind, the seed and the number decides what is tried."""
    refused, problem, said = False, "", ""
    try:
        with no_hang(SECONDS):
            KINDS[kind](random.Random(f"{kind} {seed} {number}"), number, work)
    except HangsError as error:
        problem = f"hangs: {error}"
    except ToolError as error:  # nothing lacks here: a program against our own rules, or the like
        problem = f"a mistake of ours: {error}"
    except AtoncError as error:
        refused, problem, said = True, _bad_words(str(error)), error.what
    except Exception as error:
        frames = [f"{f.filename.rpartition('/')[2]}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)]
        problem = f"{type(error).__name__}: {str(error)[:160]} at {' < '.join(frames[:-6:-1])}"
    return Outcome(kind, seed, number, refused, problem=problem, said=said)


def _bad_words(said: str) -> str:
    if any(words in said for words in OUT_OF_MEMORY):
        return f"memory: {said[:200]}"
    if not said.replace("\n", " ").isprintable() or not said or len(said) > 4000:
        return f"not an error that can be read: {said[:200]!r}"
    return ""
