"""`atonc validate`: the compiled program on the emulator against the reference kernels of the model.

Both sides get the same inputs. Values are compared as real numbers; one code of the output's format is the unit in
which percentages count. `judging.py` says what passes.

What passes by kernels that every installation has, because they are ours (`OwnKernels`), passes whatever packages of
others there are. Those add a yardstick to look at, say whether operators were read as they are meant, and decide where
ours do not: without them `judging.py` says that it cannot judge. The yardstick is exact arithmetic of the model as it
was read. Its sibling is the graph after folding and fusion, every layer rounded once: another correct way to round the
same network, as kernels of others are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path

import numpy as np

from atonc.compiler.compare.inputs import make_inputs, make_noise
from atonc.compiler.compile.pipeline import Compiled, compile_file
from atonc.compiler.emit.encryption import IN_PLAIN
from atonc.compiler.emit.program import Program
from atonc.compiler.inputs.inputs import (
    Sample,
    as_input,
    first_states,
    program_inputs,
    read_labels,
    read_outputs,
    read_samples,
    read_sequences,
    real,
)
from atonc.compiler.ir import Array, Graph, layer_name
from atonc.compiler.ops import run_graph
from atonc.compiler.ops.elementwise import DIVISION, zero_by_zero
from atonc.compiler.passes.formats import round_once
from atonc.compiler.request.options import Options
from atonc.compiler.verify.emulation import Emulation
from atonc.compiler.verify.verify import LayerCheck, check_program
from atonc.insight.validating.judging import CLOSE, MIN_COSINE, OutputResult, is_open, judge, output_result
from atonc.insight.validating.references import EXACT, ReadingCheck, References, as_program, check_reading, exact_values
from atonc.insight.validating.sequences import FRAMES, CarriedStates, Chain, SequenceResult, drift_of
from atonc.insight.validating.validate_options import SAMPLES, ValidateOptions
from atonc.machine.base import progress
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count
from atonc.machine.emu.network import EmulatedNetwork, NetworkStep

MET = (
    "divides zero by zero in {}: that has no value, and kernels differ there; outputs are judged against exact "
    "arithmetic alone"
)
ROUNDED_ONCE = "exact arithmetic, layers rounded once"


@dataclass(frozen=True)
class OwnKernels:
    compiled: Compiled
    chained: bool = False  # samples are frames of a sequence, whose states are kept
    undefined: dict[str, str] = field(default_factory=dict)  # divisions that met 0/0: what to say of them

    def exact(self, sample: Mapping[str, Array]) -> dict[str, list[Array]]:
        values = exact_values(self.compiled, {**sample, **self._source.values})
        if self.chained:
            self._source.take(values)
        for op in self.compiled.source.ops:
            if op.kind == DIVISION and (times := int(zero_by_zero(self.compiled.source, op, values).sum())):
                self.undefined.setdefault(op.name, f"{layer_name(op)} {MET.format(count(times, 'value'))}")
        return {EXACT: as_program(self.compiled, values)}

    def sibling(self, sample: Mapping[str, Array]) -> dict[str, list[Array]]:
        given = {**program_inputs(self.compiled, sample), **self._rounded.values}
        values = run_graph(self._graph, given)
        if self.chained:
            self._rounded.take(values)
        return {ROUNDED_ONCE: [real(self._graph.tensors[name], values[name]) for name in self._graph.frame_outputs]}

    def reset(self) -> None:
        """Where a sequence begins."""
        self._source.reset()
        self._rounded.reset()

    @cached_property
    def _source(self) -> CarriedStates:
        return CarriedStates(self.compiled.source)

    @cached_property
    def _rounded(self) -> CarriedStates:
        return CarriedStates(self._graph)

    @cached_property
    def _graph(self) -> Graph:
        return round_once(self.compiled.graph)


class BuiltEmulation(Emulation):
    """The files of a folder, as they are: their steps run in their memory. The compilation of the same options says
    which layer each step is, so both must have the same steps and places."""

    def __init__(self, compiled: Compiled, net: EmulatedNetwork) -> None:
        self.graph, self.net, self.memory = compiled.graph, net, net.memory
        self.program = at_addresses(compiled.program, {one.reloc_id: one.address for one in net.network.user_buffers})
        self._steps = {step.number: step for step in self.program.steps}
        names = (*self.graph.frame_inputs, *self.graph.frame_outputs)
        edges = (*net.inputs, *net.outputs)
        self._same((self.program.placed[name].address for name in names), (info.address for info in edges))
        self._same(self._steps, (step.number for step in net.steps))

    def _same(self, compiled: Iterable[int], built: Iterable[int]) -> None:
        if list(compiled) != list(built):
            raise InputError(
                "its network is laid out as this version of atonc does not lay it out",
                where=str(self.net.network.c_file),
                remedy="generate it again, or validate it by --mode board",
            )

    def reset(self) -> None:
        self.net.reset()

    def run(self, inputs: Mapping[str, Array], observe: bool = False) -> dict[str, Array]:
        for name, value in inputs.items():
            self.store(name, value)
        seen: dict[str, Array] = {}

        def after(step: NetworkStep) -> None:
            plan = self._steps[step.number].plan
            seen.update({name: self.load(name).copy() for name in plan.writes() if name in self.graph.tensors})

        for _ in self.net.run(after=after if observe else None):
            pass
        return seen | {name: self.load(name) for name in self.graph.outputs}


def at_addresses(program: Program, wanted: Mapping[str, int]) -> Program:
    """Memory of the application by its symbol where somebody else supplies it."""
    placed = dict(program.placed)
    for name, home in program.placed.items():
        for user in program.user_io:
            if user.address <= home.address < user.limit:
                placed[name] = replace(home, address=home.address - user.address + wanted[user.symbol])
    return replace(program, placed=placed)


Kernels = dict[str, list[list[Array]]]  # by title: the values of every output for every sample
GIVEN = "the given outputs"
NOT_RUN = "the model's own kernels did not run (--no-exec-model)"
MOST_SAMPLES, MOST_VALUES = 40, 1 << 22  # where the verdict stays open: then it is what these say
_LEAST = -1e30  # of the values that inputs may be asked to have
NOISE_SEED = 1  # pictures leave corners of operators in the dark


@dataclass(frozen=True)
class Accuracy:
    """How many samples get the right label: by the program and by the reference."""

    samples: int
    program: int
    reference: int


@dataclass(frozen=True)
class Validation:
    samples: int
    reference: str
    notes: tuple[str, ...]
    outputs: tuple[OutputResult, ...]
    layers: tuple[LayerCheck, ...] = ()  # the program against the canonical graph
    reading: tuple[ReadingCheck, ...] = ()  # the graph as we read it against the reference
    accuracy: Accuracy | None = None
    sequence: SequenceResult | None = None  # of a network with states
    recorded: Mapping[str, Array] = field(default_factory=dict)  # inputs and outputs, by ST's names for them

    @property
    def first_bad(self) -> LayerCheck | None:
        return next((layer for layer in self.layers if layer.bad), None)

    @property
    def first_misread(self) -> ReadingCheck | None:
        return next((check for check in self.reading if check.bad), None)


@dataclass(frozen=True)
class Wanted:
    """What to compare beside the outputs."""

    labels: Sequence[int] = ()  # the right class of each sample, where the first output has one value per class
    given: Sequence[Mapping[str, Array]] = ()  # outputs that the user brings, as real values
    layers: bool = True  # also every layer and every operator as read
    classifier: bool = False  # without labels the classes of the yardstick count
    min_cosine: float = MIN_COSINE  # outputs this close pass
    starts: Sequence[int] = (0,)  # of a network with states: the samples with which sequences begin
    hop_ms: float = 0.0  # and the time between two of them
    more: Callable[[int, int], Sequence[Sample]] | None = None  # so many samples from this number on


def validate(
    references: References | None,
    compiled: Compiled,
    samples: Sequence[Sample],
    wanted: Wanted | None = None,
    emulation: Emulation | None = None,
) -> Validation:
    """`references` None: the model's own kernels do not run; `emulation`: other than of what was compiled."""
    wanted = wanted or Wanted()
    if not samples:
        raise InputError("no samples to compare", remedy="give inputs with at least one sample")
    if wanted.given and len(wanted.given) < len(samples):
        raise InputError(f"{count(len(wanted.given), 'sample')} of outputs for {len(samples)} of inputs", where="-vo")
    emulation = emulation or Emulation(compiled.program, compiled.graph)
    chain = Chain(compiled, emulation, wanted.starts) if compiled.program.states else None
    sides = _Sides(references, emulation, OwnKernels(compiled, chain is not None), chain)
    program, kernels = sides.run(compiled, samples)
    if wanted.given:
        brought = [[sample[name] for sample in wanted.given[: len(samples)]] for name in compiled.graph.frame_outputs]
        kernels = {GIVEN: brought, **kernels}
    results = _results(compiled, program, kernels, sides)
    if any(judge(one, wanted.min_cosine) != CLOSE for one in results):
        sides.siblings = True
        for number, sample in enumerate(samples):
            if chain is not None and number in chain.starts:
                sides.own.reset()
            _add(kernels, sides.own.sibling(sample))
        results = _results(compiled, program, kernels, sides)
    most = most_samples(compiled.graph)
    while wanted.more and len(samples) < most and any(is_open(o, wanted.min_cosine) for o in results):
        added = wanted.more(len(samples), min(len(samples), most - len(samples)))
        _extend(program, kernels, sides.run(compiled, added))
        samples = [*samples, *added]
        results = _results(compiled, program, kernels, sides)
    complete = _complete(program, kernels)
    layers = _layers(compiled, emulation, samples, chain) if wanted.layers else ()
    reading: Sequence[ReadingCheck] = ()
    if wanted.layers and references is not None:
        reading = check_reading(references, compiled.source, [samples[0], make_noise(samples[0], NOISE_SEED)])
    labels, notes = wanted.labels, [*compiled.source.notes, *(references.notes if references else [NOT_RUN])]
    notes += [*sides.own.undefined.values(), *_not_compared(results)]
    notes += [f"encrypted weights: {IN_PLAIN}"] if compiled.ciphered else []
    yardstick = complete[0] if complete else "nothing"
    if wanted.classifier and not labels and complete:
        labels = [int(value.argmax()) for value in kernels[yardstick][0]]
        notes.append(f"no labels were given: the right classes are those of {yardstick}")
    model = kernels[next((title for title in complete if title != GIVEN), yardstick)][0] if complete else program[0]
    return Validation(
        len(samples),
        yardstick,
        tuple(dict.fromkeys(notes)),
        tuple(results),
        tuple(layers),
        tuple(reading),
        accuracy=_accuracy(program[0], model, labels) if labels else None,
        sequence=chain.result(wanted.hop_ms, drift_of(compiled.graph, program, kernels, yardstick, chain.starts))
        if chain
        else None,
        recorded=_recorded(compiled, samples, program, kernels[yardstick] if complete else ()),
    )


def _layers(
    compiled: Compiled, emulation: Emulation, samples: Sequence[Sample], chain: Chain | None
) -> list[LayerCheck]:
    """Checks the first sample; of a sequence the worse of its first frame and its last one, with the states of then."""
    first = check_program(compiled, emulation, program_inputs(compiled, samples[0]))
    if chain is None:
        return first
    last = check_program(compiled, emulation, chain.last)
    return [other if (other.bad, other.max_diff) > (one.bad, one.max_diff) else one
            for one, other in zip(first, last, strict=True)]  # fmt: skip


def most_samples(graph: Graph) -> int:
    """Outputs that are pictures would fill the memory, and have values enough."""
    return min(MOST_SAMPLES, MOST_VALUES // max(1, sum(graph.tensors[name].elements for name in graph.outputs)))


@dataclass
class _Sides:
    """Who computes the outputs: the program, kernels of others as far as they are there, and ours."""

    references: References | None
    emulation: Emulation
    own: OwnKernels
    chain: Chain | None = None  # of a network with states
    siblings: bool = False  # of ours, too: they only matter where outputs are not close

    def run(self, compiled: Compiled, samples: Sequence[Sample]) -> tuple[list[list[Array]], Kernels]:
        """Real values of every output for every sample: of the program, and of all kernel sets."""
        names = compiled.graph.frame_outputs
        program: list[list[Array]] = [[] for _ in names]
        kernels: Kernels = {}
        title = "comparing with the reference" if self.references is not None else "running"
        for number, sample in enumerate(samples):
            progress.stage(title, number, len(samples))
            goes_on = None if self.chain is None else not self.chain.begins
            if goes_on is False:
                self.own.reset()
            got = self._program(compiled, sample)
            _append(program, [real(compiled.graph.tensors[name], got[name]) for name in names])
            if self.references is not None:
                _add(kernels, {**self.references.outputs(compiled, sample, goes_on), **self._own(sample)})
        return program, kernels

    def _program(self, compiled: Compiled, sample: Sample) -> dict[str, Array]:
        return self.chain.frame(sample) if self.chain else self.emulation.run(program_inputs(compiled, sample))

    def _own(self, sample: Sample) -> dict[str, list[Array]]:
        return self.own.exact(sample) | (self.own.sibling(sample) if self.siblings else {})


def _add(kernels: Kernels, found: Mapping[str, list[Array]]) -> None:
    for title, values in found.items():
        _append(kernels.setdefault(title, [[] for _ in values]), values)


def _extend(program: list[list[Array]], kernels: Kernels, added: tuple[list[list[Array]], Kernels]) -> None:
    """Further samples behind those that there are. A set that cannot run one of them is left out from then on."""
    more, others = added
    for found, values in zip(program, more, strict=True):
        found += values
    for title in kernels.keys() & others.keys():
        for found, values in zip(kernels[title], others[title], strict=True):
            found += values


def _complete(program: list[list[Array]], kernels: Kernels) -> list[str]:
    """Kernel sets that ran all samples."""
    return [title for title, outputs in kernels.items() if len(outputs[0]) == len(program[0])]


def _results(compiled: Compiled, program: list[list[Array]], kernels: Kernels, sides: _Sides) -> list[OutputResult]:
    """Distances from the first of the kernel sets that ran all samples; none where there is none. The verdict rests on
    those that every installation has first. Where 0/0 was met, kernels of others are no reference."""
    undefined = bool(sides.own.undefined)
    lacks = "" if sides.references is None or undefined else sides.references.lacks
    own, titles = (EXACT, ROUNDED_ONCE), _complete(program, kernels)
    judged = [title for title in titles if title in (GIVEN, *own)]
    others = [title for title in titles if title not in (GIVEN, *own)]
    results = []
    for k, name in enumerate(compiled.graph.frame_outputs if judged else ()):
        made, values = np.stack(program[k]), {title: np.stack(kernels[title][k]) for title in titles}
        result = replace(output_result(compiled.graph, name, made, {t: values[t] for t in judged}), lacks=lacks)
        if others:
            theirs = {title: values[title] for title in others}
            shown = {title: values[title] for title in (GIVEN, *others) if title in values}
            read = None if undefined else output_result(compiled.graph, name, values[EXACT], theirs)
            result = replace(output_result(compiled.graph, name, made, shown), judged=result, read=read)
        results.append(result)
    return results


def _not_compared(results: Sequence[OutputResult]) -> list[str]:
    """Yardsticks may have no number: a root of what is negative, a division by zero."""
    found = [one for result in results for one in (result, result.judged) if one is not None and one.skipped]
    said = {(one.name, one.skipped): one.against for one in reversed(found)}
    return [
        f"output {name}: {against} has no number (NaN or infinite) in {count(skipped, 'value')}, not compared"
        for (name, skipped), against in reversed(said.items())
    ]


def _recorded(
    compiled: Compiled, samples: Sequence[Sample], program: list[list[Array]], reference: Sequence[list[Array]]
) -> dict[str, Array]:
    """All values under the names that ST's validation gives them: m is the model, c the compiled network."""
    found = {
        f"m_inputs_{k + 1}": np.stack([sample[name] for sample in samples])
        for k, name in enumerate(compiled.source.frame_inputs)
    }
    found |= {f"m_outputs_{k + 1}": np.stack(values) for k, values in enumerate(reference)}
    return found | {f"c_outputs_{k + 1}": np.stack(values) for k, values in enumerate(program)}


def _append(lists: list[list[Array]], values: Sequence[Array]) -> None:
    """In single precision: outputs may be pictures, and there are several kernel sets."""
    for found, value in zip(lists, values, strict=True):
        found.append(value.astype(np.float32))


def _accuracy(program: Sequence[Array], reference: Sequence[Array], labels: Sequence[int]) -> Accuracy:
    if len(labels) < len(program):
        raise InputError(f"{count(len(labels), 'label')} for {count(len(program), 'sample')}")
    right = [sum(int(value.argmax()) == label for value, label in zip(side, labels, strict=False))
             for side in (program, reference)]  # fmt: skip
    return Accuracy(len(program), *right)


# ------------------------------------------------------------------------------------------------------------ inputs


def synthetic_samples(source: Graph, count: int, seed: int = 0) -> list[Sample]:
    return [make_inputs(source, seed + k) for k in range(count)]


def random_samples(source: Graph, count: int, seed: int, ranges: Sequence[float]) -> list[Sample]:
    """`--range MIN MAX ...`: every real value equally likely; the last pair serves all further inputs."""
    pairs = list(zip(ranges[::2], ranges[1::2], strict=False))
    if not pairs or len(ranges) % 2 or not all(_LEAST <= low < high <= -_LEAST for low, high in pairs):
        raise InputError(f"{' '.join(f'{v:g}' for v in ranges)[:60]!r} are no ranges", remedy="write --range MIN MAX")
    rng = np.random.default_rng(seed)
    samples: list[Sample] = []
    for _ in range(count):
        sample = first_states(source)
        for k, name in enumerate(source.frame_inputs):
            tensor, (low, high) = source.tensors[name], pairs[min(k, len(pairs) - 1)]
            sample[name] = as_input(tensor, rng.uniform(low, high, tensor.shape).astype(np.float32), name)
        samples.append(sample)
    return samples


def validate_model(
    model: Path,
    asked: ValidateOptions,
    compiler: Options,
    known: Compiled | None = None,
    built: EmulatedNetwork | None = None,
) -> Validation:
    """`known`: the program, where the model was compiled with these options before; `built`: files that run instead."""
    begins_later = bool(compiler.cut_inputs or compiler.cut_input_layers)
    with References(model, exact_only=begins_later or asked.no_exec_model) as references:
        compiled = known or compile_file(model, compiler)
        samples, starts = chosen_frames(compiled.source, asked, compiler.seed)
        what = Wanted(
            read_labels(asked.valinput),
            read_outputs(compiled.graph, asked.valoutput),
            not asked.io_only,
            asked.classifier,
            asked.min_cos,
            starts,
            compiler.hop,
            _more(compiled.source, asked, compiler.seed),
        )
        emulation = BuiltEmulation(compiled, built) if built else None
        return validate(None if asked.no_exec_model else references, compiled, samples, what, emulation)


def chosen_samples(source: Graph, asked: ValidateOptions, seed: int, count: int) -> list[Sample]:
    """Those that the user gave, or made ones; in the formats of the model."""
    if asked.valinput:
        return read_samples(source, asked.valinput, asked.batches)
    count = asked.batches or count
    if asked.range:
        return random_samples(source, count, seed, asked.range)
    return synthetic_samples(source, count, seed)


def chosen_frames(
    source: Graph, asked: ValidateOptions, seed: int, count: int = SAMPLES, frames: int = FRAMES
) -> tuple[list[Sample], list[int]]:
    """Samples, and with which of them sequences begin: of a network without states with each."""
    if source.frame_inputs == source.inputs:
        if asked.frames:
            raise InputError("--frames for a network without states", rule="frames are those of a sequence",
                             remedy="leave it out, or declare its states: --state OUT=IN")  # fmt: skip
        return chosen_samples(source, asked, seed, count), [0]
    if asked.valinput:
        sequences = read_sequences(source, asked.valinput, asked.frames)
        sequences = sequences[: asked.batches or None]
    else:
        long = asked.frames or frames
        made = chosen_samples(source, replace(asked, batches=(asked.batches or 1) * long), seed, long)
        sequences = [made[at : at + long] for at in range(0, len(made), long)]
    ends = list(accumulate(map(len, sequences)))
    return [sample for one in sequences for sample in one], [0, *ends[:-1]]


def _more(source: Graph, asked: ValidateOptions, seed: int) -> Callable[[int, int], Sequence[Sample]] | None:
    """Further samples where the verdict is open; none where the user says which or how many."""
    if asked.valinput or asked.valoutput or asked.batches or asked.frames:
        return None
    return lambda first, count: chosen_samples(source, replace(asked, batches=count), seed + first, count)
