"""Do ten PyTorch modules become verified programs in one call each, and does the notebook run to its report?

What `atonc.torch.compile(module, example, samples)` does, in its two halves (`atonc.torch.quantize`, `atonc.compile`)
to have the decibels: each module of `shared/torch_modules.py` is exported, quantised with 32 samples of noise and
compiled, and every layer is verified on the emulator. Weights are those of a seed, so decibels are of
noise through untrained layers: they say that nothing broke, not how good a network is. Milliseconds are predicted for
the discovery kit; no program was run on a board. `examples/pytorch.ipynb` is executed cell by cell.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass

import torch

import atonc
from benchmarks.shared.corpus import ROOT, asked_for
from benchmarks.shared.declare import ONLY, WRITE, Report
from benchmarks.shared.tables import in_a_cell, table
from benchmarks.shared.torch_modules import MODULES, made

GROUP = "quantising"
ARGUMENTS = (ONLY, WRITE)
SAMPLES = 32
NOTEBOOK = ROOT / "examples" / "pytorch.ipynb"


@dataclass(frozen=True)
class ModuleRow:
    name: str
    parameters: int
    layers: int
    on_cpu: int
    decibels: float
    milliseconds: float
    worst: float  # codes that any layer is off, against exact arithmetic
    seconds: float  # of processor time
    refusal: str = ""

    def cells(self) -> tuple[object, ...]:
        if self.refusal:
            return self.name, f"{self.parameters:,}", in_a_cell(self.refusal), "", "", "", "", ""
        return (
            self.name, f"{self.parameters:,}", "verified", self.layers, self.on_cpu, f"{self.decibels:.1f}",
            f"{self.milliseconds:.3f}", f"{self.worst:g}", f"{self.seconds:.0f}",
        )  # fmt: skip


def run(arguments: argparse.Namespace) -> Report:
    torch.set_num_threads(1)
    rows = []
    for name in MODULES:
        if asked_for(arguments.only, name):
            rows.append(measured(name))
            print(*rows[-1].cells(), flush=True)
    ran = "" if arguments.only else executed()
    failed = any(row.refusal for row in rows) or bool(ran)
    return Report(page(rows, ran), failed)


def measured(name: str) -> ModuleRow:
    module, example = made(name)
    parameters, start = sum(one.numel() for one in module.parameters()), time.process_time()
    torch.manual_seed(1)
    samples = torch.randn(SAMPLES, *example.shape[1:])
    try:
        quantised = atonc.torch.quantize(module, example, samples)
        compiled = atonc.compile(quantised)
    except atonc.errors.AtoncError as error:
        return ModuleRow(name, parameters, 0, 0, 0.0, 0.0, 0.0, 0.0, str(error))
    report = compiled.verification
    assert report is not None
    checks = [check for check in report.checks if check.kind not in ("quantize", "dequantize")]
    return ModuleRow(
        name, parameters, len(checks), sum(check.on_cpu for check in checks),
        min(quantised.outputs_db.values()), compiled.latency_ms, report.worst_layer, time.process_time() - start,
    )  # fmt: skip


def executed() -> str:
    """What went wrong in the notebook; empty where every cell ran."""
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    names: dict[str, object] = {"__name__": "notebook"}
    for number, cell in enumerate(cell for cell in cells if cell["cell_type"] == "code"):
        try:
            exec(compile("".join(cell["source"]), f"cell {number + 1}", "exec"), names)
        except Exception as error:  # a cell may raise anything
            return f"cell {number + 1}: {type(error).__name__}: {in_a_cell(error)}"
    return ""


def page(rows: list[ModuleRow], ran: str) -> str:
    good = sum(not row.refusal for row in rows)
    columns = ("module", ">parameters", "program", ">layers", ">on the CPU", ">dB against float", ">ms predicted",
               ">codes off at most", ">s to make")  # fmt: skip
    lines = "\n".join(table(columns, (row.cells() for row in rows)))
    notebook = f"It stops: {ran}." if ran else "Every cell of `examples/pytorch.ipynb` ran."
    text = __doc__.strip()
    return f"""# PyTorch modules to verified programs

{text}

{good} of {len(rows)} modules became verified programs, with torch {torch.__version__}. Layers that convert inputs and
outputs between real numbers and codes are not counted; seconds are of one processor.

{lines}

{notebook}
"""
