"""ST's own validation clients, 3.1 and 3.2, with our harness on the virtual board; our client with ST's firmware.

DIR holds the two clients as owner+name/path (CLIENTS below). `--python` is an interpreter that has what they need:
protobuf below 3.21, numpy below 2, pyserial, tqdm, colorama (default: DIR/runner/bin/python). `--models none`
leaves ST's clients out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from atonc.compiler.request.options import Options
from atonc.delivery.firmware import image as firmware
from atonc.delivery.generate import generating
from atonc.delivery.trials import boarding
from atonc.delivery.trials.targeting import FolderSide, validate_target
from atonc.delivery.wire.client import Client
from atonc.delivery.wire.links import open_link
from atonc.insight.runs import runs
from atonc.machine.emu import tensors
from benchmarks.shared.corpus import ROOT
from benchmarks.shared.corpus import model as path_of
from benchmarks.shared.declare import INPUTS, MODEL_FILES, ONE_FETCHED, PYTHON, WRITE, Report, argument
from tests.wire.served import served

MODELS = ("digits.tflite", "ad01_int8.tflite", "kws_ref_model.tflite")
GROUP = "board"
ARGUMENTS = (
    ONE_FETCHED,
    PYTHON,
    INPUTS.but(default=20),
    argument("--recorded", type=int, default=100, help="inputs for ST's firmware (100)"),
    WRITE,
    MODEL_FILES.but(default=MODELS),
)

SESSION = ROOT / "benchmarks" / "shared" / "wire_session.py"
CLIENTS = {
    "3.1": "STMicroelectronics+stm32ai-modelzoo-services/common",
    "3.2": "SeongMin1000+N6_cusotm_validation/scripts/ai_runner",
}
SESSIONS = (  # client, minor version that the board says, line
    ("3.1", 1, "pty"),  # its socket driver does not load: short_desc() is called with an argument that it lacks
    ("3.1", 2, "pty"),
    ("3.2", 1, "socket:0"),
    ("3.2", 1, "pty"),
    ("3.2", 2, "socket:0"),
)
TIMEOUT_S = 600
TRIES = 4
INTRODUCTION = """# ST's clients with our harness

Models compiled by atonc, as firmware of `atonc board build` on the virtual
STM32N6; ST's own client connects, prints its summary and runs random inputs, of which two also layer by layer and layer
by layer with data. Every output byte is compared with `atonc run`. Client 3.1 is that of stm32ai-modelzoo-services (one
byte of packet header), client 3.2 that of the 2.2.0 package (two bytes). `board says`: the version that the firmware
announces (3.1 to whoever has one byte of header); client 3.2 refuses 3.2 by its own constant, which was set to 2 there.
Client 3.1 goes over a pseudo-terminal only: its own socket driver fails with a TypeError before it connects. `nodes`,
`tensors`: what the client counts layer by layer. The clients give a layer's tensor 0.1 s by the wall clock over a
pseudo-terminal; `tries`: how often a session was begun until that sufficed on this machine, which had other work to
do. 2026-11-15, 2-core aarch64 Linux, Python 3.11; seconds are of the host, client and board together.
"""
HEADER = (
    "| model | client | board says | line | tries | inputs | bytes compared | different | layer by layer | nodes | "
    "tensors | seconds |\n|---|---|---|---|---:|---:|---:|---:|---|---:|---:|---:|"
)


VENDOR = "76EHwan+ANN_GMPPT/.ai/run/run-1"
OURS = """
## Our client with ST's firmware

ST's validation application for the NUCLEO-N657X0-Q (protocol 3.2) with a network that ST's tool compiled, unchanged,
on the virtual board, under `atonc validate --mode target`. Inputs are those that were recorded on a board: outputs are
compared with the emulator and with what the board had answered. Cycles: measured at the NPU's clock / predicted.

| firmware | protocol | inputs | differ from the emulator | differ from the board | epochs: cycles | seconds |
|---|---|---:|---:|---:|---|---:|"""


@dataclass(frozen=True)
class Prepared:
    """A network with its firmware, inputs as ST's client takes them, and the bytes that must come back."""

    model: str
    elf: dict[int, Path]
    inputs: Path
    outputs: tuple[bytes, ...]


def run(arguments: argparse.Namespace) -> Report:
    python = (arguments.python or arguments.fetched / "runner" / "bin" / "python").absolute()
    bad, lines = 0, [INTRODUCTION, HEADER]
    chosen = () if arguments.models == ["none"] else arguments.models
    with tempfile.TemporaryDirectory() as temporary:
        common = firmware.compile_runtime(firmware.wire_runtime(), Path(temporary) / "runtime")
        for model in chosen:
            made = prepare(model, Path(temporary) / Path(model).stem, common, arguments.inputs)
            for row, right in rows(made, arguments.fetched, python):
                print(row, flush=True)
                lines.append(row)
                bad += not right
    lines.append(OURS)
    for elf in sorted((arguments.fetched / VENDOR / "STM32CubeIDE" / "Appli").glob("*/*.elf")):
        row, right = vendor_row(elf, arguments.fetched / VENDOR / ".ai" / "st_ai_output", arguments.recorded)
        print(row, flush=True)
        lines.append(row)
        bad += not right
    return Report("\n".join(lines) + "\n", failed=bool(bad))


def vendor_row(elf: Path, folder: Path, count: int) -> tuple[str, bool]:
    """A firmware that ST's tool built, with its network and what a board answered, under our client."""
    began = time.monotonic()
    net = runs.load(runs.RunOptions(folder))
    with np.load(folder / "network_val_io.npz") as arrays:
        given, answered = arrays["c_inputs_1"][:count], arrays["c_outputs_1"][:count]
    name, shape = net.inputs[0].name, tensors.io_shape(net.inputs[0])
    samples = [{name: value.reshape(shape)} for value in given]
    with served(elf, ready="READY to receive") as line:
        client = Client(open_link(line))
        found = validate_target(client, FolderSide(net), samples)
        client.disconnect()
    outputs = b"".join(turn.outputs[0] for turn in found.turns)
    wrong = _different(answered.tobytes(), outputs)
    told = (f"{b.first}-{b.last}: {b.npu_cycles:,} / {b.predicted_cycles:,}" for b in found.measured.blocks)
    cells = [f"{elf.parent.name}/{elf.name}", found.protocol, len(samples), found.different, wrong, ", ".join(told)]
    row = f"| {' | '.join(map(str, cells))} | {time.monotonic() - began:.1f} |"
    return row, found.equal and not wrong




def prepare(model: str, home: Path, common: list[Path], count: int) -> Prepared:
    path = ROOT / "examples" / "digits" / model if model == "digits.tflite" else path_of(model)
    view = generating.analyze(path, Options(verify=False))
    network = boarding.image_network(view, home / "network")
    elf = {
        minor: firmware.build_firmware(
            *([network], firmware.wire_runtime(minor), home / f"build{minor}", common),
            harness=firmware.WIRE,
        )
        for minor in (1, 2)
    }
    net = runs.load(runs.RunOptions(home / "network"))
    side = FolderSide(net)
    turns = [side.expect(runs.choose_inputs(net, runs.RunOptions(home / "network", seed=k))) for k in range(count)]
    arrays = {
        info.name: np.stack([np.frombuffer(given[k], tensors.dtype_of(info)) for given, _ in turns])
        for k, info in enumerate(net.inputs)
    }
    shaped = {
        name: value.reshape(count, *info.mem_shape[1:])
        for (name, value), info in zip(arrays.items(), net.inputs, strict=True)
    }
    np.savez(home / "inputs.npz", **{f"in_{k}": value for k, value in enumerate(shaped.values())})
    outputs = tuple(b"".join(out[k] for _, out in turns) for k in range(len(net.outputs)))
    return Prepared(model, elf, home / "inputs.npz", outputs)


def rows(made: Prepared, fetched: Path, python: Path) -> Iterator[tuple[str, bool]]:
    count = len(np.load(made.inputs)["in_0"])
    size = sum(len(value) for value in made.outputs)
    for client, minor, serial in SESSIONS:
        began = time.monotonic()
        tries, found, told = 0, None, {"failed": "TimeoutError"}
        while found is None and tries < TRIES and "TimeoutError" in str(told):
            tries += 1
            found, told = session(made, fetched.resolve() / CLIENTS[client], python, minor, serial)
        kind = "pty" if serial == "pty" else "socket"
        start = f"| {made.model} | {client} | 3.{minor} | {kind} | {tries} | {count} | {size:,} |"
        if found is None:
            yield f"{start} {told} | | | | |", False
            continue
        different = sum(_different(a, b) for a, b in zip(made.outputs, found, strict=True))
        layered = "equal" if told["layered_equal"] else "DIFFERENT"
        took = time.monotonic() - began
        row = f"{start} {different} | {layered} | {told['nodes']} | {told['tensors']} | {took:.1f} |"
        yield row, different == 0 and told["layered_equal"] and bool(told["summary"])


def session(made: Prepared, client: Path, python: Path, minor: int, serial: str) -> tuple[list[bytes] | None, dict]:
    output = made.inputs.with_name("outputs.npz")
    output.unlink(missing_ok=True)
    with served(made.elf[minor], serial) as line:
        command = [python, SESSION, client, line, str(minor), made.inputs, output]
        place = made.inputs.parent  # the client leaves a log where it runs
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=TIMEOUT_S, cwd=place)
    if done.returncode or not output.is_file():
        return None, {"failed": (done.stderr or done.stdout).strip().splitlines()[-1:]}
    with np.load(output) as arrays:
        told = json.loads(arrays["told"].tobytes())
        return [arrays[name].tobytes() for name in arrays.files if name != "told"], told


def _different(expected: bytes, found: bytes) -> int:
    if len(expected) != len(found):
        return max(len(expected), len(found))
    return int((np.frombuffer(expected, np.uint8) != np.frombuffer(found, np.uint8)).sum())
