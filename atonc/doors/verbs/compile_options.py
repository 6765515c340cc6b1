"""What verbs that compile ask for besides the options of the compiler: each once, as those are in
`atonc.compiler.request.options`.

Many are words of ST's tool for what the compiler takes under another name.
"""

from __future__ import annotations

from pathlib import Path

from atonc.compiler.request.options import EDGES, MAPPING, MEMORY, MODEL, OUTPUT, STAGES
from atonc.machine.base.declare import PAIRS, RARE, Takes, option
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass

TYPES = {"tflite": ".tflite", "onnx": ".onnx", "keras": ""}
# ST's -O: what to spend memory for
OPTIMISE = {"time": "speed", "balanced": "speed", "ram": "memory"}
LAYOUTS = ("zephyr", "openmv", "rust", "cmsis")  # a test holds them against `delivery.layouts.every`
_ALIGNED = "of the {}; any power of two up to 32"


def alignment(text: str) -> int:
    """Buffers of inputs and outputs begin at lines of the processor's cache: 32 bytes."""
    if text not in ("1", "2", "4", "8", "16", "32"):
        raise InputError(
            f"an alignment of {text[:20]} bytes is not offered",
            rule="inputs and outputs begin at multiples of 32 bytes, a line of the processor's cache",
            remedy="leave the option out, or supply the buffers yourself (--no-inputs-allocation)",
        )
    return int(text)


@dataclass(frozen=True)
class ModelOptions:
    """Options of every verb that compiles a model; names are those of ST's tool."""

    model: Path | None = option(
        None,
        "-m --model",
        MODEL,
        "the same as an option",
        metavar="MODEL",
        parse=Path,
        takes=Takes(local=True, rare=True, once=True),
    )
    name: str = option("network", "-n --name", MODEL, "prefix of files and C names")
    type: str = option(
        "",
        "-t --type",
        MODEL,
        "of the model file, if it must be checked",
        takes=Takes(choices=tuple(TYPES), local=True, rare=True),
    )
    target: str = option(
        "stm32n6",
        "--target",
        MEMORY,
        "the only target",
        takes=Takes(choices=("stm32n6",), local=True, rare=True),
    )
    st_neural_art: str | None = option(
        None,
        "--st-neural-art",
        MEMORY,
        "ST's profile: a built-in name, a file, or both",
        metavar="[PROFILE@]FILE.json",
        takes=Takes(bare="default", local=True),
    )
    allocate_inputs: bool = option(
        False, "--allocate-inputs", EDGES, "the network has the memory of the inputs (default)", takes=RARE
    )
    input_memory_alignment: int = option(
        32, "--input-memory-alignment", EDGES, _ALIGNED.format("inputs"), metavar="BYTES", parse=alignment, takes=RARE
    )
    allocate_outputs: bool = option(
        False, "--allocate-outputs", EDGES, "the network has the memory of the outputs (default)", takes=RARE
    )
    output_memory_alignment: int = option(
        32, "--output-memory-alignment", EDGES, _ALIGNED.format("outputs"), metavar="BYTES", parse=alignment, takes=RARE
    )
    optimization: str = option(
        "",
        "-O --optimization",
        MEMORY,
        "of ST's tool: ram is --prefer memory, time and balanced are --prefer speed",
        takes=Takes(choices=tuple(OPTIMISE), rare=True),
    )
    on: tuple[str, ...] = option(
        (),
        "--on",
        MAPPING,
        "where a node must run",
        metavar="cpu|npu NODE",
        takes=Takes(many=PAIRS, rare=True),
    )
    enable_epoch_controller: bool = option(
        False, "--enable-epoch-controller --eec", MAPPING, "epochs run on the NPU's own controller (default)",
        takes=RARE,
    )
    relocatable: str | None = option(
        None,
        "-r --relocatable",
        MEMORY,
        "for a relocatable image: split, no-secure, gen-c-files, separated by commas (docs/reloc.md)",
        metavar="WORDS",
        takes=Takes(bare="", rare=True),
    )
    c_api: str = option(
        "legacy",
        "--c-api",
        OUTPUT,
        "also the files of the st-ai interface (st-ai, as --stai), or not (legacy)",
        takes=Takes(choices=("st-ai", "legacy"), rare=True),
    )


@dataclass(frozen=True)
class WrittenOptions:
    """Options of `generate`: the files of the network."""

    output: Path = option(
        Path("st_ai_output"),
        "-o --output",
        OUTPUT,
        "folder",
        metavar="DIR",
        parse=Path,
        takes=Takes(local=True),
    )
    hex: bool = option(False, "--hex", OUTPUT, "memory images also as Intel HEX, with their addresses", takes=RARE)
    binary: bool = option(False, "--binary", OUTPUT, "memory images as binary files (default)", takes=RARE)
    shared_kernels: bool = option(
        False, "--shared-kernels", OUTPUT, "CPU kernels in atonc_kernels.c, .h for all networks, not in each NAME.c",
        takes=RARE,
    )
    runtime: str = option(
        "", "--runtime", OUTPUT, "LL_ATON release for relocatable images, ours and ST's packager's", metavar="VERSION",
        takes=RARE,
    )
    layout: str = option(
        "", "--layout", OUTPUT, "also a folder NAME_LAYOUT for another project (docs/generated-files.md)",
        takes=Takes(choices=LAYOUTS, local=True, rare=True),
    )
    stai: bool = option(False, "--stai", OUTPUT, "also stai_NAME.c, .h, for applications of Core 3.0 on", takes=RARE)


@dataclass(frozen=True)
class AnalyzeOptions:
    """Options of `analyze`."""

    output: Path | None = option(
        None,
        "-o --output",
        OUTPUT,
        "also write the reports and NAME_c_info.json into this folder",
        metavar="DIR",
        parse=Path,
        takes=Takes(local=True),
    )
    pareto: Path | None = option(
        None,
        "--pareto",
        OUTPUT,
        "RAM against time instead: every program that no other beats in both, as a table and a page; the decisions of "
        "each go to a folder by the name of the page",
        metavar="FILE.html",
        parse=Path,
        takes=Takes(bare="pareto.html", local=True, rare=True),
    )


@dataclass(frozen=True)
class StageOptions:
    """Options of `generate` and `analyze`."""

    report: bool = option(True, "--no-report", OUTPUT, "write no reports", takes=Takes(local=True, rare=True))
    dump: Path | None = option(
        None,
        "--dump",
        OUTPUT,
        "what each stage hands to the next, as text",
        metavar="DIR",
        parse=Path,
        takes=Takes(local=True, rare=True),
    )
    stop_after: str | None = option(
        None,
        "--stop-after",
        OUTPUT,
        "with --dump: go no further",
        takes=Takes(choices=STAGES, local=True, rare=True),
    )


@dataclass(frozen=True)
class PictureOptions:
    """Other views of what was compiled."""

    trace: Path | None = option(
        None,
        "--trace",
        OUTPUT,
        "also write a trace for Perfetto",
        metavar="FILE.json",
        parse=Path,
        takes=Takes(local=True, rare=True),
    )
    annotate: Path | None = option(
        None,
        "--annotate",
        OUTPUT,
        "also write the graph for Netron",
        metavar="FILE.onnx",
        parse=Path,
        takes=Takes(local=True, rare=True),
    )
