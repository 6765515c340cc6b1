"""Called by ST's name (`stedgeai`), a command line means what it means to ST's tool: here, and only here, it is turned
into one of ours. What cannot be meant so is refused by name, never done in another sense."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from atonc.delivery.generate.st_call import WORKSPACE as DEFAULT_WORKSPACE
from atonc.delivery.generate.st_call import StCall
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
_SPELLED = {"--memory_pool": "--memory-pool", "--reloc": "--relocatable"}  # there, not here
_MANY = 1 << 10
# options of single verbs, and how many words may follow each
_OWN = {
    "generate": {"--binary": 0, "--address": 1, "--copy-weights-at": 1, "--copy-weight-at": 1, "--lib": 1, "-l": 1},
    "validate": {
        **dict.fromkeys(("--batch-size", "-b", "--mode", "--desc", "-d", "--val-json", "--ispu-conf"), 1),
        **dict.fromkeys(("--valinput", "-vi", "--valoutput", "-vo", "--range"), _MANY),
        **dict.fromkeys(("--full", "--io-only", "--save-csv", "--classifier", "--no-check", "--no-exec-model"), 0),
    },
}
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
    verb, *rest = (_SPELLED.get(word, word) for word in words)
    if "-h" in rest or "--help" in rest:
        return Meant((verb, "--help"))
    if verb not in COMPILING:
        return Meant((verb, *rest))
    extra, notes = _for_target(verb, rest)
    api = [] if value_of("--c-api", rest) is not None else ["--c-api", release.c_api]
    switches = {name: 0 for name in (*_SHOWN_ONLY, *((DLL,) if extra else ()))}
    kept = _without({TARGET: 1, **dict.fromkeys(WORKSPACE, 1), **switches, **_of_other_verbs(verb)}, rest)
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


def _of_other_verbs(verb: str) -> dict[str, int]:
    """ST's tool takes all options with any verb, and those of another one change nothing."""
    return {name: most for other, names in _OWN.items() if other != verb for name, most in names.items()}


def _without(options: Mapping[str, int], words: Sequence[str]) -> list[str]:
    """Without these options and as many words behind each, unless an option comes first."""
    kept: list[str] = []
    skip = 0
    for word in words:
        name, equals, _ = word.partition("=")
        if name in options:
            skip = 0 if equals else options[name]
        elif skip and not _is_option(word):
            skip -= 1
        else:
            kept.append(word)
            skip = 0
    return kept


def _is_option(word: str) -> bool:
    return word.startswith("-") and not word[1:2].isdigit()
