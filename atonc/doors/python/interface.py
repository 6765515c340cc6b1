"""The Python interface: what `import atonc` offers (docs/python.md). `atonc/__init__.py` hands these names on, so that
importing the package loads none of its rooms; each function loads those that it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from atonc.machine.base import errors as errors
from atonc.machine.base.about import __version__ as __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from os import PathLike

    from atonc.compiler.compile.pipeline import Compiled
    from atonc.compiler.ir import Array
    from atonc.delivery.application.building import BuiltApplication
    from atonc.delivery.application.updating import BuiltUpdate
    from atonc.delivery.boards.checking import Checked
    from atonc.delivery.trials.relocating import RelocatableImage
    from atonc.doors.python.compilation import Compilation
    from atonc.doors.python.results import (
        ComparisonResult,
        EvaluationResult,
        QuantisedResult,
        SweepTable,
        ValidationResult,
    )
    from atonc.doors.python.sources import Data, Model
    from atonc.insight.explain.types import AccuracyReport, NetworkView
    from atonc.machine.emu.network import EmulatedNetwork
    from atonc.machine.hw.board import Board


def compile(model: Model, *, name: str = "network", **options: Any) -> Compilation:
    """A quantised model as a verified program: the path of a .tflite or .onnx file, its bytes, an `onnx.ModelProto`, or
    what `quantize` gives.

    The options are those of `atonc.compiler.request.options.Options`, also spelled as on the command line
    (`input_data_type="uint8"`).
    """
    from atonc.compiler.request.options import Options
    from atonc.delivery.generate.generating import analyze
    from atonc.doors.python.compilation import Compilation
    from atonc.doors.python.sources import model_file
    from atonc.insight.report.terminal import in_notebook
    from atonc.machine.base.declare import arguments

    wanted = arguments(Options, options)
    with in_notebook(), model_file(model) as file:
        return Compilation(analyze(file, wanted, name))


def application(
    source: str | PathLike[str] | Iterable[str | PathLike[str]],
    output: str | PathLike[str] | None = None,
    *,
    compiler: Mapping[str, Any] | None = None,
    **options: Any,
) -> BuiltApplication:
    """Several networks in one firmware: an application file, or models that take turns. Written to `output`, if given.

    The options are those of `atonc.delivery.application.options.AppOptions`, also spelled as on the command line;
    `compiler`: those of `atonc.compile`, for a list of models.
    """
    import os
    from pathlib import Path

    from atonc.compiler.request.options import Options
    from atonc.delivery.application.options import AppOptions
    from atonc.delivery.application.read import of_models, read_application
    from atonc.delivery.trials.app_running import build_and_try
    from atonc.insight.report.terminal import in_notebook
    from atonc.machine.base.declare import arguments

    wanted = arguments(AppOptions, options)
    if isinstance(source, (str, os.PathLike)):
        if compiler:
            raise errors.InputError("options of the compiler with an application file", remedy="say them in the file")
        asked = read_application(Path(source))
    else:
        asked = of_models([Path(model) for model in source], arguments(Options, dict(compiler or {})))
    with in_notebook():
        return build_and_try(asked, None if output is None else Path(output), wanted)


def update_network(
    source: str | PathLike[str], network: str, output: str | PathLike[str] | None = None, **options: Any
) -> BuiltUpdate:
    """The next version of a relocatable network of an application, for firmware that was built before (`built`).

    The options are those of `atonc.delivery.application.options.AppUpdateOptions`, also spelled as on the command line.
    """
    from pathlib import Path

    from atonc.delivery.application.options import AppUpdateOptions
    from atonc.delivery.application.read import read_application
    from atonc.delivery.trials.app_updating import update_and_try
    from atonc.insight.report.terminal import in_notebook
    from atonc.machine.base.declare import arguments

    wanted = arguments(AppUpdateOptions, options)
    with in_notebook():
        return update_and_try(read_application(Path(source)), network, None if output is None else Path(output), wanted)


def quantize(model: Model, data: Data, **options: Any) -> QuantisedResult:
    """A float model as int8 ONNX, calibrated with a folder of pictures, an .npz file, or arrays by name.

    The options are those of `atonc.insight.quantizing.types.QuantizeOptions`, also spelled as on the command line.
    """
    from atonc.doors.python.results import QuantisedResult
    from atonc.doors.python.sources import data_file, model_file
    from atonc.insight.quantizing.run import quantize as run_all
    from atonc.insight.quantizing.types import QuantizeOptions
    from atonc.insight.report.terminal import in_notebook
    from atonc.machine.base.declare import arguments

    wanted = arguments(QuantizeOptions, options)
    with in_notebook(), model_file(model) as file, data_file(data) as samples:
        return QuantisedResult.of(run_all(file, samples, wanted))


def validate(
    model: Model, inputs: Data | None = None, *, compiler: Mapping[str, Any] | None = None, **options: Any
) -> ValidationResult:
    """The compiled program on the emulator against the model's own kernels, on `inputs` or on made ones.

    The options are those of `atonc.insight.validating.validate_options.ValidateOptions` that say what is compared;
    `compiler`: those of `atonc.compile`.
    """
    from dataclasses import replace

    from atonc.compiler.request.options import Options
    from atonc.doors.python.results import ValidationResult
    from atonc.doors.python.sources import data_files, model_file
    from atonc.insight.report.terminal import in_notebook
    from atonc.insight.validating.validate_options import ValidateOptions, require_comparison
    from atonc.insight.validating.validating import validate_model
    from atonc.machine.base.declare import arguments

    wanted = arguments(ValidateOptions, options)
    require_comparison(wanted)
    asked = arguments(Options, {"verify": False, **(compiler or {})})
    with in_notebook(), model_file(model) as file, data_files(inputs) as files:
        wanted = replace(wanted, valinput=(*wanted.valinput, *files))
        return ValidationResult.of(validate_model(file, wanted, asked), min_cosine=wanted.min_cos)


def evaluate(
    model: Model,
    data: Data,
    *,
    output: str | PathLike[str] = "evaluation",
    compiler: Mapping[str, Any] | None = None,
    **options: Any,
) -> EvaluationResult:
    """Accuracy on a data set, in the chip's arithmetic, with intervals; beside it the model's own kernels.

    The options are those of `atonc.insight.evaluating.options.EvaluateOptions`; `compiler`: those of `atonc.compile`.
    What is done is kept in `output`, so an interrupted call goes on where it was.
    """
    from pathlib import Path

    from atonc.compiler.request.options import Options
    from atonc.doors.python.results import EvaluationResult
    from atonc.doors.python.sources import data_file, model_file
    from atonc.insight.evaluating.options import EvaluateOptions
    from atonc.insight.evaluating.run import evaluate as run_evaluation
    from atonc.insight.report.terminal import in_notebook
    from atonc.machine.base.declare import arguments

    asked = arguments(Options, {"verify": False, **(compiler or {})})
    with in_notebook(), model_file(model) as file, data_file(data) as samples:
        wanted = arguments(EvaluateOptions, {"data": samples, **options})
        return EvaluationResult.of(run_evaluation(file, wanted, asked, Path(output)))


def load(folder: str | PathLike[str], name: str | None = None) -> EmulatedNetwork:
    """A compiled network from its folder, ready to run."""
    from pathlib import Path

    from atonc.machine.emu import network

    return network.load(Path(folder), name)


def run(network: Compilation | Compiled | EmulatedNetwork, inputs: Mapping[str, Any]) -> dict[str, Array]:
    """Outputs by name, as the emulated chip computes them.

    Inputs by name: codes in the type of the input, real numbers (float), which become codes, or pictures.
    """
    from atonc.doors.python.compilation import Compilation
    from atonc.doors.python.running import run_compiled, run_loaded
    from atonc.machine.emu.network import EmulatedNetwork

    if isinstance(network, EmulatedNetwork):
        return run_loaded(network, inputs)
    return run_compiled(network.compiled if isinstance(network, Compilation) else network, inputs)


def explain(place: Model, prices: bool = False, **options: Any) -> NetworkView:
    """Every layer with where it runs and the rules that decided so: of a model, or of a folder of ours or ST's.

    `prices`: remedies are tried, which compiles the model several times.
    """
    from atonc.compiler.request.options import Options
    from atonc.delivery.generate import generating
    from atonc.doors.python.sources import model_file
    from atonc.insight.explain.folder import folder_view
    from atonc.insight.explain.ours import network_view
    from atonc.insight.explain.remedies import priced
    from atonc.insight.report.terminal import in_notebook
    from atonc.machine.base.declare import arguments

    wanted = arguments(Options, {"verify": False, **options})
    with in_notebook(), model_file(place) as file:
        if file.is_dir():
            return folder_view(file)
        view = generating.analyze(file, wanted)
        return priced(view, network_view(view), wanted) if prices else network_view(view)


def explain_accuracy(
    model: str | PathLike[str],
    *,
    float_model: str | PathLike[str] | None = None,
    inputs: str | PathLike[str] | None = None,
    samples: int = 0,
    remedies: bool = True,
    **options: Any,
) -> AccuracyReport:
    """Where a quantised model loses accuracy against float, layer by layer; what costs most and what mends it.

    `inputs`: .npz, .npy or .csv, else synthetic ones. `remedies`: the three largest losses are mended, measured and
    priced, which compiles the model several times.
    """
    from dataclasses import replace
    from pathlib import Path

    from atonc.compiler.compile.pipeline import compile_file
    from atonc.compiler.request.options import Options
    from atonc.insight.accuracy.explain import explain_accuracy as explained
    from atonc.insight.report.terminal import in_notebook
    from atonc.machine.base.declare import arguments

    wanted = arguments(Options, {"verify": False, **options})
    original, files = None if float_model is None else Path(float_model), [] if inputs is None else [Path(inputs)]
    with in_notebook():
        found = explained(compile_file(Path(model), wanted), wanted, original, files, samples, remedies)
    return replace(found, model=errors.plain(Path(model).name))


def sweep(file: str | PathLike[str], **options: Any) -> SweepTable:
    """Models or applications x sizes x options x boards as a .toml file names them (docs/sweep.md): a row for each.

    The options are those of `atonc.insight.sweeping.plan.SweepOptions`; nothing is written but the cache of rows.
    """
    from pathlib import Path

    from atonc.delivery.application.sweeping import sweep as run_all
    from atonc.doors.python.results import SweepTable
    from atonc.insight.report.terminal import in_notebook
    from atonc.insight.sweeping.plan import SweepOptions
    from atonc.machine.base.declare import arguments

    with in_notebook():
        return SweepTable.of(run_all(Path(file), arguments(SweepOptions, options)))


def compare(
    a: Model | Compilation,
    b: Model | Compilation,
    *,
    inputs: Data | None = None,
    seed: int | None = None,
    board: str = "stm32n6570-dk",
) -> ComparisonResult:
    """Two builds side by side: compilations, folders of ours or ST's, or models, which are compiled for `board`.

    With `inputs`, or a photo-like one made from `seed`, both are run and their outputs compared.
    """
    from atonc.delivery.generate.comparing import CompareInputs, compare_builds
    from atonc.doors.python.results import ComparisonResult
    from atonc.doors.python.sources import build, data_files
    from atonc.insight.report.terminal import in_notebook

    with in_notebook(), build(a) as left, build(b) as right, data_files(inputs) as files:
        return ComparisonResult.of(compare_builds(left, right, board, CompareInputs(files, seed)))


def relocate(folder: str | PathLike[str], output: str | PathLike[str], **options: Any) -> RelocatableImage:
    """A relocatable image of the network in a folder; the options are those of
    `atonc.delivery.reloc.options.RelocOptions`."""
    from pathlib import Path

    from atonc.delivery.reloc.options import RelocOptions
    from atonc.delivery.trials.relocating import relocate as build
    from atonc.machine.base.declare import arguments

    return build(Path(folder), Path(output), arguments(RelocOptions, options))


def describe_board(board: str = "stm32n6570-dk") -> Board:
    """Memories, areas, pool sets and clocks of a board: by its name, or by the path of its .toml file."""
    from atonc.machine.hw.board_file import find_board

    return find_board(board)


def check_firmware(
    image: str | PathLike[str],
    board: str = "stm32n6570-dk",
    pool_files: Iterable[str | PathLike[str]] = (),
    networks: Iterable[str | PathLike[str]] = (),
) -> Checked:
    """Overlaps of a linked image with pools, networks, frame buffers, loader and flash slots."""
    from pathlib import Path

    from atonc.delivery.boards.checking import CheckRequest, check
    from atonc.machine.hw.board_file import find_board, split_choice

    files, folders = tuple(map(Path, pool_files)), tuple(map(Path, networks))
    return check(CheckRequest(find_board(board), split_choice(board)[0], (Path(image),), files, folders))
