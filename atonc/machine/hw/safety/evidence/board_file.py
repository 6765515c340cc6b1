"""The evidence file of one board: `atonc probe read` writes it, `--evidence` reads it.

It may have been edited or come from somebody else: every number and text in it is bounded, a constant must be near to
the one that it replaces. Answers stay in it as read; nothing here follows from them again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError, plain
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw import four_bits, wide_sums
from atonc.machine.hw.four_bits import FourBits
from atonc.machine.hw.machine import implausible
from atonc.machine.hw.safety.evidence.grades import Feature, Value

# ----------------------------------------------------------------------------------------------------------------------
# What one board answered to the probes: forms that ran there as emulated, others, constants that it measured.


@dataclass(frozen=True)
class BoardEvidence:
    confirmed: frozenset[Feature] = frozenset()
    refuted: frozenset[Feature] = frozenset()
    distrusted: frozenset[str] = frozenset()  # arguments that a refuted form disproves
    constants: tuple[tuple[str, float], ...] = ()  # of `[timing]` and `[clocks]`, at the clocks of `stm32n6.toml`
    supported: frozenset[str] = frozenset()  # arguments whose probes all passed; forms by them stay composed
    board: str = ""  # the name of the board
    four_bits: FourBits | None = None  # how engines read kernels of 4 bits, where the board has shown it
    wide_sums: str = ""  # what a CONVACC makes of sums beyond 24 bits, where the board has shown it
    emulated: bool = False  # the virtual board answered: nothing follows about silicon

    def as_dict(self) -> dict[str, Any]:
        """In numbers."""
        return {
            "name": self.board,
            "confirmed_forms": len(self.confirmed),
            "refuted_forms": len(self.refuted),
            "disproved": sorted(self.distrusted),
            "confirmed_arguments": sorted(self.supported),
            "measured": dict(self.constants),
            **({"emulated": True} if self.emulated else {}),
            **({"four_bits": self.four_bits.order} if self.four_bits else {}),
            **({"wide_sums": self.wide_sums} if self.wide_sums else {}),
        }


NO_ANSWERS = BoardEvidence()


FORMAT, VERSION = "atonc board evidence", 1
MAX_BYTES, MAX_BUILD_BYTES = 1 << 23, 1 << 26
_KEY = "evidence"  # in the description of a build
_MOST = 20_000  # features of each kind
_LONG = 4096  # characters of one text
_FARTHEST = 1 << 62  # from zero, of a number
_ARGUMENT = re.compile(r"S\d{1,2}")

T = TypeVar("T")


def read_board_evidence(path: Path) -> BoardEvidence:
    return _parsed(read_file(path, MAX_BYTES), str(path))


@lru_cache(maxsize=4)
def _parsed(data: bytes, where: str) -> BoardEvidence:
    """Always the same object for the same file."""
    try:
        root = json.loads(data)
        _require_format(root, where)
        return evidence_of_row(root)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"not an evidence file: {plain(str(error))[:200]}",
            where=where,
            remedy="write it with `atonc probe read LOG -o FILE`",
        ) from None


def _require_format(root: Any, where: str) -> None:
    if not isinstance(root, dict) or root.get("format") != FORMAT:
        raise ValueError(f"it does not say that it is an {FORMAT!r}")
    if root.get("version") != VERSION:
        raise InputError(
            f"an evidence file of version {str(root.get('version'))[:20]}",
            where=where,
            rule=f"this version of atonc reads version {VERSION}",
            remedy="read the log again with `atonc probe read`",
        )


# ------------------------------------------------------------------------------------------------------ kept by a build


def saved_row(found: BoardEvidence) -> dict[str, Any]:
    """What NAME_program.json keeps: without answers nothing."""
    return {} if found == NO_ANSWERS else {_KEY: evidence_row(found)}


def saved_evidence(path: Path) -> BoardEvidence:
    """Reads the evidence of a build; a file that is damaged or not ours counts as one without answers."""
    try:
        root = json.loads(read_file(path, MAX_BUILD_BYTES))
        row = root.get(_KEY) if isinstance(root, dict) else None
        return evidence_of_row(row) if isinstance(row, dict) else NO_ANSWERS
    except (InputError, ValueError, RecursionError):
        return NO_ANSWERS


# ------------------------------------------------------------------------------------------------- what others rely on


def evidence_row(found: BoardEvidence) -> dict[str, Any]:
    """What `evidence_of_row` reads again; the same for the same evidence."""
    return {
        "board": found.board,
        **({"emulated": True} if found.emulated else {}),
        "confirmed": _feature_rows(found.confirmed),
        "refuted": _feature_rows(found.refuted),
        "distrusted": sorted(found.distrusted),
        "supported": sorted(found.supported),
        "constants": [[name, value] for name, value in sorted(found.constants)],
        **four_bits.saved_row(found.four_bits),
        **wide_sums.saved_row(found.wide_sums),
    }


def _feature_rows(features: frozenset[Feature]) -> list[list[Value]]:
    return [list(feature) for feature in sorted(features, key=lambda one: (one.name, one.role, str(one.value)))]


def evidence_of_row(row: Mapping[str, Any]) -> BoardEvidence:
    """ValueError where it is damaged."""
    return BoardEvidence(
        frozenset(_listed(row, "confirmed", _feature)),
        frozenset(_listed(row, "refuted", _feature)),
        frozenset(_listed(row, "distrusted", _argument)),
        tuple(dict(_listed(row, "constants", _constant)).items()),
        frozenset(_listed(row, "supported", _argument)),
        _text(row.get("board")),
        four_bits.form_in(row, confirmed=True),
        wide_sums=wide_sums.answer_in(row),
        emulated=_flag(row.get("emulated", False)),
    )


def _listed(row: Mapping[str, Any], key: str, one: Callable[[Any], T]) -> list[T]:
    found = row.get(key)
    if not isinstance(found, list) or len(found) > _MOST:
        raise ValueError(f"{key} should be a list of at most {_MOST:,} entries")
    try:
        return [one(entry) for entry in found]
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None


def _feature(entry: Any) -> Feature:
    if not isinstance(entry, list) or len(entry) != 3:
        raise ValueError("a configuration is a list of name, role and value")
    name, role, value = entry
    return Feature(_text(name), _text(role), _number(value) if type(value) is int else _text(value))


def _argument(entry: Any) -> str:
    """One that this version does not know allows nothing anyway."""
    if not isinstance(entry, str) or not _ARGUMENT.fullmatch(entry):
        raise ValueError(f"{str(entry)[:20]!r} is no argument")
    return entry


def _constant(entry: Any) -> tuple[str, float]:
    if not isinstance(entry, list) or len(entry) != 2 or type(entry[1]) not in (int, float):
        raise ValueError("a constant is a list of name and value")
    name, value = _text(entry[0]), float(entry[1])
    if doubt := implausible(name, value):
        raise ValueError(doubt)
    return name, value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("emulated is either true or false")
    return value


def _number(value: int) -> int:
    if abs(value) > _FARTHEST:
        raise ValueError("a number beyond 62 bits")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _LONG or not value.isprintable():
        raise ValueError(f"{str(value)[:40]!r} is no text of at most {_LONG} characters")
    return value
