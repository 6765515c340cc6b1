"""What the user may ask of `atonc validate` beside the options of the compiler: every option once."""

from __future__ import annotations

from pathlib import Path

from atonc.compiler.request.options import CHECKS, OUTPUT, frames, share, whole
from atonc.machine.base.declare import RARE, SEVERAL, Takes, declared, default_of, option
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass

DATA = "inputs of the comparison"
PLACE = "where the program runs"
SAMPLES = 10
BOARD_SAMPLES, BOARD_FRAMES = 2, 5  # a virtual processor takes its time
# the one threshold of `validate` and of the summary of `generate`: classes and boxes hardly move above it, and correct
# roundings of most networks stay above
MIN_COSINE = 0.98
FOLDER = Path("st_ai_output")
# ST's modes beside ours: the emulator stands for its host
MODES = {
    **{"emulator": "emulator", "host": "emulator", "host-io-only": "emulator"},
    **{"board": "board", "target": "target", "target-io-only": "target"},
}
_BATCHES = f"samples (default {SAMPLES}, more if the verdict is unclear; with -vi: all)"
_FRAMES = "networks with states: frames of each of -b sequences (default 20, or all of a file)"
_INPUTS = "inputs by name in .npz, or .npy, .csv, or images; an array labels has the right classes"
_OUTPUTS = "outputs to compare with, in the same formats, before those of the model's own kernels"
_RANGES = "random values between these instead of natural-looking inputs; a pair for each input, or one for all"
_MODES = (
    "emulator, which host means too; board: as Arm code on a virtual STM32N6, compared byte by byte with the "
    "emulator; target: on a board that answers ST's validation protocol, real or virtual (-d); ...-io-only: "
    "with --io-only"
)
_BUILT = (
    "with --mode target and board: NAME_c_info.json of the folder that was built; without it the network is found by "
    "its hash in st_ai_output here, beside the model or in the folder of -o; the model is compiled only where none fits"
)
_BISECT = (
    "with --mode target: find the first layer whose bytes differ from the emulator's, and the "
    "likely cause (CPU, NPU, memory, transfer)"
)
_LINE = "with --mode target: the line to the board, serial[:PORT][:BAUD] or socket:HOST:PORT"
_RECORD = "with --mode target: write inputs, outputs, times and versions, so that others can check them"
_RECORD_BOARD = "with --record: what it ran on, such as stm32n6570-dk or 'virtual board'"
_RECORD_LICENCE = "with --record: under which licence others may use it, such as CC0-1.0"
_PAGE = "write a page: of a sequence the drift over time; with --mode target the report with the measured times"
_CLOSE = "minimum cosine of an output, unless the reference's own kernels differ as much"
_PATIENCE = "with --mode target: seconds that an inference may take"
_RUNTIME = "with --mode board: a folder with ST's LL_ATON sources and CMSIS headers, instead of our runtime"
_CSV = f"write them as NAME_val_m_inputs_1.csv and so on too (into {FOLDER} without -o)"


@dataclass(frozen=True)
class ValidateOptions:
    """Flags of the command line with their help, in their order."""

    valinput: tuple[Path, ...] = option(
        (), "-vi --valinput --input", DATA, _INPUTS, metavar="FILE", parse=Path, takes=Takes(many=SEVERAL)
    )
    valoutput: tuple[Path, ...] = option(
        (), "-vo --valoutput", DATA, _OUTPUTS, metavar="FILE", parse=Path, takes=Takes(many=SEVERAL, rare=True)
    )
    batches: int = option(
        *(0, "-b --batches --batch-size --samples", DATA, _BATCHES),
        metavar="N",
        parse=whole,
    )
    frames: int = option(
        *(0, "--frames", DATA, _FRAMES),
        metavar="N",
        parse=frames,
    )
    range: tuple[float, ...] = option(
        (), "--range", DATA, _RANGES, metavar="MIN MAX", parse=float, takes=Takes(many=SEVERAL, rare=True)
    )
    mode: str = option("emulator", "--mode", PLACE, _MODES, takes=Takes(choices=tuple(MODES)))
    val_json: Path | None = option(None, "--val-json", PLACE, _BUILT, metavar="FILE.json", parse=Path, takes=RARE)
    desc: str = option("serial", "-d --desc", PLACE, _LINE, metavar="LINE")
    bisect: bool = option(False, "--bisect", PLACE, _BISECT)
    record: Path | None = option(None, "--record", PLACE, _RECORD, metavar="FILE.npz", parse=Path, takes=RARE)
    record_board: str = option("", "--record-board", PLACE, _RECORD_BOARD, metavar="NAME", takes=RARE)
    record_licence: str = option("", "--record-licence", PLACE, _RECORD_LICENCE, metavar="SPDX", takes=RARE)
    page: Path | None = option(None, "--page", PLACE, _PAGE, metavar="FILE.html", parse=Path, takes=RARE)
    patience: float = option(120.0, "--patience", PLACE, _PATIENCE, metavar="S", parse=float, takes=RARE)
    runtime: Path | None = option(None, "--runtime", PLACE, _RUNTIME, metavar="DIR", parse=Path, takes=RARE)
    io_only: bool = option(False, "--io-only", CHECKS, "only the outputs, not every layer: faster")
    no_exec_model: bool = option(False, "--no-exec-model", CHECKS, "do not run the model's own kernels", takes=RARE)
    classifier: bool = option(
        False, "--classifier", CHECKS, "also count right classes, with or without labels", takes=RARE
    )
    min_cos: float = option(MIN_COSINE, "--min-cos", CHECKS, _CLOSE, metavar="C", parse=share)
    per_layer: bool = option(False, "--per-layer", OUTPUT, "list every layer (with -v or --json)", takes=RARE)
    output: Path | None = option(
        None, "-o --output", OUTPUT, "write inputs and outputs: NAME_val_io.npz", metavar="DIR", parse=Path
    )
    save_csv: bool = option(False, "--save-csv", OUTPUT, _CSV, takes=RARE)
    no_report: bool = option(
        False, "--no-report", OUTPUT, "changes nothing: reports are only written on request", takes=RARE
    )


def require_comparison(asked: ValidateOptions) -> None:
    """For who compares on the emulator alone and writes nothing: other wishes would have no effect."""
    for member, known in declared(ValidateOptions):
        if known.group in (PLACE, OUTPUT) and getattr(asked, member.name) != default_of(member):
            raise InputError(
                f"{member.name} has no effect here",
                rule="in Python a model is validated on the emulator, and nothing is written",
                remedy=f"atonc validate has {known.flags[-1]}",
            )
