"""The same network under other schedules: without passes, and with weights in RAM. Not a bit of its outputs changes.

What lanes cost decides between forms of a layer. Where one that rounds at other places is cheaper without them, or no
published program has the one chain that is left, lanes stay; the program without them is verified then.

The canonical graph is the same for all, so it is made once; placement and the rest follow from the schedule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from atonc.compiler.compile.pipeline import Compiled, compile_canonical, memories
from atonc.compiler.emit.program import Program
from atonc.compiler.ir import Array
from atonc.compiler.lower.semantics.sums import agree, roundings
from atonc.compiler.request.options import Options
from atonc.compiler.schedule import PASSES, PREFETCH
from atonc.compiler.search.build import build
from atonc.compiler.search.generators import prefetch, resident
from atonc.compiler.verify.emulation import Emulation
from tests.compiler.candidates import candidate_of
from tests.compiler.layer_checks import soil

KEEP_BITS = tuple(p.name for p in PASSES.values() if not p.rounds_elsewhere)
NO_PASSES = Options(verify=False, schedule_without=(*KEEP_BITS, "lanes"))
ONLY_LANES = Options(verify=False, schedule_without=KEEP_BITS)
IN_RAM = Options(verify=False, resident="4096", schedule_with=(PREFETCH,))  # some stay, others are fetched


@dataclass(frozen=True)
class Other:
    """Another schedule, compared with the usual one."""

    name: str
    epochs: int
    copies: int  # of weights in RAM
    unlike: tuple[str, ...]  # outputs that have other bytes
    moved: tuple[str, ...]  # operators that run on the CPU in one of the two only
    forms: tuple[str, ...] = ()  # operators that get other ones without lanes

    @property
    def problem(self) -> str:
        if not self.unlike and not self.moved:
            return ""
        return f"schedule: {self.name}, other bytes in {list(self.unlike)}, elsewhere {list(self.moved)}"


def other_schedules(compiled: Compiled, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> tuple[Other, ...]:
    """`outputs`: of the usual program on these inputs."""
    plain, forms = _without_passes(compiled)
    programs = {"without passes": (plain, plain.program), "weights in RAM": (compiled, weights_in_ram(compiled))}
    found = []
    for name, (source, program) in programs.items():
        emulation = Emulation(program, compiled.graph)
        soil(emulation)
        got = emulation.run(inputs)
        unlike = tuple(n for n, wanted in outputs.items() if got[n].tobytes() != wanted.tobytes())
        copies = len(program.placed.keys() - source.program.placed.keys())
        moved = tuple(sorted(_on_cpu(source) ^ _on_cpu(compiled)))
        found.append(Other(name, _epochs(program), copies, unlike, moved, forms if source is plain else ()))
    return tuple(found)


def _without_passes(compiled: Compiled) -> tuple[Compiled, tuple[str, ...]]:
    plain = _again(compiled, NO_PASSES)
    forms = other_forms(compiled, plain)
    if not forms:
        return plain, ()
    _again(compiled, replace(NO_PASSES, verify=True))
    return _again(compiled, ONLY_LANES), forms


def _again(compiled: Compiled, options: Options) -> Compiled:
    return compile_canonical(compiled.source, compiled.graph, options, memories(options))


def other_forms(one: Compiled, other: Compiled) -> tuple[str, ...]:
    """Operators that run on the CPU in one of the two only, and convolutions that round at other places."""
    found = _on_cpu(one) ^ _on_cpu(other)
    for name, form in one.mapped.forms.items():
        reference = other.mapped.forms[name].semantics if name in other.mapped.forms else {}
        for op, semantics in form.semantics.items():
            wanted = roundings(semantics)
            if wanted is not None and not (op in reference and agree(reference[op], wanted)):
                found.add(op)
    return tuple(sorted(found))


def weights_in_ram(compiled: Compiled) -> Program:
    """The same steps; what fits is copied once or by idle engines."""
    decided, found = candidate_of(compiled, IN_RAM), [resident.propose, prefetch.propose]
    for generator in found:
        *_, proposal = generator(decided)  # before it, where they stay in flash
        decided = build(decided.setting, proposal.decisions, decided)
    return decided.made.program


def _on_cpu(compiled: Compiled) -> set[str]:
    return {reason.node for reason in compiled.choices.reasons}


def _epochs(program: Program) -> int:
    return sum(step.epoch is not None for step in program.steps)
