"""`atonc validate --mode target` against the virtual board that runs our own harness."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from atonc.compiler.inputs.inputs import program_inputs
from atonc.compiler.verify.emulation import Emulation
from atonc.delivery.firmware import image as firmware
from atonc.delivery.trials.boarding import stored_input
from atonc.delivery.wire import messages
from atonc.delivery.wire.client import BoardRunResult, Client
from atonc.delivery.wire.links import open_link
from atonc.delivery.wire.messages import NARROW
from atonc.doors.cli import cli
from atonc.insight.validating.validating import synthetic_samples
from atonc.machine.base.errors import InputError
from tests.board.programs import needs_compiler
from tests.emit.generated import DIGITS, digits, steps_of_digits
from tests.errors_said import unwrapped

from .served import BadLink, served

pytestmark = needs_compiler
ROOT = Path(__file__).parents[2]
LAST = steps_of_digits()
EPOCHS = [(1, LAST - 1), (LAST, LAST)]  # of the digits network: one block of the epoch controller, softmax


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("wire")


@pytest.fixture(scope="module")
def folder(home: Path) -> Path:
    """The digits network as `atonc generate` writes it."""
    assert cli.main(["generate", str(DIGITS), "-o", str(home / "network"), "-q"]) == 0
    return home / "network"


@pytest.fixture(scope="module")
def line(folder: Path, home: Path) -> Iterator[str]:
    """A board of protocol 3.1 that serves one client after the other."""
    elf = home / "firmware.elf"
    assert cli.main(["board", "build", str(folder), "-o", str(elf)]) == 0
    with served(elf) as place:
        yield place


def validate(line: str, *options: object) -> int:
    return cli.main(["validate", *map(str, options), "--mode", "target", "-d", line])


def test_model_with_recording_and_page(
    folder: Path, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record, page = tmp_path / "digits.npz", tmp_path / "digits.html"
    assert validate(line, DIGITS, "-b", 2, "--json", "--record", record, "--page", page) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["equal"] and (found["samples"], found["bytes_compared"], found["bytes_different"]) == (2, 20, 0)
    target = found["target"]
    assert (target["protocol"], target["device"]) == ("3.1", 0x486)
    assert (target["cpu_hz"], target["npu_hz"]) == (600_000_000, 800_000_000)
    assert target["signature"] == firmware.signature(firmware.network_in(folder))
    assert "that of this compilation" in target["identity"]
    _check_epochs(found)
    _check_recording(record, found)
    assert cli.main(["recordings", "check", str(record), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bytes_different"] == 0
    assert cli.main(["recordings", "compare", str(record), str(folder), "--json"]) == 0
    beside = json.loads(capsys.readouterr().out)
    assert beside["same_program"] and beside["compared"] == 20 and not beside["different"]
    assert [(block["first"], block["last"]) for block in beside["blocks"]] == EPOCHS
    told = json.loads(re.search(r'"measured": ?(\{.*?\]\})', page.read_text())[1])  # type: ignore[index]
    assert [(b["first"], b["last"]) for b in told["blocks"]] == EPOCHS
    assert [b["ms"] for b in told["blocks"]] == pytest.approx([e["measured_ms"] for e in found["epochs"]], rel=1e-3)
    assert "Measured beside predicted" in page.read_text()


def _check_epochs(found: dict) -> None:
    epochs = found["epochs"]
    assert [(e["first"], e["last"]) for e in epochs] == EPOCHS
    for epoch in epochs:
        cycles = epoch["before"] + epoch["core"] + epoch["after"]
        assert epoch["measured_ms"] == pytest.approx(1e3 * cycles / 600e6)
        assert epoch["npu_cycles"] == round(epoch["measured_ms"] * 800e3)
        assert epoch["ratio"] == pytest.approx(epoch["measured_ms"] / epoch["predicted_ms"])
    # the virtual NPU takes what the hardware model says, so what is left is the code around it
    assert 1.0 <= epochs[0]["npu_cycles"] / epochs[0]["predicted_cycles"] < 1.1
    assert found["latency_ms"] == pytest.approx(sum(e["measured_ms"] for e in epochs), rel=0.2)


def _check_recording(file: Path, found: dict) -> None:
    with np.load(file) as arrays:
        assert arrays["c_inputs_1"].shape == (2, 8, 8, 1)
        assert arrays["c_outputs_1"].shape == (2, 10)
        assert (arrays["c_outputs_1"] == arrays["m_outputs_1"]).all()
        told = json.loads(arrays["atonc"].tobytes())
    assert told["model_sha256"] == found["model_sha256"] and told["program"] and "digits" not in json.dumps(told)
    assert [block["core"] for block in told["blocks"]] == [e["core"] for e in found["epochs"]]
    assert told["ran_with"]["cpu_hz"] == 600_000_000 and "3.1" in told["ran_with"]["firmware"]


def test_sources_for_a_bare_board_over_a_serial_line(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the owner of a board would build, here for the virtual one: clocks of reset, no vendor code."""
    folder, sources = home / "ram", home / "sources"
    pools = ["--mpool", str(ROOT / "examples" / "bare_metal" / "ram_only.mpool")]
    assert cli.main(["generate", str(DIGITS), "-o", str(folder), "-n", "digits", "-q", *pools]) == 0
    assert cli.main(["board", "build", str(folder), "--sources", str(sources), "--protocol", "3.2"]) == 0
    made = subprocess.run(["make", "-s", "-j2", "-C", str(sources), "CPU=cortex-m33"], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    with served(sources / "firmware.elf", "pty") as line:
        assert validate(line, folder, "-b", 1) == 0
    text = capsys.readouterr().out
    assert "protocol 3.2" in text and "every byte equals the emulator's" in text and line in text
    assert "at 64 MHz, NPU 64 MHz" in text
    assert re.search(r"measured ms +predicted +ratio", text)
    assert re.search(rf"^ +1-{LAST - 1} +0\.\d+ +0\.\d+", text, re.MULTILINE)
    assert re.search(rf"^ +{LAST} +0\.", text, re.MULTILINE)


def test_sources_of_a_network_with_constants_in_flash(folder: Path, home: Path) -> None:
    sources = home / "project"
    assert cli.main(["board", "build", str(folder), "--sources", str(sources), "-q"]) == 0
    (constants,) = sources.glob("constants_0x7*.bin")
    assert constants.read_bytes() == firmware.network_in(folder).contents[0][1]
    readme = (sources / "README.md").read_text()
    assert "Not with these networks: constants lie outside the chip" in readme and constants.name in readme
    assert firmware.signature(firmware.network_in(folder)) in (sources / "networks.h").read_text()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "one of -o FIRMWARE.elf and --sources OUT is wanted"),
        (["-o", "a.elf", "--sources", "b"], "one of -o FIRMWARE.elf and --sources OUT is wanted"),
        (["-o", "a.elf", "--baud", "12"], "12 is no speed of this UART"),
    ],
)
def test_wrong_build_options(folder: Path, options: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["board", "build", str(folder), *options]) == 2
    assert words in unwrapped(capsys.readouterr().err)


def test_two_networks_of_one_name(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["board", "build", str(folder), str(folder), "-o", str(tmp_path / "a.elf")]) == 2
    assert "every network in a firmware has its own name" in unwrapped(capsys.readouterr().err)


def test_constants_share_a_place_only_where_they_are_the_same() -> None:
    contents = enumerate((b"1", b"1", b"2"))
    one, same, other = (SimpleNamespace(name=str(n), contents=[(64, data)]) for n, data in contents)
    firmware._check_contents(cast(Any, [one, same]))
    with pytest.raises(InputError, match="both want their constants"):
        firmware._check_contents(cast(Any, [one, other]))


def test_the_hash_sees_the_programs(folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    network = firmware.network_in(copy)
    before = firmware.signature(network)
    blobs = copy / "network_ecblobs.h"
    blobs.write_text(blobs.read_text().replace("0x", "0X", 1))
    assert firmware.signature(network) != before


def test_another_network_is_refused(line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same model in another form: inputs and outputs fit, and no number is told."""
    record = tmp_path / "no.npz"
    assert validate(line, DIGITS, "-b", 1, "--no-epoch-controller", "--record", record) == 4
    out, err = capsys.readouterr()
    assert "the board holds another network" in err and "no number is believed" in err
    assert not record.exists() and not out


@pytest.mark.parametrize("dialect", ["narrow", "wide"])
def test_run_modes(line: str, dialect: str) -> None:
    client = Client(open_link(line))
    if dialect == "narrow":
        client.dialect, client._met = NARROW, True
    client.connect()
    assert client.system_info().npu_hz == 800_000_000
    (model,) = client.models()
    inputs, outputs, last = _expected()
    plain, layers, data = (
        client.run(model, inputs, messages.IO_ONLY | more)
        for more in (0, messages.PER_LAYER, messages.PER_LAYER | messages.WITH_DATA)
    )
    client.disconnect()
    assert [run.outputs for run in (plain, layers, data)] == [outputs] * 3
    assert not plain.layers and _blocks(layers) == _blocks(data) == EPOCHS
    (bare,), (full,) = layers.layers[0].tensors, data.layers[0].tensors
    assert bare.data.data == b"" and bare.info.name == full.info.name
    assert full.data.data == last


def test_harness_at_the_end_of_a_bad_line(line: str) -> None:
    """A lost byte of a request, a doubled one of an input, a changed one of an output: asked again, and right."""
    faults = {
        (True, 150): lambda byte: b"",
        (False, 400): lambda byte: bytes([byte, byte]),
        (True, 420): lambda byte: bytes([byte, byte]),
        (False, 1100): lambda byte: bytes([byte ^ 0x55]),
    }
    link = BadLink(open_link(line), faults)
    client = Client(link, patience_s=5.0)
    client.connect()
    (model,) = client.models()
    inputs, outputs, _ = _expected()
    found = [client.run(model, inputs).outputs for _ in range(4)]
    client.disconnect()
    assert link.pending == 0 and client.faults > 0
    assert found.count(outputs) >= 3  # a changed byte inside an output nobody sees who runs it once


def _expected() -> tuple[list[bytes], tuple[bytes, ...], bytes]:
    """Inputs, outputs, and what the last epoch before softmax writes."""
    compiled = digits().compiled
    emulation, graph = Emulation(compiled.program, compiled.graph), compiled.graph
    inputs = program_inputs(compiled, synthetic_samples(compiled.source, 1, 3)[0])
    stored = [stored_input(emulation, name, inputs[name]).tobytes() for name in graph.inputs]
    emulation.run(inputs)
    softmax = next(op for op in graph.ops if op.kind == "softmax")
    written = tuple(emulation.load(name).tobytes() for name in graph.outputs)
    return stored, written, emulation.load(softmax.inputs[0]).tobytes()


def _blocks(run: BoardRunResult) -> list[tuple[int, int]]:
    return [(layer.operator.id & 0xFFFF, layer.operator.id >> 16) for layer in run.layers]


def test_memory(line: str) -> None:
    client = Client(open_link(line))
    client.connect()
    content = np.random.default_rng(1).integers(0, 256, 2500, np.uint8).tobytes()
    client.write_memory(0x9010_0003, content)
    assert client.read_memory(0x9010_0000, 2504)[3:2503] == content
    client.disconnect()
