"""Called by ST's name (`stedgeai`), a command line means what it means to ST's tool: here, and only here, it is turned
into one of ours. What cannot be meant so is refused by name, never done in another sense."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from atonc.delivery.generate.st_files import WORKSPACE as DEFAULT_WORKSPACE
from atonc.delivery.generate.st_files import StCall
from atonc.doors.verbs.st_release import RELEASE, StRelease, release_of
from atonc.machine.base.errors import InputError, UnsupportedError
from atonc.machine.base.frozen import dataclass

NAMES = ("stedgeai", "stm32ai")  # what the program is called in ST's installations, new and old
TARGET, NPU, MODE = "--target", "--st-neural-art", "--mode"
OURS = "stm32n6"
GENERIC = "stm32"  # any STM32: code for the processor
COMPILING = ("analyze", "generate", "validate")
WORKSPACE = ("--workspace", "-w")
DLL = "--dll"  # done where everything runs on the processor; this computer has no NPU
_SHOWN_ONLY = ("--quiet", "--no-workspace")  # the first hides no more than the progress bar there
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
    call: StCall | None = None  # where the verb writes what ST's tool writes


def release_for(program: str) -> StRelease | None:
    """The release that is asked for if the program was called by ST's name."""
    return release_of(os.environ.get(RELEASE, "")) if Path(program).stem in NAMES else None


def meant(words: Sequence[str], release: StRelease) -> Meant:
    """`words` begin with a verb."""
    verb, *rest = words
    if verb not in COMPILING or "-h" in rest or "--help" in rest:
        return Meant((verb, *rest))
    extra, notes = _for_target(verb, rest)
    api = [] if value_of("--c-api", rest) is not None else ["--c-api", release.c_api]
    done = (*_SHOWN_ONLY, DLL) if extra else _SHOWN_ONLY
    kept = [word for word in _without((TARGET, *WORKSPACE), rest) if word not in done]
    return Meant((verb, *kept, *api, *extra), notes, _call(verb, rest, release))


def _for_target(verb: str, rest: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What has to be said to our tool, and to the user, so that the target is what is meant."""
    target, npu = (value_of(TARGET, rest) or "").lower(), value_of(NPU, rest) is not None
    if not target:
        raise InputError("no target is given", where=TARGET, remedy=f"add {TARGET} {OURS} {NPU}")
    if target not in (OURS, GENERIC):
        raise UnsupportedError(
            f"{TARGET} {target[:40]} is not offered: atonc compiles for the STM32N6",
            remedy=f"{TARGET} {OURS} {NPU} is its NPU, {TARGET} {OURS} alone its Cortex-M55; others need ST's tool",
        )
    if target == GENERIC and npu:
        raise InputError(f"{NPU} is for {TARGET} {OURS}", where=f"{TARGET} {target}", remedy=f"write {TARGET} {OURS}")
    if npu or _on_target(verb, rest):
        return (), ()
    return ("--no-npu",), (_GENERIC if target == GENERIC else _CPU_ALONE,)


def _call(verb: str, rest: Sequence[str], release: StRelease) -> StCall:
    given = next(filter(None, (value_of(name, rest) for name in WORKSPACE)), "")
    place = None if "--no-workspace" in rest else Path(given or DEFAULT_WORKSPACE)
    core = f"{release.core}-{release.build}"
    return StCall(
        *(verb, tuple(rest), release.banner, core, release.tool),
        workspace=place,
        reports="--no-report" not in rest,
        dll=DLL in rest,
    )


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


def _without(options: Sequence[str], words: Sequence[str]) -> list[str]:
    """Without the options and their values."""
    kept: list[str] = []
    skip = False
    for word in words:
        if not skip and word.partition("=")[0] not in options:
            kept.append(word)
        skip = word in options
    return kept
