"""The Python interface: what `import atonc` offers (docs/python.md). `atonc/__init__.py` hands these names on, so that
importing the package loads none of its rooms; each function loads those that it needs. What users hand over as a model
or as data may be in memory: everything below reads files, so it becomes one in a folder of its own, for as long as it
is read."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike, sep
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeAlias

from atonc.compiler.request.options import Options
from atonc.delivery.application.types import AppOptions, AppUpdateOptions
from atonc.delivery.reloc.options import RelocOptions
from atonc.insight.evaluating.options import EvaluateOptions
from atonc.insight.quantizing.types import Quantised, QuantizeOptions
from atonc.insight.report.terminal import in_notebook
from atonc.insight.sweeping.plan import SweepOptions
from atonc.insight.validating.validate_options import ValidateOptions, require_comparison
from atonc.machine.base import errors as errors
from atonc.machine.base.about import __version__ as __version__
from atonc.machine.base.declare import arguments
from atonc.machine.base.errors import AtoncError, InputError
from atonc.machine.hw.board import find_board, split_choice

if TYPE_CHECKING:
    from onnx import ModelProto

    from atonc.compiler.compile.pipeline import Compiled
    from atonc.compiler.ir import Array, Graph
    from atonc.delivery.application.building import BuiltApplication
    from atonc.delivery.application.updating import BuiltUpdate
    from atonc.delivery.boards.checking import Checked
    from atonc.delivery.front_end.image_twin import ImageFrontEnd
    from atonc.delivery.front_end.twin import FrontEnd
    from atonc.delivery.trials.relocating import RelocatableImage
    from atonc.doors.python.compilation import Compilation
    from atonc.doors.python.results import (
        ComparisonResult,
        EstimateResult,
        EvaluationResult,
        QuantisedResult,
        SweepTable,
        ValidationResult,
    )
    from atonc.insight.explain.types import AccuracyReport, NetworkView
    from atonc.machine.emu.network import EmulatedNetwork
    from atonc.machine.hw.board import Board

    Model: TypeAlias = str | PathLike[str] | bytes | ModelProto | Quantised | Compilation
    Data: TypeAlias = str | PathLike[str] | Mapping[str, Array]

_UNNAMED = "model"
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")  # a model's name is no path
_MOST_NAME = 48


@contextmanager
def model_file(model: Model) -> Iterator[Path]:
    """The file of a model; that of a compilation is the one that it was made from."""
    from atonc.doors.python.compilation import Compilation

    if isinstance(model, Compilation):
        with model_file(model.model) as file:
            model.require_unchanged(file)
            yield file
        return
    if isinstance(model, str | PathLike):
        yield Path(model)
        return
    name, content = _content(model)
    with _kept(name, content) as file:
        yield file


def _options(model: Model, given: Mapping[str, Any] | None) -> Options:
    """Options of the compiler for a verb that verifies nothing: those given, or those of the compilation."""
    from atonc.doors.python.compilation import Compilation

    if not isinstance(model, Compilation):
        asked: Options = arguments(Options, {"verify": False, **(given or {})})
        return asked
    if given:
        raise InputError(
            f"{', '.join(given)} for a model that is compiled already", remedy="give them to atonc.compile, or a path"
        )
    return replace(model.view.options, verify=False)


def _place(value: Any, what: str, remedy: str) -> Path:
    if not isinstance(value, str | PathLike):
        raise InputError(f"{what}, not of type {type(value).__name__}", remedy=remedy)
    return Path(value)


@contextmanager
def build_folder(side: Model) -> Iterator[Path]:
    """A folder of a build, or a model; a compilation is written down first."""
    from atonc.doors.python.compilation import Compilation

    if not isinstance(side, Compilation):
        with model_file(side) as place:
            yield place
        return
    with TemporaryDirectory() as work:
        side.save(Path(work) / "build")
        yield Path(work) / "build"


@contextmanager
def data_file(data: Data) -> Iterator[Path]:
    """Samples: a file or folder, or arrays by name."""
    if isinstance(data, str | PathLike):
        yield Path(data)
        return
    if not isinstance(data, Mapping):
        raise InputError(
            f"data cannot be of type {type(data).__name__}",
            rule="data is the path of a file or folder, or a dictionary of arrays, samples first",
            remedy="give a dictionary with the names of the inputs",
        )
    from atonc.insight.runs.runs import npz

    with _kept("data.npz", npz(data)) as file:
        yield file


@contextmanager
def data_files(data: Data | None) -> Iterator[tuple[Path, ...]]:
    """The same where there may be none."""
    if data is None:
        yield ()
        return
    with data_file(data) as file:
        yield (file,)


@contextmanager
def _kept(name: str, content: bytes) -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        file = Path(folder) / name
        file.write_bytes(content)
        try:
            yield file
        except AtoncError as error:
            error.where = error.where.replace(f"{folder}{sep}", "")  # users know nothing of this folder
            raise


def _content(model: Any) -> tuple[str, bytes]:
    """A name for the file, and what is in it."""
    from atonc.compiler.frontends.read import is_tflite

    if isinstance(model, bytes):
        return f"{_UNNAMED}.{'tflite' if is_tflite(Path(_UNNAMED), model) else 'onnx'}", model
    if isinstance(model, Quantised):
        return f"{_plain(Path(model.source).stem)}_int8.onnx", model.model
    if "onnx" in sys.modules and isinstance(model, sys.modules["onnx"].ModelProto):
        return f"{_plain(model.graph.name)}.onnx", _serialised(model)
    raise InputError(
        f"a model cannot be of type {type(model).__name__}",
        rule="a model is the path of a .tflite or .onnx file, its bytes, an onnx.ModelProto, or what atonc.quantize "
        "gives",
        remedy="export it as TFLite or ONNX first",
    )


def _serialised(model: Any) -> bytes:
    from atonc.compiler.frontends.limits import MAX_FILE_BYTES, stored_beside

    if any(stored_beside(model)):
        raise InputError(
            "constants of the onnx.ModelProto lie in files beside the model",
            remedy="give the path of the model, or onnx.load it with load_external_data=True",
        )
    if model.ByteSize() > MAX_FILE_BYTES:  # protobuf itself fails at 2 GiB, with words of its own
        raise InputError(f"the model has {model.ByteSize():,} bytes", rule=f"at most {MAX_FILE_BYTES:,} are read")
    return bytes(model.SerializeToString(deterministic=True))


def _plain(name: str) -> str:
    return _NOT_IN_NAMES.sub("_", name).strip("_")[:_MOST_NAME] or _UNNAMED


def compile(model: Model, *, name: str = "network", **options: Any) -> Compilation:
    """A quantised model as a verified program: the path of a .tflite or .onnx file, its bytes, an `onnx.ModelProto`, or
    what `quantize` gives.

    The options are those of `atonc.compiler.request.options.Options`, also spelled as on the command line
    (`input_data_type="uint8"`); `resident=True` is `--resident`.

    >>> c = atonc.compile("examples/digits/digits.tflite", resident=True)
    >>> c.latency_ms < 1, c.memory.resident_bytes > 0, len(c.layers)
    (True, True, 8)
    """
    from atonc.delivery.generate.generating import analyze
    from atonc.doors.python.compilation import Compilation

    wanted = arguments(Options, options)
    with in_notebook(), model_file(model) as file:
        return Compilation(analyze(file, wanted, name), model)


def application(
    source: str | PathLike[str] | Iterable[str | PathLike[str]],
    output: str | PathLike[str] | None = None,
    *,
    compiler: Mapping[str, Any] | None = None,
    **options: Any,
) -> BuiltApplication:
    """Several networks in one firmware: an application file, or models that take turns. Written to `output`, if given.

    The options are those of `atonc.delivery.application.types.AppOptions`, also spelled as on the command line;
    `compiler`: those of `atonc.compile`, for a list of models.

    >>> found = atonc.application(["examples/digits/digits.tflite", "examples/digits/digits.onnx"])
    >>> [one.name for one in found.figures.networks]
    ['digits', 'digits_2']
    """
    from atonc.delivery.application.read import of_models, read_application
    from atonc.delivery.trials.applications import build_and_try

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

    The options are those of `atonc.delivery.application.types.AppUpdateOptions`, also spelled as on the command line.

    >>> found = atonc.update_network("app.toml", "reid", "update", built="build")  # doctest: +SKIP
    """
    from atonc.delivery.application.read import read_application
    from atonc.delivery.trials.applications import update_and_try

    wanted = arguments(AppUpdateOptions, options)
    with in_notebook():
        return update_and_try(read_application(Path(source)), network, None if output is None else Path(output), wanted)


def quantize(model: Model, data: Data, **options: Any) -> QuantisedResult:
    """A float model as int8 ONNX, calibrated with a folder of pictures, an .npz file, or arrays by name.

    The options are those of `atonc.insight.quantizing.types.QuantizeOptions`, also spelled as on the command line.

    >>> found = atonc.quantize("float.onnx", "photos")  # doctest: +SKIP
    >>> c = atonc.compile(found)  # doctest: +SKIP
    """
    from atonc.doors.python.results import QuantisedResult
    from atonc.insight.quantizing.run import quantize as run_all

    wanted = arguments(QuantizeOptions, options)
    with in_notebook(), model_file(model) as file, data_file(data) as samples:
        return QuantisedResult.of(run_all(file, samples, wanted))


def validate(
    model: Model, inputs: Data | None = None, *, compiler: Mapping[str, Any] | None = None, **options: Any
) -> ValidationResult:
    """The compiled program on the emulator against the model's own kernels, on `inputs` or on made ones: of a model,
    or of what `compile` gave.

    The options are those of `atonc.insight.validating.validate_options.ValidateOptions` that say what is compared;
    `compiler`: those of `atonc.compile`.

    >>> c = atonc.compile("examples/digits/digits.tflite")
    >>> atonc.validate(c, "examples/digits/test.npz", batches=4, io_only=True).verdict
    'passed'
    """
    from atonc.doors.python.compilation import Compilation
    from atonc.doors.python.results import ValidationResult
    from atonc.insight.validating.validating import validate_model

    wanted = arguments(ValidateOptions, options)
    require_comparison(wanted)
    asked = _options(model, compiler)
    known = model.compiled if isinstance(model, Compilation) else None
    with in_notebook(), model_file(model) as file, data_files(inputs) as files:
        wanted = replace(wanted, valinput=(*wanted.valinput, *files))
        return ValidationResult.of(validate_model(file, wanted, asked, known), min_cosine=wanted.min_cos)


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

    >>> found = atonc.evaluate("examples/digits/digits.tflite", "examples/digits/test.npz", limit=4)
    >>> found.sides["NPU"][0].value
    1.0
    """
    from atonc.doors.python.results import EvaluationResult
    from atonc.insight.evaluating.run import evaluate as run_evaluation

    asked = _options(model, compiler)
    with in_notebook(), model_file(model) as file, data_file(data) as samples:
        wanted = arguments(EvaluateOptions, {"data": samples, **options})
        return EvaluationResult.of(run_evaluation(file, wanted, asked, Path(output)))


def front_end(source: str | PathLike[str] | Mapping[str, Any]) -> FrontEnd | ImageFrontEnd:
    """A front end from a preset, a file `front_end.toml`, its sections, or a model that begins with it: called with
    samples, or with an image, it gives the codes that the C code of `generate --front-end` gives (docs/front_ends.md).

    >>> import numpy as np
    >>> atonc.front_end("nemo").features(np.zeros(16000, np.int16)).shape
    (99, 80)
    >>> atonc.front_end("imagenet_torchvision").features(np.zeros((480, 640, 3), np.uint8)).shape
    (224, 224, 3)
    """
    from atonc.delivery.front_end.image import ImagePipeline
    from atonc.delivery.front_end.image_twin import image_front_end
    from atonc.delivery.front_end.of_model import load as load_front_end
    from atonc.delivery.front_end.twin import front_end as sound_front_end

    if not isinstance(source, str | Mapping):
        source = _place(source, "a front end is a preset, a file or its sections", 'such as "nemo" or "front_end.toml"')
    found = load_front_end(source)
    return image_front_end(found) if isinstance(found, ImagePipeline) else sound_front_end(found)


def load(folder: str | PathLike[str], name: str | None = None) -> EmulatedNetwork:
    """A compiled network from its folder, ready to run.

    >>> files = atonc.compile("examples/digits/digits.tflite").save("build")
    >>> [one.name for one in atonc.load("build").outputs]
    ['probabilities']
    """
    from atonc.machine.emu import network

    where = _place(folder, "a folder is named by its path", "atonc.run takes what atonc.compile gives as it is")
    return network.load(where, name)


def run(
    network: Compilation | Compiled | EmulatedNetwork | str | PathLike[str], inputs: Mapping[str, Any]
) -> dict[str, Array]:
    """Outputs by name, as the emulated chip computes them: of what `compile` or `load` gave, of a folder, of a file
    of `--layout tflite`, whose other operators LiteRT runs, or of an ExecuTorch program (.pte) with our delegates.

    Inputs by name: codes in the type of the input, real numbers (float), which become codes, or images.

    >>> import numpy as np
    >>> c = atonc.compile("examples/digits/digits.tflite")
    >>> int(atonc.run(c, {"image": np.load("examples/digits/test.npz")["image"][0]})["probabilities"].argmax())
    2
    """
    from atonc.doors.python.compilation import Compilation, run_compiled, run_loaded
    from atonc.machine.emu.network import EmulatedNetwork

    if isinstance(network, str | PathLike):
        kind = Path(network).suffix.lower()
        if kind == ".tflite":
            from atonc.delivery.trials.tflite_running import TfliteRunner

            with TfliteRunner(Path(network)) as tflite:
                return tflite.run(inputs)
        if kind == ".pte":
            from atonc.delivery.trials.pte_running import PteRunner

            with PteRunner(Path(network)) as program:
                return program.run(inputs)
        network = load(network)
    if isinstance(network, EmulatedNetwork):
        return run_loaded(network, inputs)
    return run_compiled(network.compiled if isinstance(network, Compilation) else network, inputs)


def estimate(model: Model | Graph, example: Any = None, **options: Any) -> EstimateResult:
    """What a model costs that nobody has trained or quantised yet (docs/estimate.md): milliseconds, RAM, flash, energy,
    and a table of its layers. Also of a quantised one, faster than by compiling it.

    A path, bytes or `onnx.ModelProto`, a graph of ours, or a PyTorch module with an `example` of its inputs. Of the
    options of `atonc.compile` those count that say for what and how much of a model is compiled.

    >>> found = atonc.estimate("examples/digits/digits.tflite")
    >>> 0 < found.latency_ms < 1, found.layers[0].kind
    (True, 'conv')
    """
    from atonc.compiler.ir import Graph
    from atonc.doors.python.results import EstimateResult
    from atonc.insight.estimating.estimate import TAKEN
    from atonc.insight.estimating.estimate import estimate as estimated

    asked: Options = arguments(Options, options)
    if others := sorted(name for name in options if name.replace("-", "_") not in TAKEN):
        raise InputError(f"{others[0][:60]} does not count in an estimate", remedy=f"it takes {', '.join(TAKEN)}")
    if isinstance(model, Graph):
        return EstimateResult.of(estimated(model, asked))
    from atonc.insight.quantizing.from_torch import onnx_of_module

    if example is not None and not hasattr(model, "named_modules"):
        raise InputError(f"{type(model).__name__} is no PyTorch module", remedy="an example goes with modules only")
    if example is None and hasattr(model, "named_modules"):
        rule = "a PyTorch module is exported with an example of its inputs"
        raise InputError(f"{type(model).__name__} has no example", rule=rule, remedy="estimate(module, example)")
    given: Model = model if example is None else onnx_of_module(model, example)
    with in_notebook(), model_file(given) as file:
        return EstimateResult.of(estimated(file, asked))


def explain(place: Model, prices: bool = False, **options: Any) -> NetworkView:
    """Every layer with where it runs and the rules that decided so: of a model, of what `compile` gave, or of a folder
    of ours or ST's.

    `prices`: options that may help are tried, which compiles the model several times.

    >>> found = atonc.explain(atonc.compile("examples/digits/digits.tflite"))
    >>> found.layers[-1].on, found.layers[-1].decisions[0].rule.id
    ('cpu', 'CPU-SOFTMAX')
    """
    from atonc.delivery.generate import generating
    from atonc.doors.python.compilation import Compilation
    from atonc.insight.explain.actions import priced
    from atonc.insight.explain.folder import folder_view
    from atonc.insight.explain.ours import network_view

    wanted = _options(place, options)
    with in_notebook(), model_file(place) as file:
        if file.is_dir():
            return folder_view(file)
        view = place.view if isinstance(place, Compilation) else generating.analyze(file, wanted)
        return priced(view, network_view(view))[0] if prices else network_view(view)


def explain_accuracy(
    model: Model,
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

    >>> found = atonc.explain_accuracy("examples/digits/digits.tflite", samples=1, remedies=False)
    >>> found.outputs[0][0]
    'probabilities'
    """
    from atonc.compiler.compile.pipeline import compile_file
    from atonc.insight.accuracy.explain import explain_accuracy as explained

    wanted = _options(model, options)
    original, files = None if float_model is None else Path(float_model), [] if inputs is None else [Path(inputs)]
    with in_notebook(), model_file(model) as file:
        found = explained(compile_file(file, wanted), wanted, original, files, samples, remedies)
    return replace(found, model=errors.plain(file.name))


def sweep(file: str | PathLike[str], **options: Any) -> SweepTable:
    """Models or applications x sizes x options x boards as a .toml file names them (docs/sweep.md): a row for each.

    The options are those of `atonc.insight.sweeping.plan.SweepOptions`; nothing is written but the cache of rows.

    >>> found = atonc.sweep("sweep.toml")  # doctest: +SKIP
    >>> found.rows()[0]["latency_ms"]  # doctest: +SKIP
    """
    from atonc.delivery.application.comparing import sweep as run_all
    from atonc.doors.python.results import SweepTable

    plan = _place(file, "a sweep is a .toml file", 'name the models in it: models = ["a.tflite", ...] (docs/sweep.md)')
    with in_notebook():
        return SweepTable.of(run_all(plan, arguments(SweepOptions, options)))


def compare(
    a: Model,
    b: Model,
    *,
    inputs: Data | None = None,
    seed: int | None = None,
    board: str = "stm32n6570-dk",
) -> ComparisonResult:
    """Two builds side by side: compilations, folders of ours or ST's, or models, which are compiled for `board`.

    With `inputs`, or a photo-like one made from `seed`, both are run and their outputs compared.

    >>> a, b = (atonc.compile("examples/digits/digits.tflite", prefer=one) for one in ("speed", "memory"))
    >>> atonc.compare(a, b).rows()[0]["name"]
    'latency'
    """
    from atonc.delivery.generate.comparing import CompareInputs, compare_builds
    from atonc.doors.python.results import ComparisonResult

    with in_notebook(), build_folder(a) as left, build_folder(b) as right, data_files(inputs) as files:
        return ComparisonResult.of(compare_builds(left, right, board, CompareInputs(files, seed)))


def relocate(
    folder: str | PathLike[str] | Compilation, output: str | PathLike[str], **options: Any
) -> RelocatableImage:
    """A relocatable image of the network in a folder, or of what `compile` gave; the options are those of
    `atonc.delivery.reloc.options.RelocOptions`.

    >>> image = atonc.relocate("build", "image", split=True)  # doctest: +SKIP
    """
    from atonc.delivery.trials.relocating import relocate as build

    with build_folder(folder) as place:
        return build(place, Path(output), arguments(RelocOptions, options))


def describe_board(board: str = "stm32n6570-dk") -> Board:
    """Memories, areas, pool sets and clocks of a board: by its name, or by the path of its .toml file.

    >>> atonc.describe_board("stm32n6570-dk").clocks["npu_mhz"]
    1000
    """
    return find_board(board)


def check_firmware(
    image: str | PathLike[str],
    board: str = "stm32n6570-dk",
    pool_files: Iterable[str | PathLike[str]] = (),
    networks: Iterable[str | PathLike[str]] = (),
) -> Checked:
    """Overlaps of a linked image with pools, networks, frame buffers, loader and flash slots.

    >>> atonc.check_firmware("app.elf", networks=["build"]).findings  # doctest: +SKIP
    """
    from atonc.delivery.boards.checking import CheckRequest, check

    files, folders = tuple(map(Path, pool_files)), tuple(map(Path, networks))
    return check(CheckRequest(find_board(board), split_choice(board)[0], (Path(image),), files, folders))
