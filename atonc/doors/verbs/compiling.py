"""What verbs that compile share: the model, what they ask for besides the options of the compiler (each once, as those
are in `atonc.compiler.request.options`; many are words of ST's tool for what the compiler takes under another name),
and how a command line becomes options of the compiler."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atonc.compiler.request.options import EDGES, MAPPING, MEMORY, MODEL, OUTPUT, STAGES, Options
from atonc.doors.verbs.parser import ST_ONLY, Adds, add_declared, group
from atonc.doors.verbs.reply import CommandReply, file_hash, note
from atonc.machine.base.declare import PAIRS, RARE, Takes, declared, default_of, option
from atonc.machine.base.disk import missing, read_start, write_file
from atonc.machine.base.errors import InputError, UnsupportedError
from atonc.machine.base.frozen import dataclass

if TYPE_CHECKING:
    from atonc.compiler.compile.compile_view import CompileView
    from atonc.compiler.compile.pipeline import Watch
    from atonc.delivery.generate.profiles import Profile
    from atonc.insight.explain.types import NetworkView

MODELS = (".tflite", ".onnx")
TYPES = {"tflite": ".tflite", "onnx": ".onnx", "keras": ""}
# ST's -O: what to spend memory for
OPTIMISE = {"time": "speed", "balanced": "speed", "ram": "memory"}
LAYOUTS = ("zephyr", "openmv", "rust", "cmsis", "tflite")  # a test holds them against `delivery.layouts.every`
_LOCAL, _SELDOM = Takes(local=True), Takes(local=True, rare=True)


def _path(flags: str, help: str, metavar: str, default: Path | None = None, takes: Takes = _SELDOM) -> Any:
    """A file or folder that is written."""
    return option(default, flags, OUTPUT, help, metavar=metavar, parse=Path, takes=takes)


def _alignment(flag: str, what: str) -> Any:
    help = f"of the {what}; any power of two up to 32"
    return option(32, flag, EDGES, help, metavar="BYTES", parse=alignment, takes=RARE)


def alignment(text: str) -> int:
    """Buffers of inputs and outputs begin at lines of the processor's cache: 32 bytes."""
    if text not in ("1", "2", "4", "8", "16", "32"):
        raise InputError(
            f"an alignment of {text[:20]} bytes is not offered",
            rule="inputs and outputs begin at multiples of 32 bytes, a line of the CPU's cache",
            remedy="leave the option out, or supply the buffers yourself (--no-inputs-allocation)",
        )
    return int(text)


@dataclass(frozen=True)
class ModelOptions:
    """Options of every verb that compiles a model; names are those of ST's tool."""

    model: Path | None = option(
        None, "-m --model", MODEL, "the same as an option", metavar="MODEL", parse=Path,
        takes=Takes(local=True, rare=True, once=True),
    )  # fmt: skip
    name: str = option("network", "-n --name", MODEL, "prefix of files and C names")
    type: str = option(
        "", "-t --type", MODEL, "of the model file, if it must be checked",
        takes=Takes(choices=tuple(TYPES), local=True, rare=True),
    )  # fmt: skip
    target: str = option(
        "stm32n6", "--target --series", MEMORY, "the only target", parse=str.lower,
        takes=Takes(choices=("stm32n6",), local=True, rare=True),
    )  # fmt: skip
    st_neural_art: str | None = option(
        None, "--st-neural-art", MEMORY, "ST's profile: a built-in name, a file, or both",
        metavar="[PROFILE@]FILE.json", takes=Takes(bare="default", local=True),
    )  # fmt: skip
    allocate_inputs: bool = option(
        False, "--allocate-inputs", EDGES, "the network has the memory of the inputs (default)", takes=RARE
    )
    input_memory_alignment: int = _alignment("--input-memory-alignment", "inputs")
    allocate_outputs: bool = option(
        False, "--allocate-outputs", EDGES, "the network has the memory of the outputs (default)", takes=RARE
    )
    output_memory_alignment: int = _alignment("--output-memory-alignment", "outputs")
    optimization: str = option(
        "", "-O --optimization", MEMORY, "of ST's tool: ram is --prefer memory, time and balanced are --prefer speed",
        takes=Takes(choices=tuple(OPTIMISE), rare=True),
    )  # fmt: skip
    on: tuple[str, ...] = option(
        (), "--on", MAPPING, "where a node must run", metavar="cpu|npu NODE", takes=Takes(many=PAIRS, rare=True)
    )
    enable_epoch_controller: bool = option(
        False, "--enable-epoch-controller --eec", MAPPING, "epochs run on the NPU's own controller (default)",
        takes=RARE,
    )  # fmt: skip
    relocatable: str | None = option(
        None, "-r --relocatable", MEMORY,
        "for a relocatable image: split, no-secure, gen-c-files, separated by commas (docs/reloc.md)",
        metavar="WORDS", takes=Takes(bare="", rare=True),
    )  # fmt: skip
    c_api: str = option(
        "legacy", "--c-api", OUTPUT, "also the files of the st-ai interface (st-ai, as --stai), or not (legacy)",
        takes=Takes(choices=("st-ai", "legacy"), rare=True),
    )  # fmt: skip


@dataclass(frozen=True)
class WrittenOptions:
    """Options of `generate`: the files of the network."""

    output: Path = _path("-o --output", "folder", "DIR", Path("st_ai_output"), _LOCAL)
    hex: bool = option(False, "--hex", OUTPUT, "memory images also as Intel HEX, with their addresses", takes=RARE)
    binary: bool = option(False, "--binary", OUTPUT, "memory images as binary files (default)", takes=RARE)
    shared_kernels: bool = option(
        False, "--shared-kernels", OUTPUT, "CPU kernels in atonc_kernels.c, .h for all networks, not in each NAME.c",
        takes=RARE,
    )  # fmt: skip
    runtime: str = option(
        "", "--runtime", OUTPUT, "LL_ATON release for relocatable images, ours and ST's packager's", metavar="VERSION",
        takes=RARE,
    )  # fmt: skip
    layout: str = option(
        "", "--layout", OUTPUT, "also a folder NAME_LAYOUT for another project (docs/generated-files.md)",
        takes=Takes(choices=LAYOUTS, local=True, rare=True),
    )  # fmt: skip
    selftest: bool = option(
        False, "--selftest", OUTPUT, "also NAME_selftest.c, .h: firmware finds out whether the board is set up for it",
        takes=RARE,
    )  # fmt: skip
    front_end: str = option(
        "", "--front-end", OUTPUT, "also NAME_front_end.c, .h: sound or camera frames to codes (docs/front_ends.md)",
        metavar="FILE.toml|PRESET|MODEL", takes=Takes(local=True, rare=True),
    )  # fmt: skip
    stai: bool = option(False, "--stai", OUTPUT, "also stai_NAME.c, .h, for applications of Core 3.0 on", takes=RARE)


@dataclass(frozen=True)
class AnalyzeOptions:
    """Options of `analyze`."""

    output: Path | None = _path(
        "-o --output", "also write the reports and NAME_c_info.json into this folder", "DIR", takes=_LOCAL
    )
    pareto: Path | None = _path(
        "--pareto",
        "RAM against time instead: every program that no other beats in both, as a table and a page; the decisions of "
        "each go to a folder by the name of the page",
        "FILE.html",
        takes=Takes(bare="pareto.html", local=True, rare=True),
    )


@dataclass(frozen=True)
class StageOptions:
    """Options of `generate` and `analyze`."""

    report: bool = option(True, "--no-report", OUTPUT, "write no reports", takes=_SELDOM)
    dump: Path | None = _path("--dump", "what each stage hands to the next, as text", "DIR")
    stop_after: str | None = option(
        None, "--stop-after", OUTPUT, "with --dump: go no further", takes=Takes(choices=STAGES, local=True, rare=True)
    )


@dataclass(frozen=True)
class PictureOptions:
    """Other views of what was compiled."""

    trace: Path | None = _path("--trace", "also write a trace for Perfetto", "FILE.json")
    annotate: Path | None = _path("--annotate", "also write the graph for Netron", "FILE.onnx")


def write_pictures(network: Callable[[], NetworkView], options: argparse.Namespace) -> None:
    if options.trace or options.annotate:
        from atonc.insight.report.exports import annotated, trace

        for path, make in ((options.trace, trace), (options.annotate, annotated)):
            if path is not None:
                write_file(path, make(network()))


def model_options(verify: bool = False) -> Adds:
    """What the compiler wants to know. `verify`: whether the user decides; other verbs compile on the way only."""

    def add(parser: argparse.ArgumentParser) -> None:
        model = "quantised .tflite or .onnx"
        group(parser, MODEL).add_argument("positional", nargs="?", type=Path, metavar="MODEL", help=model)
        add_declared(parser, ModelOptions, rare=not verify)
        add_declared(parser, without=() if verify else ("verify",), rare=not verify)
        group(parser, ST_ONLY)
        parser.set_defaults(st=None)  # the command line tells when it was called by the name of ST's tool; a form never

    return add


def delegates_reply(options: argparse.Namespace, *asked: type) -> CommandReply | None:
    """What an ExecuTorch program says of its delegates, if one is given; `asked`: what the verb takes for models."""
    file: Path | None = options.positional or options.model
    if file is None or file.suffix.lower() != ".pte" or file.is_dir():
        return None
    from atonc.delivery.generate.comparing import existing
    from atonc.delivery.texts import pte_text
    from atonc.delivery.trials import pte_running

    for member, said in (one for kind in (ModelOptions, Options, *asked) for one in declared(kind)):
        given = getattr(options, member.name, None)
        if (tuple(given) if isinstance(given, list) else given) not in (default_of(member), None, file):
            raise InputError(
                f"{said.flags[0]} with a .pte file",
                rule="its delegates are compiled already",
                remedy="leave it out; AtonPartitioner takes the options of the compiler",
            )
    program, delegates = pte_running.delegates_of(existing(file))
    times = [pte_running.profiled(one) for one in delegates]
    return CommandReply("delegates", pte_text.of_delegates(program, delegates, times), file_hash(file))


def model_path(options: argparse.Namespace) -> Path:
    found: Path | None = options.positional or options.model
    if found is None:
        taken = (("--st-neural-art", options.st_neural_art), ("-r", options.relocatable))
        hint = "".join(f"; {o} took {v}: write it behind the model" for o, v in taken if str(v).endswith(MODELS))
        raise InputError("no model given", remedy=f"name a .tflite or .onnx file{hint}")
    if options.positional and options.model and options.positional != options.model:
        raise InputError("two models given", remedy="name one, as an argument or with -m")
    if not found.exists():
        raise missing(found)
    if options.type == "keras":
        raise UnsupportedError("Keras models are not read", where="--type", remedy="export the model as TFLite")
    if options.type and found.is_file():
        from atonc.compiler.frontends.read import is_tflite

        kind = "tflite" if is_tflite(found, read_start(found)) else "onnx"
        if kind != options.type:
            remedy = f"leave --type out, or say {kind}"
            raise InputError(f"is {kind}, not {options.type}", where=str(found), remedy=remedy)
    return found


def compiler_options(options: argparse.Namespace, verify: bool = False) -> Options:
    from atonc.delivery.generate.profiles import read_profile

    words: frozenset[str] = frozenset()
    if options.relocatable is not None:
        from atonc.delivery.trials import relocating

        words = relocating.words(options.relocatable)
    for where, node in options.on:
        if where not in ("cpu", "npu"):
            raise InputError(f"{where!r} is no place to run", where="--on", remedy=f"write --on cpu {node}")
    art = options.st_neural_art or ""
    profile = read_profile(art)
    asked_for_controller = options.enable_epoch_controller
    if options.st:  # ST's tool uses it where it is asked to, and scripts copy files accordingly
        # a profile of a file may ask; those that ST's installation brings do not
        from_file = "@" in art or art.endswith(".json")
        if not (asked_for_controller or (from_file and profile.epoch_controller)):
            options.epoch_controller = False
    _profile_notes(profile, options)
    options.no_cpu = getattr(options, "no_cpu", False) or profile.no_cpu
    given = {member.name: getattr(options, member.name) for member, _ in declared(Options) if member.name != "verify"}
    if options.optimization and options.prefer == "speed":
        given["prefer"] = OPTIMISE[options.optimization]
    return Options(
        **given
        | {
            "board": profile.board(options.board),
            "epoch_controller": options.epoch_controller and (profile.epoch_controller or asked_for_controller),
            "encrypt_weights": options.encrypt_weights or profile.encrypt_weights,
            "encrypt_acc_confs": options.encrypt_acc_confs and profile.encrypt_acc_confs,
            "mpool": str(options.mpool or profile.memory_pool or ""),
            "on_cpu": tuple(node for where, node in options.on if where == "cpu"),
            "on_npu": tuple(node for where, node in options.on if where == "npu"),
            "relocatable": options.relocatable is not None,
            "secure": "no-secure" not in words,
            "verify": verify,
        }
    )


def _profile_notes(profile: Profile, options: argparse.Namespace) -> None:
    """Each option once, by name."""
    if profile.ignored:
        note(f"unknown options in the profile are ignored: {', '.join(profile.ignored)}", options)
    if profile.missing:
        note(f"options of the profile that have no effect here: {', '.join(profile.missing)}", options)
    if not profile.epoch_controller and not options.enable_epoch_controller:
        note("the profile has no --enable-epoch-controller: the CPU starts every epoch, which is slower", options)
    if profile.unknown_keys:
        note(f"unknown keys in the profile are ignored: {', '.join(profile.unknown_keys)}", options)


def analyzed(
    model: Path,
    wanted: Options,
    name: str,
    watch: Watch | None = None,
    title: str = "",
    words: tuple[str, ...] = (),
) -> CompileView:
    """A model compiled and weighed; one that has no room says what lives at the worst step, and the options that help,
    each tried. `title`: the name that a visitor knows the model by; it is no path here. `words`: the command that asks
    for it."""
    from dataclasses import replace
    from functools import partial

    from atonc.compiler.compile import reproduce
    from atonc.compiler.compile.pipeline import no_watch, read_model
    from atonc.compiler.place.explain import PlacementError
    from atonc.delivery.generate import generating

    try:
        view = replace(generating.analyze(model, wanted, name, watch or no_watch), words=words)
    except PlacementError as error:
        from atonc.insight.explain.actions import Subject, try_all
        from atonc.insight.report.explain_text import shortage_lines

        source, asking = read_model(model, wanted), partial(reproduce.asking, words, Path(title or model), wanted, name)
        error.details = tuple(shortage_lines(error, try_all(Subject(source, wanted, model, asking=asking))))
        raise error from None
    if not title:
        return view
    return replace(view, model=title, reproduce={**view.reproduce, "command": reproduce.command(title, wanted, name)})
