"""Called by ST's name (`stedgeai`), a command line means what it means to ST's tool: here, and only here, it is turned
into one of ours. What cannot be meant so is refused by name, never done in another sense."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from atonc.doors.verbs.st_release import RELEASE, StRelease, release_of
from atonc.machine.base.errors import InputError, UnsupportedError
from atonc.machine.base.frozen import dataclass

NAMES = ("stedgeai", "stm32ai")  # what the program is called in ST's installations, new and old
TARGET, NPU, MODE = "--target", "--st-neural-art", "--mode"
OURS = "stm32n6"
GENERIC = "stm32"  # any STM32: code for the processor
COMPILING = ("analyze", "generate", "validate")
_CPU_ALONE = (
    f"without {NPU} ST's tool makes code for the processor alone, so nothing runs on the NPU (--no-npu); "
    f"add {NPU} for the NPU"
)
_GENERIC = f"{TARGET} {GENERIC} names no chip: the code is for the Cortex-M55 of the STM32N6 alone (--no-npu)"


@dataclass(frozen=True)
class Meant:
    """A command line of ours, and what the user should know about it."""

    words: tuple[str, ...]
    notes: tuple[str, ...] = ()


def release_for(program: str) -> StRelease | None:
    """The release that is asked for if the program was called by ST's name."""
    return release_of(os.environ.get(RELEASE, "")) if Path(program).stem in NAMES else None


def meant(words: Sequence[str], release: StRelease) -> Meant:
    """`words` begin with a verb."""
    verb, *rest = words
    if verb not in COMPILING or "-h" in rest or "--help" in rest:
        return Meant((verb, *rest))
    target = value_of(TARGET, rest)
    kept = [word for word in _without(TARGET, rest) if word != "--quiet"]  # there it hides the progress bar only
    if value_of("--c-api", rest) is None:
        kept += ["--c-api", release.c_api]
    if target is None:
        raise InputError("no target is given", where=TARGET, remedy=f"add {TARGET} {OURS} {NPU}")
    if target.lower() not in (OURS, GENERIC):
        raise UnsupportedError(
            f"{TARGET} {target[:40]} is not offered: atonc compiles for the STM32N6",
            remedy=f"{TARGET} {OURS} {NPU} is its NPU, {TARGET} {OURS} alone its Cortex-M55; use ST's tool for others",
        )
    if target.lower() == GENERIC:
        return Meant((verb, *_without_npu(kept), "--no-npu"), (_GENERIC,))
    if value_of(NPU, rest) is None and not _on_target(verb, rest):
        return Meant((verb, *kept, "--no-npu"), (_CPU_ALONE,))
    return Meant((verb, *kept))


def _on_target(verb: str, rest: Sequence[str]) -> bool:
    """What is on the board was built before; the scripts of ST's model zoo do not repeat the profile here."""
    return verb == "validate" and (value_of(MODE, rest) or "").startswith("target")


def value_of(option: str, words: Sequence[str]) -> str | None:
    """The word behind an option, empty if there is none; None where the option is not given."""
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name == option:
            return value if equals else next(iter(words[at + 1 : at + 2]), "")
    return None


def _without(option: str, words: Sequence[str]) -> list[str]:
    """Without the option and its value."""
    kept: list[str] = []
    skip = False
    for word in words:
        if not skip and word.partition("=")[0] != option:
            kept.append(word)
        skip = word == option
    return kept


def _without_npu(words: Sequence[str]) -> list[str]:
    if value_of(NPU, words) is None:
        return list(words)
    raise InputError(f"{NPU} is for {TARGET} {OURS}", where=f"{TARGET} {GENERIC}", remedy=f"write {TARGET} {OURS}")
