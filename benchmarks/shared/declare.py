"""What a benchmark declares and gives back. Arguments that several of them take stand here, once."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PLACE = re.compile(r"(^|=)[/.~]\S*/")  # the folders of a path


@dataclass(frozen=True)
class Argument:
    flag: str
    settings: Mapping[str, Any]

    @property
    def attribute(self) -> str:
        return self.flag.lstrip("-").replace("-", "_")

    def but(self, **settings: Any) -> Argument:
        """The same with other settings of argparse: a default, a choice."""
        return Argument(self.flag, {**self.settings, **settings})

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(self.flag, **self.settings)

    def spelled(self, value: Any) -> str:
        """As somebody would give it; folders and files by their placeholder, since a page names no machine's paths."""
        if value == self.settings.get("default", False if self.settings.get("action") else None):
            return ""
        if value is True:
            return self.flag
        values = value if isinstance(value, list | tuple) else [value]
        said = self.settings.get("metavar") or self.attribute.upper()
        place = self.settings.get("type") is Path
        words = [said if place else _PLACE.sub(r"\1", str(one)) for one in values]
        return " ".join([self.flag, *words] if self.flag.startswith("-") else words)


def argument(flag: str, **settings: Any) -> Argument:
    return Argument(flag, settings)


@dataclass(frozen=True)
class Report:
    """What a benchmark found: a page in Markdown from its title on, whether it missed its goal, figures for others."""

    page: str = ""
    failed: bool = False
    data: Any = None  # written beside the page as JSON


WRITE = argument("--write", action="store_true", help="keep the page, with date, commit and machine, in results")
ONLY = argument("--only", nargs="+", default=(), metavar="TEXT", help="only those whose name contains one of these")
FRESH = argument("--fresh", action="store_true", help="measure again what is kept already")
FEW = argument("--few", action="store_true", help="a varied handful of models instead of all")
SHARD = argument("--shard", default="0/1", metavar="K/N", help="every N-th model from the K-th on, from 0")
KEEP = argument(
    "--keep", type=Path, metavar="FILE", help="records are kept here as they come, and a stopped run goes on from them"
)
BEFORE = argument("--before", type=Path, metavar="FILE", help="records of an earlier run to compare with")
SECONDS = argument("--seconds", type=float, default=float("inf"), help="begin nothing after so many")
SEED = argument("--seed", type=int, default=1)
LIMIT = argument("--limit", type=float, help="seconds for one model")
COUNT = argument("--count", type=int, metavar="N", help="so many")
FIRST = argument("--first", type=int, default=0, metavar="NUMBER", help="from this one on")
SAMPLES = argument("--samples", type=int, metavar="N", help="so many for each model")
INPUTS = argument("--inputs", type=int, metavar="N", help="so many for each model")
RANDOM = argument("--random", type=int, default=0, metavar="N", help="also so many random networks")
SAVE = argument("--save", type=Path, metavar="FILE", help="what was found, for a later run to compare with")
WORK = argument("--work", type=Path, metavar="DIR", help="where to build and to keep what was found")
FLOATS = argument("--floats", type=Path, metavar="DIR", help="measure the float models that lie there, with samples")
ONE_MODEL = argument("--model", metavar="FILE", help="another one: a path, or a name in the corpus")
JOBS = argument("--jobs", type=int, default=1, help="so many at the same time")
MODEL_FILES = argument("--models", nargs="+", default=(), metavar="FILE", help="these: a path, or a name in the corpus")
FOLDERS = argument("folders", nargs="+", type=Path, metavar="FOLDER", help="folders with .tflite and .onnx files")
FETCHED = argument(
    "--fetched", nargs="+", type=Path, required=True, metavar="DIR", help="copies of public repositories, OWNER+NAME"
)
ONE_FETCHED = FETCHED.but(nargs=None)
PYTHON = argument("--python", type=Path, metavar="PROGRAM", help="an interpreter for ST's scripts")
IMAGES = argument("--images", nargs="+", type=Path, required=True, metavar="FILE", help="photos as inputs")


def hidden(flag: str, **settings: Any) -> Argument:
    """Declares an argument of a benchmark for its own child processes."""
    return argument(flag, help=argparse.SUPPRESS, **settings)
