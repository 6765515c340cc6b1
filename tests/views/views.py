"""What each view says of one build, as plain figures: a function a view. Figures of the same name must be equal in all
views that have them, so a new figure is a key in every function that can tell it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import Any

import atonc
from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.request.options import Gates, Options
from atonc.delivery.generate import generating
from atonc.doors.cli.cli import main
from atonc.doors.serve.worker import summary
from atonc.insight.report import compile_text, document
from atonc.insight.sweeping.row import compute
from atonc.insight.workers import WorkUnit
from atonc.machine.base.declare import arguments

Figures = dict[str, Any]
MEMORY = (
    "ram_bytes", "activations_bytes", "spilled_bytes", "resident_bytes", "prefetched_bytes", "relocatable_bytes",
    "weights_bytes", "code_constants_bytes", "flash_bytes",
)  # fmt: skip
TIME = ("cycles", "latency_ms", "latency_low_ms", "latency_high_ms", "energy_uj")


@dataclass(frozen=True)
class Build:
    """A model and options: as the compiler takes them, as words of the command line, and the folder of `generate`."""

    model: Path
    options: Mapping[str, Any]
    flags: tuple[str, ...]
    folder: Path

    @cached_property
    def compiled(self) -> CompileView:
        """For views that are functions of it."""
        return generating.analyze(self.model, arguments(Options, {**self.options, "verify": False}))


def _command(*words: object) -> Any:
    """What a verb prints as JSON."""
    out = StringIO()
    with redirect_stdout(out):
        assert main([str(word) for word in words]) == 0, words
    return json.loads(out.getvalue())


def _memory(found: Mapping[str, Any]) -> Figures:
    return {key: found[key] for key in MEMORY}


def _time(found: Mapping[str, Any]) -> Figures:
    return {key: found[key] for key in TIME}


def _compiled(found: Mapping[str, Any]) -> Figures:
    pools = {pool["name"]: pool["used_bytes"] for pool in found["memory"]["pools"] if pool["used_bytes"]}
    lower = found["memory"]["lower_bound_bytes"]
    counts = {"operator_count": found["operators"], "layer_count": found["layers"], "macs": found["macs"]}
    said = {"pools": pools, "lower_bound_bytes": lower, "evidence": found["silicon"]["text"]}
    return _time(found) | _memory(found["memory"]) | counts | said


def analyze(build: Build) -> Figures:
    return _compiled(_command("analyze", build.model, *build.flags, "--no-verify", "--json"))


def generate(build: Build) -> Figures:
    """Writes the folder that the views below read."""
    words = ("generate", build.model, *build.flags, "--no-verify", "--json", "-o", build.folder)
    return _compiled(_command(*words))


def short(build: Build) -> Figures:
    """What people see first, in the order of the screen."""
    lines = document.lines(compile_text.document(build.compiled))
    size = re.search(r": ([\d,]+) operators? in the model, ([\d,]+) layers? compiled", lines[0])
    start = "hardware confidence: "
    evidence = next((line.removeprefix(start) for line in lines if line.startswith(start)), "")
    in_code = re.search(r"in the code +([\d,]+) bytes", "\n".join(lines))
    assert size is not None
    return {
        "operator_count": _number(size[1]),
        "layer_count": _number(size[2]),
        "evidence": evidence,
        "code_constants_bytes": _number(in_code[1]) if in_code else 0,
    }


def c_file(build: Build) -> Figures:
    """The arrays of CPU layers, as a C compiler sees them."""
    said = (build.folder / "network.c").read_text()
    arrays = re.findall(r"static const (\w+) table_\d+\[(\d+)\]", said)
    return {"code_constants_bytes": sum(C_BYTES[ctype] * int(length) for ctype, length in arrays)}


C_BYTES = {"int8_t": 1, "uint8_t": 1, "int16_t": 2, "int32_t": 4, "uint32_t": 4, "float": 4, "int64_t": 8, "double": 8}


def text(build: Build) -> Figures:
    said = (build.folder / "network_report.txt").read_text()
    head = re.search(r"RAM ([\d,]+) bytes \((.*?)\), weights ([\d,]+) bytes", said)
    assert head is not None
    parts = dict(part.rsplit(" ", 1) for part in head[2].split(", "))
    spilled = re.search(r"([\d,]+) bytes of activations lie outside the chip", said)
    return {
        "ram_bytes": _number(head[1]),
        "activations_bytes": _number(parts["activations"]),
        "resident_bytes": _number(parts.get("resident weights", "0")),
        "relocatable_bytes": _number(parts.get("relocatable data", "0")),
        "weights_bytes": _number(head[3]),
        "spilled_bytes": _number(spilled[1]) if spilled else 0,
        "lower_bound_bytes": _number(re.findall(r"of the lower bound ([\d,]+)", said)[0]),
        "cycles": sum(_hardware_cycles(said)),
    }


def _hardware_cycles(said: str) -> Iterator[int]:
    """Reads from every row of the table of epochs its last number up to the end of that column."""
    _, head, *rows = said.split("\nepochs, ")[1].split("\n\n")[0].splitlines()
    end = head.index("predicted") + len("predicted")
    return (_number(row[:end].split()[-1].removeprefix("~")) for row in rows)


def _number(digits: str) -> int:
    return int(digits.replace(",", ""))


def vendor_text(build: Build) -> Figures:
    """The report in ST's form: all of RAM is `bss`."""
    said = (build.folder / "network_generate_report.txt").read_text()
    total = re.findall(r"TOTAL +[\d,]+ +([\d,]+)\n", said)
    blobs = json.loads((build.folder / "network_c_info.json").read_text())["memory_footprint"]["kernel_flash"]
    read_only = {_number(found) for found in re.findall(r"TOTAL +([\d,]+) +[\d,]+\n", said)}
    in_code = re.search(r"constants of CPU layers\] *: +([\d.]+) +(k?B)\n", said)
    model = re.search(r"weights=([\d,]+) activations=([\d,]+)", said)
    macs = re.search(r"macc=([\d,]+)", said)
    io = re.search(r"\n io +0 +([\d,]+)\n", said)
    assert model is not None and macs is not None and io is not None and total[0] == total[1]
    ram = _number(total[0]) - _number(io[1])
    assert read_only == {_number(model[1]) + blobs}, "all weights and programs are FLASH (ro)"
    scale = {"B": 1, "kB": 1024}
    shown = round(float(in_code[1]) * scale[in_code[2]]) if in_code else 0
    constants = build.compiled.memory.code_constants_bytes
    assert abs(shown - constants) <= 1, "three digits of a kilobyte"
    sizes = {"ram_bytes": ram, "weights_bytes": _number(model[1]), "activations_bytes": _number(model[2])}
    return sizes | {"macs": _number(macs[1])}


def vendor_json(build: Build) -> Figures:
    found = json.loads((build.folder / "network_c_info.json").read_text())["memory_footprint"]
    return {"weights_bytes": found["weights"], "activations_bytes": found["activations"]}


def header(build: Build) -> Figures:
    said = (build.folder / "network_memories.h").read_text()
    found = {key: int(value) for key, value in re.findall(r"#define ATONC_DEFAULT_(\w+_BYTES) (\d+)UL", said)}
    uses = ("ACTIVATIONS", "RESIDENT", "PREFETCHED", "RELOCATABLE")
    parts = {f"{use.lower()}_bytes": found[f"RAM_{use}_BYTES"] for use in uses}
    return parts | {"ram_bytes": found["RAM_BYTES"], "spilled_bytes": found["SPILLED_BYTES"]}


def page_data(file: Path) -> Any:
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', file.read_text(), re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def _page(file: Path) -> Figures:
    data = page_data(file)
    totals = data["totals"]
    parts = totals["ram_by_use"]
    return {
        "cycles": totals["cycles"],
        "latency_ms": totals["latency_ms"],
        "latency_low_ms": totals["low_ms"],
        "latency_high_ms": totals["high_ms"],
        "energy_uj": totals["energy_uj"],
        "macs": totals["macs"],
        "ram_bytes": totals["ram"],
        "activations_bytes": totals["activations"],
        "spilled_bytes": totals["spilled"],
        "resident_bytes": parts.get("resident", 0),
        "prefetched_bytes": parts.get("prefetched", 0),
        "relocatable_bytes": parts.get("relocatable", 0),
        "weights_bytes": totals["weights"],
        "code_constants_bytes": totals["code_constants"],
        "flash_bytes": totals["flash"],
        "lower_bound_bytes": totals["lower_bound"],
        "pools": {pool["name"]: pool["used"] for pool in data["pools"] if pool["used"]},
        "live_bytes": max(data["live"]),
        "evidence": data["silicon"]["head"] if data["silicon"] else "",
        **_layers(data["layers"]),
    }


def page(build: Build) -> Figures:
    return _page(build.folder / "report.html")


def view(build: Build) -> Figures:
    file = build.folder.with_suffix(".html")
    with redirect_stdout(StringIO()):
        assert main(["view", str(build.folder), "--save", str(file)]) == 0
    return _page(file)


LAYER = ("name", "on", "epochs", "macs", "milliseconds", "cycles", "energy_uj", "chains", "modes")


def _layers(rows: Sequence[Mapping[str, Any]]) -> Figures:
    """Figures of layers, and what they add up to."""
    names, cycles = [row["name"] for row in rows], sum(row["cycles"] for row in rows)
    figures = [[row[key] for key in LAYER] for row in rows]
    return {"layers": figures, "layer_count": len(rows), "layer_names": names, "layers_cycles": cycles}


def _explained(found: Mapping[str, Any]) -> Figures:
    assert sum(row["cycles"] for row in found["layers"]) == found["cycles"]
    energies = [row["energy_uj"] for row in found["layers"]]
    assert abs(sum(energies) - found["energy_uj"]) < 1e-6 * (len(energies) + 1)
    live = found["peak"]["live_bytes"]
    said = {"live_bytes": live, "evidence": found["silicon"]["text"] if found["silicon"] else ""}
    return _time(found) | _memory(found["memory"]) | said | _layers(found["layers"])


def explain(build: Build) -> Figures:
    return _explained(_command("explain", build.folder, "--json"))


def explain_model(build: Build) -> Figures:
    return _explained(_command("explain", build.model, *build.flags, "--no-prices", "--json"))


def explain_text(build: Build) -> Figures:
    """The first line that people read, and the row of the flash."""
    out = StringIO()
    with redirect_stdout(out):
        assert main(["explain", str(build.folder)]) == 0
    head = re.search(r": ([\d,]+) layers? in", out.getvalue())
    assert head is not None
    return {"layer_count": _number(head[1])}


def compare(build: Build) -> Figures:
    found = _command("compare", build.folder, build.folder, "--json")
    assert found["same_model"] is True and found["warnings"] == [] and found["options"] == []
    figures = {figure["name"]: figure["a"] for figure in found["figures"]}
    shown = {
        "ram_bytes": figures["RAM"],
        "resident_bytes": figures.get("resident weights", 0),
        "activations_bytes": figures["activations"],
        "spilled_bytes": figures["spilled"],
        "weights_bytes": figures["weights"],
        "flash_bytes": figures["flash"],
    }
    assert found["b"]["memory"] | shown == found["a"]["memory"]
    assert figures["latency"] == found["a"]["latency_ms"]
    return _memory(found["a"]["memory"]) | {key: found["a"][key] for key in TIME if key in found["a"]}


def run(build: Build) -> Figures:
    if "encrypt_weights" in build.options:  # nobody but a board can
        return {}
    return _time(_command("run", build.folder, "--json"))


def sweep(build: Build) -> Figures:
    options = {key: list(value) if isinstance(value, tuple) else value for key, value in build.options.items()}
    names: dict[str, Any] = {"options": options, "size": "", "verify": False, "board": "stm32n6570-dk"}
    found = json.loads(compute(WorkUnit("row", (build.model,), names)))["figures"]
    return _memory(found) | _time(found) | {"macs": found["macs"]}


def serve(build: Build) -> Figures:
    found = summary(compile_text.as_json(build.compiled) | {"gates": []})
    return _memory(found) | _time(found)


def gates(build: Build) -> Figures:
    """The smallest limits that hold."""
    found = build.compiled
    shortest = found.cost.latency_ms
    assert generating.broken(Gates(max_latency=shortest * (1 - 1e-9)), found)
    assert not generating.broken(Gates(max_latency=shortest), found)
    return {
        "latency_ms": shortest,
        "ram_bytes": _least(lambda most: not generating.broken(Gates(max_ram=most), found)),
        "activations_bytes": _least(lambda most: not generating.broken(Gates(max_activations=most), found)),
    }


def _least(holds: Callable[[int], bool]) -> int:
    low, high = 0, 1 << 26  # no limit is written as 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def python(build: Build) -> Figures:
    found = atonc.compile(build.model, verify=False, **build.options)
    memory = found.memory
    time = {"cycles": found.cycles, "latency_ms": found.latency_ms, "energy_uj": found.energy.uj.likely}
    band = {"latency_low_ms": found.latency_low_ms, "latency_high_ms": found.latency_high_ms}
    return (
        time
        | band
        | {key: getattr(memory, key) for key in MEMORY}
        | {
            "lower_bound_bytes": memory.lower_bound_bytes,
            "pools": {name: size for name, size in memory.pools.items() if name != "firmware"},
            "layer_count": len(found.layers),
            "layer_names": [layer.name for layer in found.layers],
            "layers_cycles": sum(layer.cycles for layer in found.layers),
        }
    )


VIEWS: tuple[Callable[[Build], Figures], ...] = (
    generate, analyze, short, c_file, text, vendor_text, vendor_json, header, page, view, explain, explain_model,
    explain_text, compare, run, sweep, serve, gates, python,
)  # fmt: skip
