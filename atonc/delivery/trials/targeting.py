"""`atonc validate --mode target`: a network on a board that answers the validation protocol, real or virtual.

Nothing that comes over the line is believed at once: who the board is and what it holds is asked twice; outputs count
when they equal the emulator's, or when the board gives the same ones twice; times must agree with their own counters.
What the board may hold is looked for in folders that were built before: the hash on the board decides, or where there
is none what the build was asked for; never a folder's name alone.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.compile.pipeline import read_model
from atonc.compiler.compile.reproduce import MODEL_HASH, edges_of
from atonc.compiler.frontends.limits import model_bytes
from atonc.compiler.inputs.inputs import Sample, edge_values, real
from atonc.compiler.ir import Graph
from atonc.compiler.passes import order
from atonc.compiler.request.options import Options
from atonc.compiler.verify.emulation import Emulation
from atonc.delivery.firmware import image as firmware
from atonc.delivery.trials.boarding import Expectation, KeptStates, expectation, image_network
from atonc.delivery.wire import messages
from atonc.delivery.wire.client import BoardRunResult, Client, ReportedLayer, TargetError
from atonc.delivery.wire.messages import ModelInfo, SystemInfo
from atonc.insight.explain.saved import BuildRequest, read_asked
from atonc.insight.explain.types import Measured, MeasuredBlock
from atonc.insight.runs import runs
from atonc.insight.validating.judging import OutputResult, distance, unit_of
from atonc.insight.validating.references import References
from atonc.insight.validating.sequences import reference_outputs
from atonc.insight.validating.validate_options import FOLDER
from atonc.machine.base.errors import AtoncError, InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.cost import network as costs
from atonc.machine.cost.band import band_of
from atonc.machine.cost.network import StepCost
from atonc.machine.emu import tensors
from atonc.machine.emu.files.network_c import find_networks
from atonc.machine.emu.files.types import BufferInfo
from atonc.machine.emu.network import EmulatedNetwork, load

_REMEDY = (
    "name what was flashed with --val-json FOLDER/NAME_c_info.json; or build and flash the firmware of this model, "
    "with the same options"
)
AGREE = 4  # runs of one input, among which two must agree
_FLOAT_ERROR = 2.0**-21  # of durations, which come as floats
COMPILED = "this compilation"
Progress = Callable[[int, int], None]
Contents = Sequence[tuple[int, bytes]]


@dataclass(frozen=True)
class ExpectedSide:
    """What the board should hold: the names, sizes and types of its inputs and outputs, a hash where there is one, and
    what each epoch should cost."""

    name: str
    signature: str
    inputs: tuple[tuple[str, int, str], ...]
    outputs: tuple[tuple[str, int, str], ...]
    costs: tuple[tuple[int, StepCost], ...]
    npu_mhz: float  # the clocks that the costs are for
    cpu_mhz: float
    title: str = COMPILED
    looked: tuple[str, ...] = ()  # what else was compared with the board, and was something else
    keeps: bool = False  # states, from one inference to the next

    def predicted_ms(self, cost: StepCost, cpu_hz: int, npu_hz: int) -> float:
        """Predicts for the clocks of the board: cycles stay, each counted by its own clock."""
        npu = self.npu_mhz * 1e6 / npu_hz if npu_hz else 1.0
        cpu = self.cpu_mhz * 1e6 / cpu_hz if cpu_hz else 1.0
        return (cost.milliseconds - cost.cpu_ms) * npu + cost.cpu_ms * cpu


@dataclass(frozen=True)
class Turn:
    """One sample: the bytes that went in, those that should come out and those that came."""

    inputs: tuple[bytes, ...]
    expected: tuple[bytes, ...]
    outputs: tuple[bytes, ...]
    milliseconds: float


@dataclass(frozen=True)
class TargetValidation:
    line: str
    protocol: str
    system: SystemInfo
    model: ModelInfo
    identity: str  # how it is known that the board holds this network
    turns: tuple[Turn, ...] = field(repr=False)
    measured: Measured
    reference: str = ""
    outputs: tuple[OutputResult, ...] = ()
    faults: int = 0
    sequences: int = 0  # of a network with states: each from a reset on

    @property
    def compared(self) -> int:
        return sum(len(value) for turn in self.turns for value in turn.expected)

    @property
    def different(self) -> int:
        pairs = ((a, b) for turn in self.turns for a, b in zip(turn.expected, turn.outputs, strict=True))
        return sum(int((np.frombuffer(a, np.uint8) != np.frombuffer(b, np.uint8)).sum()) for a, b in pairs)

    @property
    def equal(self) -> bool:
        return self.different == 0


# ------------------------------------------------------------------------------------------------------------ the sides


class ExpectedRun(Protocol):
    side: ExpectedSide

    def expect(self, sample: Sample) -> Expectation: ...

    def reset(self) -> None:
        """States get their first values, where a sequence begins."""

    def emulated(self) -> tuple[EmulatedNetwork, Contents]:
        """The network on the emulator, and what its memories hold at first."""


class CompiledSide:
    """A model as it was compiled here, on the emulator."""

    def __init__(self, view: CompileView, looked: tuple[str, ...] = ()) -> None:
        self._view, self._compiled = view, view.compiled
        self._emulation = Emulation(view.compiled.program, view.compiled.graph)
        with tempfile.TemporaryDirectory(prefix="atonc_") as folder:
            network = image_network(view, Path(folder) / "network")
            signature = firmware.signature(network)
        graph, steps = view.compiled.graph, view.compiled.program.steps
        self.side = ExpectedSide(
            network.name,
            signature,
            tuple(self._described(name) for name in graph.frame_inputs),
            tuple(self._described(name) for name in graph.frame_outputs),
            tuple((step.number, cost) for step, cost in zip(steps, view.cost.steps, strict=True)),
            view.cost.npu_mhz,
            view.cost.cpu_mhz,
            looked=looked,
            keeps=bool(view.compiled.program.states),
        )

    def _described(self, name: str) -> tuple[str, int, str]:
        value = self._emulation.load(name)
        return name, value.nbytes, value.dtype.str

    def expect(self, sample: Sample) -> Expectation:
        return expectation(self._compiled, self._emulation, sample)

    def reset(self) -> None:
        self._emulation.reset()

    def emulated(self) -> tuple[EmulatedNetwork, Contents]:
        self._kept = tempfile.TemporaryDirectory(prefix="atonc_")  # whoever names layers reads it again
        network = image_network(self._view, Path(self._kept.name) / "network")
        return load(network.folder), network.contents

    def figures(
        self, references: References, samples: Sequence[Sample], turns: Sequence[Turn], starts: Collection[int] = (0,)
    ) -> list[OutputResult]:
        expected = reference_outputs(references, self._compiled, samples, starts)
        return _figures(self._compiled.graph, expected, turns, self._real)

    def _real(self, k: int, data: bytes) -> NDArray[Any]:
        emulation, name = self._emulation, self._compiled.graph.frame_outputs[k]
        emulation.memory.write(emulation.program.placed[name].address, np.frombuffer(data, np.uint8))
        return real(self._compiled.graph.tensors[name], emulation.load(name))


def _figures(
    graph: Graph,
    expected: Sequence[Sequence[NDArray[Any]]],
    turns: Sequence[Turn],
    real_of: Callable[[int, bytes], NDArray[Any]],
) -> list[OutputResult]:
    """ST's figures: what the board computed against the model's own kernels. `real_of`: numbers from bytes."""
    found = []
    for k, name in enumerate(graph.frame_outputs):
        theirs = np.stack([values[k].astype(np.float32) for values in expected])
        mine = np.stack([real_of(k, turn.outputs[k]).astype(np.float32) for turn in turns])
        one = distance("board", theirs, mine, unit_of(graph, name, theirs))
        found.append(OutputResult(name, one.metrics, one.max_lsb))
    return found


class FolderSide:
    """A folder as `atonc generate` or the vendor's tool writes it, on the emulator."""

    def __init__(self, net: EmulatedNetwork, looked: tuple[str, ...] = ()) -> None:
        self.net = net
        cost = costs.network_cost(net, net.steps)
        network = net.network
        self.side = ExpectedSide(
            network.name,
            firmware.signature(firmware.network_in(network.c_file.parent, network.name)),
            tuple(_buffer(info) for info in net.inputs),
            tuple(_buffer(info) for info in net.outputs),
            tuple((step.number, one) for step, one in zip(net.steps, cost.steps, strict=True)),
            cost.npu_mhz,
            cost.cpu_mhz,
            title=str(network.c_file),
            looked=looked,
            keeps=bool(network.states),
        )

    def expect(self, sample: Sample) -> Expectation:
        return self.run([sample[info.name] for info in self.net.inputs])

    def reset(self) -> None:
        self.net.reset()

    def kept(self, starts: Collection[int]) -> KeptStates:
        ranges = [(one.address, len(one.first)) for one in self.net.network.states]
        return KeptStates(ranges, self.net.memory, starts)

    def emulated(self) -> tuple[EmulatedNetwork, Contents]:
        network = self.net.network
        return self.net, firmware.network_in(network.c_file.parent, network.stem).contents

    def run(self, values: Sequence[NDArray[Any]]) -> Expectation:
        net = self.net
        for index, value in enumerate(values):
            net.write_input(index, value)
        inputs = tuple(net.memory.read(info.address, _buffer(info)[1]).tobytes() for info in net.inputs)
        for _ in net.run():
            pass
        return inputs, tuple(net.memory.read(info.address, _buffer(info)[1]).tobytes() for info in net.outputs)


def in_sequence(side: ExpectedRun, samples: Sequence[Sample], starts: Collection[int]) -> Iterator[Expectation]:
    """What should come out, of a network with states sequence by sequence."""
    for number, sample in enumerate(samples):
        if number in starts:
            side.reset()
        yield side.expect(sample)


def _buffer(info: BufferInfo) -> tuple[str, int, str]:
    return info.name, info.size_bytes, tensors.dtype_of(info).str


# ----------------------------------------------------------------------------------------------------------- validation


def validate_target(
    client: Client,
    expected: ExpectedRun,
    samples: Sequence[Sample],
    progress: Progress | None = None,
    starts: Collection[int] = (0,),
) -> TargetValidation:
    """Every sample on the board; the first also layer by layer, for the times. `starts`: of a network with states, the
    samples with which sequences begin."""
    if not samples:
        raise InputError("no samples to run", remedy="give inputs with at least one sample")
    sync = client.connect()
    system = client.system_info()
    model, identity = find_network(expected.side, client.models())
    can_observe = bool(sync.capability & messages.CAN_OBSERVE)
    turns, keeps = list[Turn](), expected.side.keeps
    measured: Measured | None = None
    sequence: list[Expectation] = []
    for number, sample in enumerate(samples):
        if keeps and number in starts:
            expected.reset()
        inputs, outputs = expected.expect(sample)
        if can_observe and measured is None:
            client.resets = keeps
            layers = observed(client, model, inputs, outputs, system.cpu_hz)
            measured = times(expected.side, layers, system, client.link.description)
        if keeps:
            sequence.append((inputs, outputs))
            if number + 1 in starts or number + 1 == len(samples):
                turns += confirmed_sequence(client, model, sequence, system.cpu_hz)
                sequence = []
        else:
            result = confirmed(client, model, inputs, outputs, messages.IO_ONLY, system.cpu_hz)
            turns.append(Turn(inputs, outputs, result.outputs, milliseconds(result, system.cpu_hz)))
        if progress is not None:
            progress(number + 1, len(samples))
    source = _source(system, client.link.description)
    whole = Measured(source, system.cpu_hz, system.npu_hz, turns[0].milliseconds, ())
    measured = whole if measured is None else replace(measured, total_ms=whole.total_ms)
    return TargetValidation(
        client.link.description, sync.version_text, system, model, identity, tuple(turns), measured,
        faults=client.faults, sequences=sum(number in starts for number in range(len(samples))) if keeps else 0,
    )  # fmt: skip


def find_network(side: ExpectedSide, models: Sequence[ModelInfo]) -> tuple[ModelInfo, str]:
    """The board's network that is this one, and how one knows."""
    if not models:
        raise TargetError("the board holds no network", remedy="flash one; the text at its start says what it lacks")
    hashed = [model for model in models if model.signature]
    same = [model for model in hashed if model.signature == side.signature]
    if same:
        return same[0], f"hash {same[0].signature} is that of {side.title}"
    if hashed and len(hashed) == len(models):
        known = ", ".join(f"{model.name} ({model.signature})" for model in models)
        also = f"; looked at as well: {'; '.join(side.looked)}" if side.looked else ""
        raise TargetError(
            f"the board holds another network: {known}; {side.title} is {side.signature}{also}",
            rule="no number is believed before the hash agrees",
            remedy=_REMEDY,
        )
    fitting = [model for model in models if not model.signature and not differences(side, model)]
    if fitting:
        how = "the board tells no hash; number, size and type of inputs and outputs agree"
        return fitting[0], how + ("" if side.title == COMPILED else f" with {side.title}")
    first = next(model for model in models if not model.signature)
    raise TargetError(
        f"the board's network {first.name} is another one: {'; '.join(differences(side, first))}",
        rule="no number is believed before the network is known",
        remedy=_REMEDY,
    )


def differences(side: ExpectedSide, model: ModelInfo) -> list[str]:
    found = []
    for what, ours, theirs in (("input", side.inputs, model.inputs), ("output", side.outputs, model.outputs)):
        if len(ours) != len(theirs):
            found.append(f"{len(theirs)} {what}s where this model has {len(ours)}")
            continue
        for (name, size, dtype), tensor in zip(ours, theirs, strict=True):
            if (size, dtype) != (tensor.size_bytes, tensor.dtype.str):
                told = f"{tensor.size_bytes} bytes of {tensor.dtype.str}"
                found.append(f"{what} {tensor.name} is {told} where {name} is {size} bytes of {dtype}")
    return found


def confirmed(
    client: Client, model: ModelInfo, inputs: Sequence[bytes], expected: Sequence[bytes], mode: int, cpu_hz: int
) -> BoardRunResult:
    """Outputs that equal the expected ones, or that came twice from a board that still holds the same network; with
    times that agree with themselves."""
    seen: list[tuple[bytes, ...]] = []
    for _ in range(AGREE):
        result = client.run(model, inputs, mode, first=not seen)
        if contradiction(result, cpu_hz):
            client.faults += 1
            continue
        if result.outputs == tuple(expected):
            return result
        if result.outputs in seen:
            if model not in client.models():
                raise TargetError("the board holds another network now", where=client.link.description)
            return result
        seen.append(result.outputs)
    if not seen:
        raise TargetError("the board's times contradict its counters in every run", where=client.link.description)
    raise TargetError(
        f"the same input gave {len(set(seen))} different outputs",
        where=client.link.description,
        rule="an output is believed when it equals the emulator's or comes twice",
        remedy="lower the speed of the line, shorten the cable, check the board's supply",
    )


def confirmed_sequence(client: Client, model: ModelInfo, frames: Sequence[Expectation], cpu_hz: int) -> list[Turn]:
    """The same of a whole sequence, from a reset on: what a frame gives depends on all before it."""
    seen: list[list[tuple[bytes, ...]]] = []
    for _ in range(AGREE):
        results = client.sequence(model, [inputs for inputs, _ in frames])
        if any(contradiction(result, cpu_hz) for result in results):
            client.faults += 1
            continue
        outputs = [result.outputs for result in results]
        if outputs == [expected for _, expected in frames] or outputs in seen:
            took = [milliseconds(result, cpu_hz) for result in results]
            pairs = zip(frames, outputs, took, strict=True)
            return [Turn(inputs, expected, got, ms) for (inputs, expected), got, ms in pairs]
        seen.append(outputs)
    raise TargetError(
        f"the same sequence gave {len(seen)} different ones" if seen else "the board's times contradict its counters",
        where=client.link.description,
        rule="a sequence is believed when it equals the emulator's or comes twice",
        remedy="lower the speed of the line, shorten the cable, check the board's supply",
    )


def observed(
    client: Client, model: ModelInfo, inputs: Sequence[bytes], expected: Sequence[bytes], cpu_hz: int
) -> BoardRunResult:
    """Layer by layer: which layers there are must come twice, since only their times check themselves."""
    before: list[tuple[int, int]] | None = None
    for _ in range(AGREE):
        result = confirmed(client, model, inputs, expected, messages.IO_ONLY | messages.PER_LAYER, cpu_hz)
        now = [(layer.operator.id, layer.operator.kind) for layer in result.layers]
        if now == before:
            return result
        client.faults += before is not None
        before = now
    raise TargetError("the board reports other layers each time", where=client.link.description)


def contradiction(result: BoardRunResult, cpu_hz: int) -> bool:
    """Durations are floats of the same counters that come with them; where there are none nothing can be said."""
    operators = [(layer.operator, sum(layer.operator.cycles[:3])) for layer in result.layers]
    cycles = result.network.cycles
    operators += [(result.network, cycles[3])] if len(cycles) > 3 else []
    for operator, total in operators:
        told = operator.duration_ms * cpu_hz / 1e3
        if operator.counters and abs(told - total) > _FLOAT_ERROR * total:
            return True
    return False


# ---------------------------------------------------------------------------------------------------------------- times


def milliseconds(result: BoardRunResult, cpu_hz: int) -> float:
    """The time by the counter, where there is one."""
    cycles = result.network.cycles
    return 1e3 * cycles[3] / cpu_hz if len(cycles) > 3 else result.network.duration_ms


def times(side: ExpectedSide, result: BoardRunResult, system: SystemInfo, line: str) -> Measured:
    blocks = tuple(_block(side, layer, system) for layer in result.layers)
    whole = milliseconds(result, system.cpu_hz)
    band = band_of((cost.cpu_ms > 0, cost) for _, cost in side.costs)
    span = band.around(sum(block.predicted_ms for block in blocks))
    return Measured(_source(system, line), system.cpu_hz, system.npu_hz, whole, blocks, span)


def _source(system: SystemInfo, line: str) -> str:
    return f"STM32N6 ({system.device:#x}) at {system.cpu_hz / 1e6:.0f} MHz, {line}"


def _block(side: ExpectedSide, layer: ReportedLayer, system: SystemInfo) -> MeasuredBlock:
    (first, last), (before, core, after) = layer.epochs, layer.cycles
    steps = [cost for number, cost in side.costs if first <= number <= last]
    took_ms = 1e3 * (before + core + after) / system.cpu_hz
    predicted_ms = sum(side.predicted_ms(cost, system.cpu_hz, system.npu_hz) for cost in steps)
    return MeasuredBlock(
        first=first,
        last=last,
        before=before,
        core=core,
        after=after,
        measured_ms=took_ms,
        predicted_ms=predicted_ms,
        npu_cycles=round(took_ms * system.npu_hz / 1e3),
        predicted_cycles=round(predicted_ms * system.npu_hz / 1e3) if system.npu_hz else sum(c.cycles for c in steps),
        bound_by=max(steps, key=lambda cost: cost.cycles).bound_by if steps else "",
    )


_DESCRIBED = "_c_info.json"


@dataclass(frozen=True)
class BuiltNetwork:
    """A network in a folder; what it was made from where the folder tells (ours do)."""

    c_file: Path
    signature: str
    asked: BuildRequest | None

    def __str__(self) -> str:
        return f"{self.c_file} (hash {self.signature})"

    def is_of(self, model: Path) -> bool | None:
        """None: nobody knows."""
        told = self.asked.reproduce.get(MODEL_HASH) if self.asked else None
        return None if told is None else told == hashlib.sha256(model_bytes(model)).hexdigest()

    def suits(self, given: Mapping[str, str]) -> bool:
        """Whether all that is asked for now was asked for then; who validates need not repeat everything."""
        asked = {flag: text for flag, text in given.items() if flag != "--hop"}  # which changes no program
        return self.asked is not None and all(self.asked.options.get(flag) == text for flag, text in asked.items())


@dataclass(frozen=True)
class Looked:
    """What was found where; `named`: the user said which folder, and nothing else will do."""

    found: tuple[BuiltNetwork, ...]
    unreadable: tuple[str, ...]  # folders with the reason
    empty: tuple[str, ...]  # folders without a network
    named: bool

    @property
    def lines(self) -> tuple[str, ...]:
        none = [f"no compiled network in {', '.join(self.empty)}"] if self.empty else []
        return *map(str, self.found), *self.unreadable, *none


def look(model: Path, val_json: Path | None, output: Path | None) -> Looked:
    """`--val-json` says where; else the folder of -o, those that `generate` writes by default here and beside the
    model, the model's own, and this one."""
    if val_json is not None:
        return _named(val_json)
    found, unreadable, empty = list[BuiltNetwork](), list[str](), list[str]()
    beside = model.absolute().parent
    asked = [*([output] if output else []), FOLDER, beside / FOLDER, beside, Path()]
    once = {folder.resolve(): folder for folder in reversed(asked)}  # by the first of its names
    for folder in reversed(once.values()):
        try:
            networks = list(_networks(folder)) if folder.is_dir() else []
        except AtoncError as error:
            unreadable.append(f"{folder}: {error.one_line}")
            continue
        found += networks
        empty += [] if networks else [str(folder)]
    return Looked(tuple(found), tuple(unreadable), tuple(empty), named=False)


def _named(val_json: Path) -> Looked:
    if not val_json.exists():
        raise InputError(
            "there is no such file",
            where=f"--val-json {val_json}",
            remedy="name NAME_c_info.json of the folder that `generate` wrote",
        )
    folder = val_json if val_json.is_dir() else val_json.parent
    stem = val_json.name.removesuffix(_DESCRIBED)
    networks = list(_networks(folder, stem if (folder / f"{stem}.c").is_file() else None))
    if not networks:
        raise InputError(
            "no compiled network lies beside it",
            where=f"--val-json {val_json}",
            remedy="name NAME_c_info.json of the folder that `generate` wrote",
        )
    return Looked(tuple(networks), (), (), named=True)


def _networks(folder: Path, stem: str | None = None) -> Iterator[BuiltNetwork]:
    for c_file in find_networks(folder):
        if stem in (None, c_file.stem):
            network = firmware.network_in(folder, c_file.stem)
            yield BuiltNetwork(c_file, firmware.signature(network), read_asked(folder, c_file.stem))


# ------------------------------------------------------------------------------------------------------------- choosing


def on_board(looked: Looked, models: Sequence[ModelInfo], model: Path) -> BuiltNetwork | None:
    """The one whose hash the board tells. A board that tells none leaves it to `of_model`."""
    told = {one.signature for one in models if one.signature}
    same = next((built for built in looked.found if built.signature in told), None)
    if same is not None and same.is_of(model) is False:
        raise InputError(
            f"the board holds what was built as {same}, from another model ({_title(same)})",
            where=str(model),
            rule="outputs are compared with the model that they came from",
            remedy="name that model, or flash what was built from this one",
        )
    return same


def of_model(looked: Looked, model: Path, given: Mapping[str, str]) -> BuiltNetwork | None:
    """The first that was made from this model and that has all that is asked for; any that the user named."""
    for built in looked.found:
        if looked.named and built.is_of(model) is not False:
            return built
        if built.is_of(model) and built.suits(given):
            return built
    if looked.named:
        raise InputError(
            f"what was built as {looked.found[0]} comes from another model ({_title(looked.found[0])})",
            where=str(model),
            remedy="name the model that it was built from",
        )
    return None


def _title(built: BuiltNetwork) -> str:
    return built.asked.model if built.asked else "unknown"


class BuiltSide(FolderSide):
    """`source` and `graph` are the model as `References` want it; nothing is compiled."""

    def __init__(self, built: BuiltNetwork, model: Path, given: Options, looked: tuple[str, ...] = ()) -> None:
        """`given`: where the folder does not tell the options of its edges, the user must."""
        folder = runs.RunOptions(built.c_file.parent, built.c_file.stem, custom=given.custom)
        super().__init__(runs.load(folder), looked)
        self.built = built
        edges = replace(edges_of(built.asked.options), custom=given.custom) if built.asked else given
        self.source = read_model(model, edges)
        self.graph = order.run(self.source, edges)
        self._require(self.graph.frame_inputs, self.net.inputs, "inputs")
        self._require(self.graph.frame_outputs, self.net.outputs, "outputs")

    def _require(self, names: Sequence[str], infos: Sequence[BufferInfo], what: str) -> None:
        ours = [_text(self.graph.tensors[name].elements, np.dtype(self.graph.tensors[name].dtype)) for name in names]
        theirs = [_text(int(np.prod(tensors.io_shape(info))), tensors.dtype_of(info)) for info in infos]
        if ours != theirs:
            raise InputError(
                f"its {what} are {', '.join(theirs)}, those of {self.source.name or 'the model'} {', '.join(ours)}",
                where=str(self.built.c_file),
                rule="a folder is validated against the model that it was built from",
                remedy="name that model; give --input-data-type and --output-data-type as for the build",
            )

    def expect(self, sample: Sample) -> Expectation:
        values = edge_values(self.source, self.graph, sample)
        return self.run([values[name] for name in self.graph.frame_inputs])

    def figures(
        self, references: References, samples: Sequence[Sample], turns: Sequence[Turn], starts: Collection[int] = (0,)
    ) -> list[OutputResult]:
        expected = reference_outputs(references, self, samples, starts)
        return _figures(self.graph, expected, turns, self._real)

    def _real(self, k: int, data: bytes) -> NDArray[Any]:
        tensor = self.graph.tensors[self.graph.frame_outputs[k]]
        codes = np.frombuffer(data, tensors.dtype_of(self.net.outputs[k]))[: tensor.elements].reshape(tensor.shape)
        return real(tensor, codes)


def _text(elements: int, dtype: np.dtype[Any]) -> str:
    return f"{elements:,} x {dtype.name}"
