"""Judges one graph in full: compiles, runs, and says in words what is wrong."""

from __future__ import annotations

from dataclasses import dataclass

from atonc.compiler.ir import Graph
from atonc.machine.base.errors import AtoncError
from tests.compiler.layer_checks import Layer, Outcome, Output, compile_checked, run_checked
from tests.compiler.other_schedules import Other, other_schedules
from tests.compiler.random_graphs import random_inputs

INPUTS = 2


@dataclass(frozen=True)
class Verdict:
    """`problem` is empty, or the kind of what went wrong followed by the particulars."""

    problem: str = ""
    layers: tuple[Layer, ...] = ()
    outputs: tuple[Output, ...] = ()
    epochs: int = 0
    on_cpu: tuple[str, ...] = ()  # kinds of operators
    schedules: tuple[Other, ...] = ()  # where they were asked for

    @property
    def kind(self) -> str:
        return self.problem.split(":")[0]

    @property
    def saturated(self) -> list[Layer]:
        return [layer for layer in self.layers if layer.saturated and layer.most > layer.allowed]


def is_plain(graph: Graph) -> bool:
    """Whether its layers do not enlarge roundings (random_formats.py), also when it was shrunk and kept."""
    return graph.name.startswith("plain")


def judge(graph: Graph, seed: int, schedules: bool = False) -> Verdict:
    """Any error is a problem: the graphs are valid. `schedules`: other ones too have to give the same bytes."""
    try:
        compiled = compile_checked(graph)
        inputs = [random_inputs(compiled.graph, INPUTS * seed + k) for k in range(INPUTS)]
        outcomes = [run_checked(compiled, values) for values in inputs]
        usual = {name: got for name, (got, _) in outcomes[0].outputs.items()}
        others = other_schedules(compiled, inputs[0], usual) if schedules else ()
    except AtoncError as error:
        return Verdict(f"{type(error).__name__}: {error}")
    except AssertionError as error:
        return Verdict(f"placement: {error}")
    except Exception as error:
        return Verdict(f"crash: {type(error).__name__} {error}")
    layers = tuple(layer for outcome in outcomes for layer in outcome.layers)
    outputs = tuple(output for outcome in outcomes for output in outcome.free)
    steps = compiled.program.steps
    epochs, kinds = sum(s.epoch is not None for s in steps), tuple(r.op for r in compiled.choices.reasons)
    problem = next((other.problem for other in others if other.problem), "")
    return Verdict(_problem(outcomes, is_plain(graph)) or problem, layers, outputs, epochs, kinds, others)


def _problem(outcomes: list[Outcome], plain: bool) -> str:
    for outcome in outcomes:
        if outcome.unlike_meaning:
            return f"meaning: {outcome.unlike_meaning[0]} computes something else"
    for outcome in outcomes:
        if outcome.bad:
            return f"layer: {describe(outcome.bad[0])}"
    for outcome in outcomes:
        quiet = [layer for layer in outcome.layers if layer.unreported]
        if quiet:
            return f"report: {describe(quiet[0])}, reported {quiet[0].expected:.3f}"
    for outcome in outcomes:
        far = [output for output in outcome.free if (output.far if plain else output.unexplained)]
        if far:
            return f"output: {describe_output(far[0])}"
    return ""


def describe_output(output: Output) -> str:
    return (
        f"{output.name} is {output.most} codes from the source, expected {output.expected}; "
        f"roundings elsewhere take it {output.chance} away"
    )


def describe(layer: Layer) -> str:
    return (
        f"{layer.op.kind} {layer.op.name} differs by {layer.most} (allowed {layer.allowed}) "
        f"in {layer.different} of {layer.elements} values{' on the CPU' if layer.on_cpu else ''}"
    )
