"""Limits of rules at other clocks or constants than those of their sentences, and where the processor programs the
epochs: a reader must not see the figure of another board."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from atonc.insight.explain import rules
from atonc.insight.explain.types import LayerView
from atonc.machine.hw.cycles import hardware
from atonc.machine.hw.machine import Machine, stm32n6


def at_clocks(
    layers: Iterable[LayerView], machine: Machine, programmed_by: str = hardware.CONTROLLER
) -> tuple[LayerView, ...]:
    found = tuple(layers)
    usual = machine.clocks == stm32n6().clocks and not machine.measured
    limits = {} if usual else _limits(machine)
    limits |= _programming(machine) if programmed_by == hardware.CPU else {}
    if not limits:
        return found
    return tuple(
        replace(layer, decisions=tuple(replace(d, limit=limits.get(d.rule.id, d.limit)) for d in layer.decisions))
        for layer in found
    )


def _limits(machine: Machine) -> dict[str, str]:
    """Says by rule what the machine at hand does, in the words of the rule."""
    clocks, timing = machine.clocks, machine.timing
    bank = f"one 8-byte beat per {timing.read_beat:.3g} cycles (read) or {timing.write_beat:.3g} (write) on an NPU RAM"
    return {
        rules.BOUNDS["flash"].id: _rate(clocks.flash_mb_per_s, machine.flash_byte_cycles),
        rules.BOUNDS["hyperram"].id: _rate(clocks.hyperram_mb_per_s, machine.hyperram_byte_cycles),
        rules.BOUNDS["cpu"].id: f"{clocks.cpu_mhz:g} MHz",
        rules.BOUNDS["bank"].id: f"{bank}, per {timing.noc_beat:.3g} on a CPU RAM",
    }


def _programming(machine: Machine) -> dict[str, str]:
    by_word, behind = machine.timing.cpu_before_word, machine.timing.cpu_after_constant
    said = f"{by_word:g} CPU cycles per word of the program, and {behind:g} or more behind the epoch"
    return {rules.BOUNDS["programming"].id: said}


def _rate(mb_per_s: float, byte_cycles: float) -> str:
    return f"{mb_per_s:g} MB/s: {byte_cycles:.3g} cycles per byte"
