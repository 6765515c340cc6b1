"""What `atonc validate --mode target --bisect` shows: the first layer that differs, the likely cause, what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from atonc.delivery.trials.bisecting import BisectCheck, Bisection, Cause, DifferentConstant, FirstDifference
from atonc.insight.report.document import Chapter, Column, Document, Mark, SummaryRow, Table, fields_of, next_row
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count, shell

if TYPE_CHECKING:
    from atonc.machine.hw.safety.evidence import Feature, Graded

_MOST = 3  # configurations, probes and constants that are named
_STATES = {True: "good", False: "BAD", None: "-"}
_CHECKS = (
    Column[BisectCheck]("check", lambda one: one.what, left=True),
    Column[BisectCheck]("", lambda one: _STATES[one.good], left=True),
    Column[BisectCheck]("found", lambda one: one.found, left=True),
)
_CAUSES = {
    Cause.NONE: "none: every output equals the emulator's",
    Cause.TRANSFER: "transfer: the inputs arrive changed",
    Cause.MEMORY: "memory",
    Cause.CPU: "CPU: a layer that the CPU computes",
    Cause.NPU: "NPU: an epoch with correct inputs and wrong results",
    Cause.UNKNOWN: "not known: CPU or NPU, what lies between could not be told apart",
}
_SELF_TEST = (
    "run the self-test in your firmware (generate --selftest): it names banks, clocks, rights and caches that are wrong"
)


@dataclass(frozen=True)
class BisectAdvice:
    """What the likely cause rests on, and what to do next."""

    layers: tuple[str, ...]
    reasons: tuple[str, ...]
    actions: tuple[str, ...]


def document(found: Bisection) -> Document:
    advice = explained(found)
    head = [
        f"target: {found.line}, protocol {found.protocol}, STM32N6 ({found.system.device:#x}) at "
        f"{found.system.cpu_hz / 1e6:.0f} MHz, NPU {found.system.npu_hz / 1e6:.0f} MHz",
        f"network {found.model.name} ({found.model.description}): {found.identity}",
    ]
    sections = [Chapter("", head)]
    if found.checks:
        sections.append(Chapter("", [Table(_CHECKS, found.checks, "Looked at", titles=True)]))
    sections.append(Chapter("", [f"- {reason}" for reason in advice.reasons]))
    rows: list[SummaryRow | None] = [
        SummaryRow("outputs", _verdict(found), Mark.GOOD if found.equal else Mark.ALARM),
        SummaryRow("layer", _where(found.difference, advice), Mark.ALARM) if found.difference else None,
        SummaryRow("cause", _CAUSES[found.cause], None if found.equal else Mark.ALARM),
        *(next_row(action) for action in advice.actions),
    ]
    return Document(sections=sections, summary=rows, data=lambda: as_json(found, advice))


def _verdict(found: Bisection) -> str:
    if found.equal:
        return f"{count(found.samples, 'sample')}: every byte equals the emulator's"
    times = "the same bytes" if found.stable else "not the same bytes"
    return f"sample {found.sample} differs from the emulator, {times} in every run"


def _where(difference: FirstDifference | None, advice: BisectAdvice) -> str:
    if difference is None:
        return ""
    epochs = f"epoch {difference.first}" if difference.exact else f"epochs {difference.first} to {difference.last}"
    of = f" ({', '.join(advice.layers[:_MOST])})" if advice.layers else ""
    return f"{epochs}{of}, {difference.kind}: {difference.different:,} of {difference.compared:,} bytes differ"


# ------------------------------------------------------------------------------------------------- reasons and actions


def explained(found: Bisection) -> BisectAdvice:
    if found.equal:
        return BisectAdvice((), (), ())
    layers = _layers(found)
    reasons, actions = {
        Cause.TRANSFER: _transfer,
        Cause.MEMORY: _memory,
        Cause.CPU: _cpu,
        Cause.NPU: _npu,
    }.get(found.cause, _unknown)(found)
    if found.difference is not None and found.difference.whole_lines:
        reasons.append("what differs are whole lines of 32 bytes: cache maintenance between CPU and NPU is in doubt")
        actions.insert(
            0, "check that caches are cleaned and invalidated around each run (mcu_cache_*), or try with D-cache off"
        )
    return BisectAdvice(layers, tuple(reasons), tuple(actions))


def _layers(found: Bisection) -> tuple[str, ...]:
    from atonc.insight.explain import folder

    if found.net is None or found.difference is None:
        return ()
    first, last = found.difference.first, found.difference.last
    steps = [step for step in folder.view_of(found.net).steps if first <= step.number <= last]
    return tuple(dict.fromkeys(step.layer or step.title for step in steps))


Advised = tuple[list[str], list[str]]


def _transfer(found: Bisection) -> Advised:
    return (
        [
            "inputs in the board's memory differ from those sent, although that memory keeps what is written to it",
            "so the layers compute with wrong inputs; the network itself is not the cause",
        ],
        ["lower the speed of the line (board build --baud), shorten the cable, then run this command again"],
    )


def _memory(found: Bisection) -> Advised:
    if found.constants:
        named = [_constant(one) for one in found.constants[:_MOST]]
        flash = any(one.address >> 28 == 7 for one in found.constants)
        program = "program the constants again (constants_0x*.bin, or the .hex of the build) and read them back"
        again = [program] if flash else ["check that the bank keeps its contents: powered, clocked also in sleep"]
        if any(not one.stable for one in found.constants):
            again.append("lower the clock of that memory: it reads different bytes each time")
        return ["constants differ from those of the build", *named], [*again, _SELF_TEST]
    if any(check.good is False and "inputs" in check.what for check in found.checks):
        return ["the memory of the inputs does not keep what is written to it"], [_SELF_TEST]
    return (
        [
            "the same input gives different bytes each time, and inputs and constants in memory are correct",
            "a wrong program would give the same wrong bytes each time",
        ],
        [_SELF_TEST, "lower the clocks of NPU and RAM, check the supply, then run this command again"],
    )


def _constant(one: DifferentConstant) -> str:
    epochs = f", read by epoch {', '.join(map(str, one.epochs[:_MOST]))}" if one.epochs else ""
    seen = f"{one.board[:8].hex() or 'nothing certain'} instead of {one.built[:8].hex()}"
    return f"at {one.address:#010x}: {seen}{'' if one.stable else ', different in another read'}{epochs}"


def _cpu(found: Bisection) -> Advised:
    assert found.difference is not None
    return (
        [
            "every tensor before it is correct, and so are inputs and constants, as far as they could be checked",
            "the layer is C code on the CPU: suspect compiler, options, stack and FPU",
        ],
        [
            "run the same firmware sources on the virtual board: atonc validate MODEL --mode board",
            "build with another -O level and a larger stack; if it stays wrong, send the recording (--record)",
        ],
    )


def _npu(found: Bisection) -> Advised:
    reasons = [
        "its inputs in RAM are correct, and so are inputs and constants, as far as they could be checked"
        if found.difference is not None and found.difference.exact
        else "inputs and constants are correct, as far as they could be checked; the epochs between were not separated"
    ]
    actions = []
    graded = _graded(found)
    if not graded:
        reasons.append("ST programs have all its configurations: suspect rights, clocks and RAM banks first")
        actions.append(_SELF_TEST)
    for one in graded[:_MOST]:
        rests = f", by argument {one.argument}" if one.argument else ""
        reasons.append(f"less than 'seen in ST programs': {one.feature} ({one.grade}{rests})")
    probes = _probes([one.feature for one in graded])
    if probes:
        actions.append(f"test it on the board: {shell('probe', *probes[:_MOST], '-o', 'probes')}")
    arguments = sorted({one.argument for one in graded} - {""})
    if arguments:
        actions.append(
            f"compile without it: {shell('generate', 'MODEL', *(w for a in arguments for w in ('--distrust', a)))}"
        )
    if found.difference is not None and not found.difference.exact:
        actions.append("generate --no-epoch-controller, build and flash it: every epoch is then a block of its own")
    return reasons, [*actions, "send the recording (--record): such reports come first"]


def _unknown(found: Bisection) -> Advised:
    return (
        ["inputs and constants are correct, as far as they could be checked"],
        ["use the firmware of `atonc board build`: it shows layers and memory", _SELF_TEST],
    )


def _graded(found: Bisection) -> list[Graded]:
    """Configurations of the epoch that ST programs do not simply have, the weakest first."""
    from atonc.insight.runs.programs import network_context
    from atonc.machine.hw.safety.evidence import grade_program

    if found.net is None or found.difference is None:
        return []
    first, last = found.difference.first, found.difference.last
    epochs = [step.epoch for step in found.net.steps if first <= step.number <= last and step.epoch is not None]
    forms = [form.graded for one in grade_program(epochs, network_context(found.net.network)) for form in one.forms]
    once = {one.feature: one for one in forms}
    return sorted(once.values(), key=lambda one: (-one.grade.rank, str(one.feature)))


def _probes(features: list[Feature]) -> list[str]:
    """Those whose programs show most of them."""
    from atonc.delivery.probes import PROBES
    from atonc.delivery.probes.log import features_of

    wanted = frozenset(features)
    if not wanted:
        return []
    shared = {probe.name: len(wanted & features_of(probe)) for probe in PROBES if not probe.is_control}
    return sorted((name for name, number in shared.items() if number), key=lambda name: (-shared[name], name))


# ---------------------------------------------------------------------------------------------------------------- JSON


def as_json(found: Bisection, advice: BisectAdvice) -> dict[str, Any]:
    difference = found.difference
    return {
        "mode": "target",
        "bisect": True,
        **fields_of(found, "equal", "samples", "sample", "runs", "stable"),
        "cause": str(found.cause),
        "target": {
            **fields_of(found, "line", "protocol"),
            **fields_of(found.system, "device", "cpu_hz", "npu_hz"),
            **fields_of(found.model, "network=name", "signature", "runtime=description"),
            **fields_of(found, "identity", "faults"),
        },
        "first_difference": None
        if difference is None
        else {
            **fields_of(
                difference, "first", "last", "kind", "exact", "bytes_different=different", "bytes_compared=compared"
            ),
            "layers": list(advice.layers),
        },
        "constants": list(map(_constant_data, found.constants)),
        "checks": [fields_of(check, "what", "found", "good") for check in found.checks],
        "reasons": list(advice.reasons),
        "actions": list(advice.actions),
    }


def _constant_data(one: DifferentConstant) -> dict[str, Any]:
    return {
        **fields_of(one, "address", "size_bytes", "stable"),
        **{"board": one.board.hex(), "built": one.built.hex(), "epochs": list(one.epochs)},
    }
