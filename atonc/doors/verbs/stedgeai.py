"""Everything that is there because of ST's tool: `atonc stedgeai --install DIR`, a folder in which scripts for that
tool find what they call; what a command line means when atonc is called by ST's name (`stedgeai`), and what is answered
then; options of existing scripts that change nothing here. No verb imports this file: the command line hands it in.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atonc.delivery.generate.st_call import OUTPUT as OUTPUT_FOLDER
from atonc.delivery.generate.st_call import WORKSPACE as DEFAULT_WORKSPACE
from atonc.delivery.generate.st_call import StCall
from atonc.doors.verbs.parser import OUTPUT, SHOWN, ST_ONLY, Command, arg, group, mark_rare
from atonc.doors.verbs.reply import CommandReply
from atonc.insight.report.document import Chapter, Document
from atonc.machine.base.about import __version__
from atonc.machine.base.declare import did_you_mean
from atonc.machine.base.errors import InputError, UnsupportedError
from atonc.machine.base.frozen import dataclass

if TYPE_CHECKING:
    from atonc.compiler.compile.compile_view import CompileView
    from atonc.insight.validating.judging import OutputResult

# ------------------------------------------------------------------------------------------------------------- releases

RELEASE = "ATONC_ST_RELEASE"
DEFAULT = "4.0.1"
# release of the core -> its build, and the release of the part for STM32, as `--version` printed them in public logs
_KNOWN = {
    "2.0.0": ("20049", "10.0.0"),
    "2.1.0": ("20194", "10.1.0"),
    "2.2.0": ("20266", "10.2.0"),
    "3.0.0": ("20426", "11.0.0"),
    "4.0.0": ("20500", "12.0.0"),
    "4.0.1": ("20581", "12.0.1"),
}
_STAI = (3, 0)  # from here on the interface of stai_NAME.c is what `generate` writes


@dataclass(frozen=True)
class StRelease:
    """A release that atonc answers for: what it prints and does by default."""

    core: str
    build: str
    cube: str

    @property
    def banner(self) -> str:
        """The first line of every output. Scripts look for the words and the number in front; the letter v must not
        come again, because one of them splits at the last one."""
        return f"ST Edge AI Core v{self.core}-{self.build} answered by atonc {__version__}, not by ST"

    @property
    def c_api(self) -> str:
        major, minor, _ = map(int, self.core.split("."))
        return "st-ai" if (major, minor) >= _STAI else "legacy"

    def call(self, verb: str, words: Sequence[str]) -> StAnswers:
        given = next(filter(None, (value_of(name, words) for name in WORKSPACE)), "")
        core = f"{self.core}-{self.build}"
        return StAnswers(
            *(verb, tuple(words), self.banner, core, ("ST.EdgeAI.Core", f"{core} answered by atonc {__version__}")),
            workspace=None if "--no-workspace" in words else Path(given or DEFAULT_WORKSPACE),
            reports="--no-report" not in words,
            dll=DLL in words,
        )


def release_of(text: str) -> StRelease:
    """`4.0.1`; empty means the newest that is known."""
    wanted = text or DEFAULT
    if wanted not in _KNOWN:
        raise InputError(
            f"{wanted[:40]!r} is no known release of ST's tool",
            where=RELEASE,
            remedy=did_you_mean(wanted, _KNOWN, f"set it to one of {', '.join(_KNOWN)}"),
        )
    return StRelease(wanted, *_KNOWN[wanted])


def release_for(program: str) -> StRelease | None:
    """The release that is asked for if the program was called by ST's name."""
    return release_of(os.environ.get(RELEASE, "")) if Path(program).stem in NAMES else None


# ------------------------------------------------------------------------- a command line by ST's name, as one of ours

NAMES = ("stedgeai", "stm32ai")  # what the program is called in ST's installations, new and old
TARGET, NPU, MODE = "--target", "--st-neural-art", "--mode"
TARGETS = (TARGET, "--series")  # the second is what older scripts write
OURS = "stm32n6"
GENERIC = "stm32"  # any STM32: code for the processor
COMPILING = ("analyze", "generate", "validate")
WORKSPACE = ("--workspace", "-w")
DLL = "--dll"  # done where everything runs on the processor; this computer has no NPU
_SHOWN_ONLY = ("--quiet", "--no-workspace")  # the first hides no more than the progress bar there
_SPELLED = {"--memory_pool": "--memory-pool", "--reloc": "--relocatable"}  # there, not here
_SEVERAL = 1 << 10
# options of single verbs, and how many words may follow each
_OWN = {
    "generate": {"--binary": 0, "--address": 1, "--copy-weights-at": 1, "--copy-weight-at": 1, "--lib": 1, "-l": 1},
    "validate": {
        **dict.fromkeys(("--batch-size", "-b", "--mode", "--desc", "-d", "--val-json", "--ispu-conf"), 1),
        **dict.fromkeys(("--valinput", "-vi", "--valoutput", "-vo", "--range"), _SEVERAL),
        **dict.fromkeys(("--full", "--io-only", "--save-csv", "--classifier", "--no-check", "--no-exec-model"), 0),
    },
}
_CPU_ALONE = (
    f"without {NPU} ST's tool makes code for the CPU alone, so nothing runs on the NPU (--no-npu); "
    f"add {NPU} for the NPU"
)
_GENERIC = f"{TARGET} {GENERIC} names no chip: the code is for the Cortex-M55 of the STM32N6 alone (--no-npu)"


@dataclass(frozen=True)
class Meant:
    """A command line of ours, and what the user should know about it."""

    words: tuple[str, ...]
    notes: tuple[str, ...] = ()
    call: StAnswers | None = None  # what verbs ask where they write and show what ST's tool does


def as_st(words: Sequence[str], release: StRelease) -> Meant:
    """The first line of every output says who answers; a script that wants JSON on standard output gets only that."""
    print(release.banner, file=sys.stderr if "--json" in words else sys.stdout)
    if words[0] in ("--version", "--tools-version"):
        print(f"   STM32CubeAI {release.cube}")
        if words[0] == "--version":
            raise SystemExit(0)
    return meant(words, release)


def meant(words: Sequence[str], release: StRelease) -> Meant:
    """`words` begin with a verb. What cannot be meant as ST's tool means it is refused by name, never done in another
    sense."""
    verb, *rest = (_SPELLED.get(word, word) for word in words)
    if "-h" in rest or "--help" in rest:
        return Meant((verb, "--help"))
    if verb not in COMPILING:
        return Meant((verb, *rest))
    extra, notes = _for_target(verb, rest)
    api = [] if value_of("--c-api", rest) is not None else ["--c-api", release.c_api]
    switches = dict.fromkeys((*_SHOWN_ONLY, *((DLL,) if extra else ())), 0)
    # ST's tool takes all options with any verb, and those of another one change nothing
    others = {name: most for other, names in _OWN.items() if other != verb for name, most in names.items()}
    kept = _without({**dict.fromkeys((*TARGETS, *WORKSPACE), 1), **switches, **others}, rest)
    return Meant((verb, *kept, *api, *extra), notes, release.call(verb, rest))


def _for_target(verb: str, rest: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What has to be said to our tool, and to the user, so that the target is what is meant."""
    given = {name: value.lower() for name in TARGETS if (value := value_of(name, rest))}
    name, target = next(iter(given.items()), (TARGET, ""))
    npu = value_of(NPU, rest) is not None
    if not target:
        raise InputError("no target is given", where=TARGET, remedy=f"add {TARGET} {OURS} {NPU}")
    if len(set(given.values())) > 1:
        raise InputError("two targets are given", where=" and ".join(given), remedy=f"write {TARGET} {OURS} alone")
    if target not in (OURS, GENERIC):
        raise UnsupportedError(
            f"{name} {target[:40]} is not offered: atonc compiles for the STM32N6",
            remedy=f"{TARGET} {OURS} {NPU} is its NPU, {TARGET} {OURS} alone its Cortex-M55; others need ST's tool",
        )
    if target == GENERIC and npu:
        raise InputError(f"{NPU} is for {TARGET} {OURS}", where=f"{name} {target}", remedy=f"write {TARGET} {OURS}")
    # what is on the board was built before; the scripts of ST's model zoo do not repeat the profile there
    if npu or (verb == "validate" and (value_of(MODE, rest) or "").startswith("target")):
        return (), ()
    return ("--no-npu",), (_GENERIC if target == GENERIC else _CPU_ALONE,)


def value_of(option: str, words: Sequence[str]) -> str | None:
    """The word behind an option, empty if there is none; None where the option is not given."""
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name == option:
            return value if equals else next(iter(words[at + 1 : at + 2]), "")
    return None


def _without(options: Mapping[str, int], words: Sequence[str]) -> list[str]:
    """Without these options and as many words behind each, unless an option comes first."""
    kept: list[str] = []
    skip = 0
    for word in words:
        name, equals, _ = word.partition("=")
        is_option = word.startswith("-") and not word[1:2].isdigit()
        if name in options:
            skip = 0 if equals else options[name]
        elif skip and not is_option:
            skip -= 1
        else:
            kept.append(word)
            skip = 0
    return kept


LEVELS = ("0", "1", "2", "3")
VERBOSITY, BARE_LEVEL = "--verbosity", "1"


def without_levels(arguments: Sequence[str]) -> list[str]:
    """ST's tool takes a number behind -v: 0 is the usual text, all others say more. Behind --verbosity its scripts may
    leave it out: then it is 1."""
    kept: list[str] = []
    for word in arguments:
        asked = bool(kept) and kept[-1] in ("-v", "--verbose", VERBOSITY)
        if asked and word.isdigit() and word not in LEVELS and not Path(word).exists():
            raise InputError(f"{kept[-1]} {word[:20]}", rule=f"levels are {', '.join(LEVELS)}")
        level = asked and kept[-1] != VERBOSITY and word in LEVELS
        if level and word == "0":
            kept.pop()
        if asked and kept[-1] == VERBOSITY and word not in LEVELS:
            kept.append(BARE_LEVEL)
        if not level:
            kept.append(word)
    return [*kept, BARE_LEVEL] if kept[-1:] == [VERBOSITY] else kept


# ---------------------------------------------------------------------------------------- what is answered by ST's name


class StAnswers(StCall):
    """What `generate`, `analyze` and `validate` do otherwise: ST's files, and its report as what is shown."""

    def folder(self, output: Path | None) -> Path:
        """Where `analyze` and `validate` write: ST's tool leaves the C files and images of the network there too."""
        return output or OUTPUT_FOLDER

    def release(self, runtime: str) -> str:
        """The release of LL_ATON that ST's packager reads, unless another one was named."""
        from atonc.delivery.reloc.format import release_for, release_named

        return release_named(runtime) if runtime else release_for(self.core)

    def sections(self, view: CompileView) -> list[Chapter]:
        """The report that was written, then what is ours: the predicted time, the proof, and the files."""
        from atonc.delivery.generate import generating
        from atonc.insight.report import compile_text, generate_report
        from atonc.insight.report.run_text import cost_lines

        _, _, *report = generate_report.text(view, generating.c_network(view)).splitlines()
        proof = compile_text.verify_chapter(view.compiled.report)
        files = ["-" * 80, *(f" {Path(file).absolute()}" for file in view.files)]
        return [
            Chapter(f"Parameters            : {self.arguments}", report),
            Chapter("", [*cost_lines(view.cost), proof.title, *proof.blocks]),
            Chapter(f"Generated files ({len(view.files)})", files),
            Chapter("", [f"elapsed time ({self.verb}): {view.compiled.seconds:.3f}s"]),
        ]

    def validated(
        self, options: argparse.Namespace, device: str, outputs: Sequence[OutputResult], lines: Sequence[str]
    ) -> None:
        """The files of `validate`: beside the network, or where the user says."""
        from atonc.delivery.generate import st_files
        from atonc.machine.base.disk import write_files

        place = self.folder(options.output)
        place.mkdir(parents=True, exist_ok=True)
        write_files(place, st_files.validated(self, options.name, device, outputs, lines))


# -------------------------------------------------- options of existing scripts that change nothing here: each says why


@dataclass(frozen=True)
class Foreign:
    names: tuple[str, ...]
    why: str
    value: str = ""  # metavar; empty: a switch
    choices: tuple[str, ...] = ()
    instead: str = ""  # refused, since it asks for something that we do not have: what to do then
    optional: bool = False  # the value may be left out

    @property
    def refused(self) -> bool:
        return bool(self.instead)


_ADDRESSES = "addresses of weights are those of the memory pools (--mpool)"
_NO_FILES = "no intermediate files are written"

COMMON = (
    Foreign(
        ("-c", "--compression"),
        "the NPU reads quantised weights as they are; compression is for float layers on the CPU",
        "LEVEL",
        ("none", "lossless", "low", "medium", "high"),
    ),
    Foreign(("-w", "--workspace"), _NO_FILES, "DIR"),
    Foreign(("--no-workspace",), _NO_FILES),
    Foreign(("--split-weights",), "weights lie in one image for every memory, never in one C array"),
    Foreign(("--no-onnx-optimizer",), "no optimiser changes the model; passes here keep every result as it is"),
    Foreign(("--use-onnx-simplifier",), "constants are folded and repeats merged in any case"),
    Foreign(("--prefetch-compressed-weights",), "weights are not compressed"),
    Foreign(("--allocate-activations",), "the places of activations are fixed when the network is compiled"),
    Foreign(("--allocate-states",), "states have their place in the network's memory in any case"),
    Foreign(("--all-buffers-info",), "the C files list the buffers between layers in any case"),
    Foreign(("--hsp",), "it is for stm32u3", "WORDS", optional=True),
    Foreign(("--optimize.export_hybrid",), "it is internal to ST's tool; its cloud passes it on", "VALUE"),
    Foreign(("--device",), "it is for sensors with an ISPU", "NAME",
            instead="leave it out for --target stm32n6; sensors need ST's tool"),
)  # fmt: skip
GENERATE = (
    Foreign(("--dll",), "the emulator runs the generated files on any computer (`atonc run`)"),
    Foreign(("--address",), _ADDRESSES, "ADDRESS"),
    Foreign(("--copy-weights-at", "--copy-weight-at"), _ADDRESSES, "ADDRESS"),
    Foreign(("-l", "--lib"), "the C files of the kernels are written beside the network, no library is linked", "DIR"),
)
VALIDATE = (
    Foreign(("--full",), "layers are compared in any case, unless --io-only is given"),
    Foreign(("--no-check",), "the checks are part of the answer and cost little"),
    Foreign(("--ispu-conf",), "it is for sensors with an ISPU", "FILE"),
)
OPS = (Foreign(TARGETS, "the table is that of stm32n6, the only target", "NAME"),)


# verb -> its tables
_FOREIGN: dict[str, tuple[tuple[Foreign, ...], ...]] = {verb: (COMMON,) for verb in ("analyze", "explain", "evaluate")}
_FOREIGN |= {"generate": (COMMON, GENERATE), "validate": (COMMON, VALIDATE), "ops": (OPS,)}


class NoEffect(argparse.Action):
    """Takes an option of ST's tool and remembers to say, in one line, why it does nothing. One that asks for something
    that we do not have is refused: going on would give something else."""

    def __init__(self, *args: Any, known: Foreign, **more: Any) -> None:
        super().__init__(*args, **more)
        self.known = known

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        if self.known.refused:
            raise UnsupportedError(f"{option} is not supported: {self.known.why}", remedy=self.known.instead)
        namespace.no_effect = [*getattr(namespace, "no_effect", []), f"{option} has no effect: {self.known.why}"]


class Verbosity(argparse.Action):
    """ST's levels: 0 is the usual text, the others say more."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        namespace.verbose = values != "0"


def add_foreign(parser: argparse.ArgumentParser, verb: str) -> None:
    """Gives a verb the options that scripts of ST's tool carry."""
    for known in (option for table in _FOREIGN.get(verb, ()) for option in table):
        extra: dict[str, Any] = {"metavar": known.value, "choices": known.choices or None} if known.value else {}
        added = group(parser, ST_ONLY).add_argument(
            *known.names,
            action=NoEffect,
            known=known,
            nargs=("?" if known.optional else None) if known.value else 0,
            dest="no_effect",
            default=argparse.SUPPRESS,
            help=f"refused: {known.why}" if known.refused else known.why,
            **extra,
        )
        mark_rare(added)
    if verb in COMPILING:
        level = "level of ST's tool: 0 is the usual text, 1 to 3 the same as -v"
        mark_rare(group(parser, OUTPUT).add_argument(VERBOSITY, action=Verbosity, choices=LEVELS, help=level))


# ------------------------------------------------------------------------------------------ the verb: an installation


def _install(options: argparse.Namespace) -> CommandReply:
    from atonc.delivery.generate import preflight
    from atonc.delivery.generate.st_files import install

    place = options.install.absolute()
    preflight.check_folder(options.install)
    written = install(place, RELEASE, options.runtime)
    variables = [
        f"export STEDGEAI_CORE_DIR={place}",
        f'export PATH="{place / "Utilities" / "linux"}:$PATH"   # or mac, windows',
    ]
    sections = [Chapter("", [f"wrote {path}" for path in written]), Chapter("", variables)]
    files = list(map(str, written))
    return CommandReply("stedgeai", Document(sections=sections, data=lambda: {"files": files}))


COMMANDS = (
    Command(
        "stedgeai",
        "a folder in which scripts for ST's tool find atonc by its name",
        _install,
        (
            arg("--install", type=Path, required=True, metavar="DIR", help="the folder; what is ST's in it stays"),
            arg(
                "--runtime",
                type=Path,
                metavar="DIR",
                help="ST's runtime of an application (Inc, Lib, Npu), which the "
                "model zoo copies: linked as Middlewares/ST/AI",
            ),
            SHOWN,
        ),
        (
            "atonc stedgeai --install ~/st  # then STEDGEAI_CORE_DIR=~/st",
            "atonc stedgeai --install ~/st --runtime my_app/Middlewares/AI_Runtime",
        ),
        "Lays out what scripts expect of ST's installation, with launchers that run this atonc. Called so, "
        "options, defaults, files and versions are those of ST's tool, and the first line says who answers. "
        f"{RELEASE} in the environment chooses the release (default {DEFAULT}).",
    ),
)
