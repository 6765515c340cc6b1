"""What several verbs share."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from atonc.disk import write_file
from atonc.errors import InputError

if TYPE_CHECKING:
    from atonc.insight.types import NetworkView
    from atonc.options import Options
    from atonc.profiles import Profile

MODELS = (".tflite", ".onnx")
LEVELS = ("0", "1", "2", "3")
# options of ST's tool that existing scripts may carry: true here in any case, or about files that we do not write
SETTLED = (
    *(["--allocate-inputs"], ["--allocate-outputs"], ["--enable-epoch-controller", "--eec"]),
    *(["--no-report"], ["--no-workspace"], ["--binary"]),
)
UNUSED = (
    *(["-w", "--workspace"], ["-t", "--type"], ["-O", "--optimization"], ["-c", "--compression"], ["--c-api"]),
    *(["--input-memory-alignment"], ["--output-memory-alignment"], ["--verbosity"]),
)


def without_levels(arguments: Sequence[str]) -> list[str]:
    """ST's tool takes a number behind -v: 0 is quiet, all others say more."""
    kept: list[str] = []
    for word in arguments:
        level = bool(kept) and kept[-1] in ("-v", "--verbose") and word in LEVELS
        if level and word == "0":
            kept.pop()
        if not level:
            kept.append(word)
    return kept


def add_output_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    parser.add_argument("-v", "--verbose", action="store_true", help="every epoch, every layer")
    parser.add_argument("-q", "--quiet", action="store_true", help="only errors")


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """What the compiler wants to know; names are those of ST's tool where it has them."""
    parser.add_argument("positional", nargs="?", type=Path, metavar="MODEL", help="quantised .tflite or .onnx")
    parser.add_argument("-m", "--model", type=Path, metavar="MODEL", help="the same as an option")
    parser.add_argument("-n", "--name", default="network", help="prefix of files and C names (default network)")
    parser.add_argument("--target", choices=["stm32n6"], default="stm32n6", help="the only target")
    parser.add_argument(
        "--board", default="stm32n6570-dk", metavar="[SET@]BOARD", help="name, or FILE.toml (default stm32n6570-dk)"
    )
    parser.add_argument("--mpool", type=Path, metavar="FILE", help="memory pools instead of the board's")
    parser.add_argument(
        "--st-neural-art", nargs="?", const="default", metavar="[PROFILE@]FILE.json", help="a profile, or its name"
    )
    for side in ("input", "output"):
        parser.add_argument(
            f"--{side}-data-type", default="", metavar="TYPE", help="float32, int8 or uint8; or one for each: a,b"
        )
        parser.add_argument(
            f"--{side}s-ch-position", choices=["chfirst", "chlast"], default="", help=f"channels of the {side}s"
        )
    parser.add_argument("--fix-parametric-shapes", metavar="SHAPES", help="sizes of free dimensions: name=value,...")
    parser.add_argument(
        *("--cut-output-tensors", "--cut-output-layers"), metavar="NAMES", help="these tensors become the outputs"
    )
    parser.add_argument("--numerics", choices=["best", "2.x"], default="best", help="2.x: the numbers of ST's 2.x")
    parser.add_argument("--prefer", choices=["speed", "memory"], default="speed", help="what to spend memory for")
    parser.add_argument("--seed", type=int, default=0, help="of synthetic inputs (default 0)")
    for side in ("inputs", "outputs"):
        parser.add_argument(
            f"--no-{side}-allocation", action="store_true", help=f"the application supplies the memory of the {side}"
        )
    parser.add_argument(
        "--on", nargs=2, action="append", default=[], metavar=("cpu|npu", "NODE"), help="where a node must run"
    )
    for clock, what in (("npu-mhz", "the NPU"), ("cpu-mhz", "the CPU")):
        parser.add_argument(f"--{clock}", type=positive, default=0.0, metavar="MHZ", help=f"clock of {what}")
    parser.add_argument("--flash-mbps", type=positive, default=0.0, metavar="MBPS", help="speed of the flash, MB/s")
    parser.add_argument("--allow-float", action="store_true", help="also models without any quantised value")
    parser.add_argument(
        "--silicon",
        choices=["seen", "composed"],
        default="composed",
        help="seen: only forms that published programs have as a whole (default: also combinations of seen parts)",
    )
    parser.add_argument(
        "--allow-unproven", action="store_true", help="also forms that no published program comes near"
    )
    parser.add_argument("--no-epoch-controller", action="store_true", help="the processor starts every epoch")
    parser.add_argument(
        *("-r", "--relocatable"), nargs="?", const="", metavar="WORDS", help="for a relocatable image (docs/reloc.md)"
    )
    for names in SETTLED:
        parser.add_argument(*names, action="store_true", help=argparse.SUPPRESS)
    for names in UNUSED:
        parser.add_argument(*names, metavar="X", help=argparse.SUPPRESS)


def add_picture_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trace", type=Path, metavar="FILE.json", help="also write a trace for Perfetto")
    parser.add_argument("--annotate", type=Path, metavar="FILE.onnx", help="also write the graph for Netron")


def write_pictures(network: NetworkView, options: argparse.Namespace) -> None:
    from atonc.report.annotate import annotated
    from atonc.report.perfetto import trace

    for path, make in ((options.trace, trace), (options.annotate, annotated)):
        if path is not None:
            write_file(path, make(network))


def positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above zero")
    return value


def model_path(options: argparse.Namespace) -> Path:
    found: Path | None = options.positional or options.model
    if found is None:
        taken = (("--st-neural-art", options.st_neural_art), ("-r", options.relocatable))
        hint = "".join(f"; {o} took {v}: write it behind the model" for o, v in taken if str(v).endswith(MODELS))
        raise InputError("no model given", remedy=f"name a .tflite or .onnx file{hint}")
    if options.positional and options.model and options.positional != options.model:
        raise InputError("two models given", remedy="name one, as an argument or with -m")
    if not found.exists():
        raise InputError("there is no such file", where=str(found))
    return found


def compiler_options(options: argparse.Namespace, verify: bool) -> Options:
    from atonc.frontends.fixed_shapes import parse_fixed_shapes
    from atonc.options import Options
    from atonc.profiles import read_profile
    from atonc.relocating import words

    asked = words(options.relocatable) if options.relocatable is not None else frozenset()
    for where, node in options.on:
        if where not in ("cpu", "npu"):
            raise InputError(f"{where!r} is no place to run", where="--on", remedy=f"write --on cpu {node}")
    profile = read_profile(options.st_neural_art or "")
    _profile_notes(profile, options)
    options.no_cpu = getattr(options, "no_cpu", False) or profile.no_cpu
    shapes = parse_fixed_shapes(options.fix_parametric_shapes) if options.fix_parametric_shapes else {}
    return Options(
        board=profile.board(options.board),
        mpool=str(options.mpool or profile.memory_pool or ""),
        numerics=options.numerics,
        prefer=options.prefer,
        cut_outputs=tuple(filter(None, (options.cut_output_tensors or "").split(","))),
        input_type=options.input_data_type,
        output_type=options.output_data_type,
        inputs_channel_position=options.inputs_ch_position,
        outputs_channel_position=options.outputs_ch_position,
        fixed_shapes=shapes,
        inputs_allocation=not options.no_inputs_allocation,
        outputs_allocation=not options.no_outputs_allocation,
        on_cpu=tuple(node for where, node in options.on if where == "cpu"),
        on_npu=tuple(node for where, node in options.on if where == "npu"),
        allow_float=options.allow_float,
        silicon=options.silicon,
        allow_unproven=options.allow_unproven,
        epoch_controller=not options.no_epoch_controller,
        relocatable=options.relocatable is not None,
        secure="no-secure" not in asked,
        npu_mhz=options.npu_mhz,
        cpu_mhz=options.cpu_mhz,
        flash_mbps=options.flash_mbps,
        verify=verify,
        seed=options.seed,
    )


def _profile_notes(profile: Profile, options: argparse.Namespace) -> None:
    """Each option once, by name."""
    if profile.ignored:
        note(f"unknown options in the profile are ignored: {', '.join(profile.ignored)}", options)
    if profile.missing:
        note(f"options of the profile that have no effect here: {', '.join(profile.missing)}", options)
    if profile.unknown_keys:
        note(f"unknown keys in the profile are ignored: {', '.join(profile.unknown_keys)}", options)
    unused = [f"--{name.replace('_', '-')}" for names in UNUSED if (name := _key(names)) and getattr(options, name)]
    if unused:
        note(f"options that have no effect here: {', '.join(unused)}", options)


def _key(names: list[str]) -> str:
    return names[-1].lstrip("-").replace("-", "_")


def note(text: str, options: argparse.Namespace) -> None:
    if not options.quiet:
        print(f"atonc: {text}", file=sys.stderr)


@contextlib.contextmanager
def progress(silent: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A progress bar on standard error, on terminals only."""
    if silent or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from atonc.report.terminal import for_colours

    columns = (TextColumn("epochs"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=for_colours(sys.stderr)), transient=True) as bar:
        task = bar.add_task("epochs", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
