"""What is estimated for the build that was measured, at the clocks at which it ran."""

from __future__ import annotations

from pathlib import Path

from atonc.delivery.recordings.recording import Recording
from atonc.insight.explain.folder import folder_view
from atonc.machine.base.errors import InputError
from atonc.machine.cost.energy import EnergyEstimate
from atonc.machine.hw.machine import Machine


def estimate(folder: Path, recording: Recording | None) -> EnergyEstimate:
    """Clocks are those of the recording, where it tells them, else those of the build."""

    def clocked(machine: Machine) -> Machine:
        if recording is None:
            return machine
        ran = recording.ran_with
        clocks = {"cpu_mhz": ran.cpu_hz / 1e6} | ({"npu_mhz": ran.npu_hz / 1e6} if ran.npu_hz else {})
        return machine.with_clocks(**clocks)

    found = folder_view(folder, adjust=clocked).energy
    if not found.known:
        raise InputError("its files do not tell what its epochs do", where=str(folder), remedy="give the whole folder")
    return found
