"""`atonc validate --mode target --bisect` against a virtual board with something planted in it: the right layer and the
right cause, each time."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atonc.compiler.ir import Graph
from atonc.compiler.request.options import Options
from atonc.delivery.trials import bisecting
from atonc.delivery.trials.boarding import image_network
from atonc.delivery.trials.targeting import FolderSide
from atonc.delivery.wire import links, messages
from atonc.delivery.wire.client import Client
from atonc.delivery.wire.links import ByteLink
from atonc.doors.cli import cli
from atonc.insight.runs import runs
from atonc.machine.emu.board import VirtualBoard
from atonc.machine.emu.board.npu import Execute
from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.network import load
from atonc.machine.emu.npu import run_epoch
from atonc.machine.hw.epoch import Epoch
from tests.board.programs import needs_compiler
from tests.compiler.golden_graphs import Sketch
from tests.emit.generated import DIGITS, steps_of_digits, view_of

from .planted_board import planted

pytestmark = needs_compiler
ROOT = Path(__file__).parents[2]
LAST = steps_of_digits()  # softmax, on the CPU; the others are one program of the controller
NPU_EPOCHS = range(1, LAST)


def nothing(board: VirtualBoard) -> None:
    pass


def writes_wrongly(when: Callable[[Epoch], bool]) -> Callable[[VirtualBoard], None]:
    """One wrong byte in what the first writer of an epoch has written, where something holds for the epoch."""

    def execute(epoch: Epoch, memory: AddressSpace) -> None:
        run_epoch(epoch, memory)
        if when(epoch):
            address = next(iter(epoch.writers().values())).address
            memory.write(address, memory.read(address, 1) ^ np.uint8(0x55))

    return put(execute)


def put(execute: Execute) -> Callable[[VirtualBoard], None]:
    def plant(board: VirtualBoard) -> None:
        board.npu.execute = execute

    return plant


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bisect")


def built(home: Path, name: str, *options: str) -> tuple[Path, Path]:
    """A folder and its firmware."""
    folder, elf = home / name, home / f"{name}.elf"
    if not elf.exists():
        assert cli.main(["generate", str(DIGITS), "-o", str(folder), "-q", *options]) == 0
        assert cli.main(["board", "build", str(folder), "-o", str(elf), "-q"]) == 0
    return folder, elf


def bisected(folder: Path, elf: Path, plant: Callable[[VirtualBoard], None], capsys: Any, *more: str) -> dict[str, Any]:
    with planted(elf, plant) as line:
        code = cli.main(
            ["validate", str(folder), "--mode", "target", "-d", line, "--bisect", "-b", "2", "--json", *more]
        )
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert code == (0 if found["equal"] else 1)
    return found


def first(found: dict[str, Any]) -> tuple[int, int, str]:
    difference = found["first_difference"]
    return difference["first"], difference["last"], difference["kind"]


def test_a_board_that_is_right(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = bisected(*built(home, "plain"), nothing, capsys)
    assert found["equal"] and found["cause"] == "none" and found["first_difference"] is None and not found["checks"]


@pytest.mark.parametrize("number", [NPU_EPOCHS[0], NPU_EPOCHS[-1]])
def test_a_wrong_epoch_of_the_controller(number: int, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = bisected(*built(home, "plain"), writes_wrongly(lambda epoch: epoch.number == number), capsys)
    assert first(found) == (number, number, "npu") and found["first_difference"]["exact"]
    assert found["cause"] == "npu" and found["stable"] and found["first_difference"]["bytes_different"] == 1
    assert found["first_difference"]["layers"] and not found["constants"]
    assert all(check["good"] for check in found["checks"])


def branches() -> Graph:
    """Two branches of one input and their sum: an epoch between a wrong one and its reader may be right."""
    net = Sketch().start(1, 6, 6, 16)
    one = net.conv(16, (3, 3))
    net.last = "x"
    net.conv(16, (3, 3), depthwise=True)
    net.conv(16, (3, 3))
    net.op("add", net.tensors[net.last].shape, one, scale=0.05)
    return net.graph()


@pytest.mark.parametrize("number", [1, 3])
def test_a_wrong_epoch_whose_result_is_read_later(number: int, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, elf = home / "branches", home / "branches.elf"
    if not elf.exists():
        image_network(view_of(branches(), options=Options(verify=False, schedule_without=("pack",))), folder)
        assert cli.main(["board", "build", str(folder), "-o", str(elf), "-q"]) == 0
    steps = load(folder).steps
    (first_epoch, second, third) = (step.epoch for step in steps)
    assert first_epoch and second and third
    written = {engine.address for engine in first_epoch.writers().values()}
    assert not written & {engine.address for engine in second.readers().values()}  # else the search would be simpler
    assert written & {engine.address for engine in third.readers().values()}
    found = bisected(folder, elf, writes_wrongly(lambda epoch: epoch.number == number), capsys)
    assert first(found) == (number, number, "npu") and found["cause"] == "npu"


def test_what_ran_wrongly_is_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Configurations by their argument, the probe that asks about them, the option that does without."""
    folder, elf = built(home, "plain")
    with planted(elf, writes_wrongly(lambda epoch: epoch.number == 1)) as line:
        assert cli.main(["validate", str(folder), "--mode", "target", "-d", line, "--bisect", "-b", "1"]) == 1
    text = capsys.readouterr().out
    assert "epoch 1 (" in text and "NPU: an epoch with correct inputs and wrong results" in text
    assert "by argument S" in text and "atonc probe " in text and "--distrust S" in text


def test_the_programs_are_as_before(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was ended for the search is whole again: the next validation is that of the whole network."""
    folder, elf = built(home, "plain")
    wrong = [True]

    def execute(epoch: Epoch, memory: AddressSpace) -> None:
        run_epoch(epoch, memory)
        if wrong[0] and epoch.number == 2:
            address = next(iter(epoch.writers().values())).address
            memory.write(address, memory.read(address, 1) ^ np.uint8(0x55))

    with planted(elf, put(execute)) as line:
        words = ["validate", str(folder), "--mode", "target", "-d", line, "-b", "1", "--json"]
        assert cli.main([*words, "--bisect"]) == 1
        wrong[0] = False
        capsys.readouterr()
        assert cli.main(words) == 0
    assert json.loads(capsys.readouterr().out)["equal"]


def test_a_wrong_epoch_that_the_cpu_drives(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each epoch is a block then, and its tensor is seen."""
    folder, elf = built(home, "driven", "--no-epoch-controller")
    found = bisected(folder, elf, writes_wrongly(lambda epoch: len(epoch.of_kind("POOL")) > 0), capsys)
    number, last, kind = first(found)
    assert number == last and kind == "npu" and found["cause"] == "npu" and found["stable"]


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_a_wrong_cpu_layer(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, sources = home / "ram", home / "sources"
    pools = ["--mpool", str(ROOT / "examples" / "bare_metal" / "ram_only.mpool")]
    assert cli.main(["generate", str(DIGITS), "-o", str(folder), "-n", "digits", "-q", *pools]) == 0
    assert cli.main(["board", "build", str(folder), "--sources", str(sources), "-q"]) == 0
    code, right = sources / "digits.c", "uint8_t flip = is_signed ? 0x80 : 0;"
    assert right in code.read_text()
    code.write_text(code.read_text().replace(right, "uint8_t flip = is_signed ? 0x81 : 0;"))
    made = subprocess.run(["make", "-s", "-j2", "-C", str(sources), "CPU=cortex-m33"], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    found = bisected(folder, sources / "firmware.elf", nothing, capsys)
    assert first(found) == (LAST, LAST, "cpu") and found["cause"] == "cpu" and found["stable"]


def test_a_flipped_weight(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, elf = built(home, "plain")
    wrong, right = a_weight_that_matters(folder)

    def execute(epoch: Epoch, memory: AddressSpace) -> None:
        memory.write(wrong, np.array([right ^ 0x80], np.uint8))  # the firmware has looked at its constants already
        run_epoch(epoch, memory)

    found = bisected(folder, elf, put(execute), capsys)
    (constant,) = found["constants"]
    assert found["cause"] == "memory" and constant["address"] == wrong and constant["stable"]
    assert bytes.fromhex(constant["board"]) == bytes([right ^ 0x80])
    assert first(found)[0] == first(found)[1] == constant["epochs"][0]
    assert any("program the constants again" in action for action in found["actions"])


def a_weight_that_matters(folder: Path) -> tuple[int, int]:
    """Its address and value: a byte of kernels whose highest bit changes the outputs of the first sample."""
    side = FolderSide(load(folder))
    inputs = runs.choose_inputs(side.net, runs.RunOptions(folder, seed=0))
    expected = side.expect(inputs)[1]
    memory = side.net.memory
    kernels = [
        engine.address
        for step in side.net.steps
        if step.epoch is not None
        for name, engine in step.epoch.readers().items()
        if any(link.source == name and link.port == 1 for link in step.epoch.links)
    ]
    for address in (start + offset for start in kernels for offset in range(24)):
        right = int(memory.read(address, 1)[0])
        memory.write(address, np.array([right ^ 0x80], np.uint8))
        changed = side.expect(inputs)[1] != expected
        memory.write(address, np.array([right], np.uint8))
        if changed:
            return address, right
    raise AssertionError("no weight matters")


def test_an_unstable_epoch(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Other bytes in each run: no configuration is blamed."""
    runs = [0]

    def execute(epoch: Epoch, memory: AddressSpace) -> None:
        run_epoch(epoch, memory)
        if epoch.number == 3:
            runs[0] += 1
            address = next(iter(epoch.writers().values())).address + runs[0] % 7
            memory.write(address, memory.read(address, 1) ^ np.uint8(1 << runs[0] % 7))

    found = bisected(*built(home, "plain"), put(execute), capsys)
    assert found["cause"] == "memory" and not found["stable"] and not found["constants"]
    assert any("clocks" in action for action in found["actions"])
    assert not any("distrust" in action for action in found["actions"])


class SpoilingLink:
    """Changes a byte wherever some bytes in a row go to the board."""

    def __init__(self, link: ByteLink, pattern: bytes) -> None:
        self._link, self._pattern = link, pattern
        self.description = link.description

    def write(self, data: bytes) -> None:
        self._link.write(data.replace(self._pattern, bytes([self._pattern[0] ^ 0x60]) + self._pattern[1:]))

    def read(self, count: int, wait_s: float) -> bytes:
        return self._link.read(count, wait_s)

    def now(self) -> float:
        return self._link.now()

    def close(self) -> None:
        self._link.close()


def test_a_line_that_spoils_inputs(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, elf = built(home, "plain")
    side = FolderSide(load(folder))
    (sent,), _ = side.expect(runs.choose_inputs(side.net, runs.RunOptions(folder, seed=0)))
    opened = links.open_link
    monkeypatch.setattr(links, "open_link", lambda text: SpoilingLink(opened(text), sent[32:36]))
    found = bisected(folder, elf, nothing, capsys)
    assert found["cause"] == "transfer" and found["stable"]
    assert any("line" in action for action in found["actions"]) and "network itself is not the cause" in str(
        found["reasons"]
    )


@pytest.mark.parametrize(
    ("lacks", "epochs"),
    [
        (messages.CAN_PROGRAMS, (1, LAST - 1)),  # as far as blocks go
        (messages.CAN_PROGRAMS | messages.CAN_MEMORY, (1, LAST - 1)),
        (messages.CAN_PROGRAMS | messages.CAN_MEMORY | messages.CAN_OBSERVE, (1, LAST)),  # only that it differs
    ],
)
def test_a_firmware_that_tells_less(
    lacks: int, epochs: tuple[int, int], home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    can = Client.can
    monkeypatch.setattr(Client, "can", lambda self, capability: not capability & lacks and can(self, capability))
    found = bisected(*built(home, "plain"), writes_wrongly(lambda epoch: epoch.number == 2), capsys)
    assert first(found)[:2] == epochs and not found["first_difference"]["exact"] and found["stable"]
    assert any(check["good"] is None for check in found["checks"])
    assert found["cause"] == ("unknown" if lacks & messages.CAN_OBSERVE else "npu")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--mode", "emulator"], "--bisect needs a board"),
        (["--mode", "board"], "--bisect needs a board"),
        (["--mode", "target", "--record", "a.npz"], "--bisect writes no record"),
        (["--mode", "target", "--page", "a.html"], "--bisect writes no page"),
    ],
)
def test_wishes_that_would_have_no_effect(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["validate", str(DIGITS), "--bisect", *words]) == 2
    assert said in capsys.readouterr().err


def test_whole_lines_of_the_cache_are_told() -> None:
    mine = bytes(range(256))
    stale = bytearray(mine)
    stale[64:96] = bytes(32)
    assert bisecting._whole_lines(bytes(stale), mine)
    assert not bisecting._whole_lines(mine[:70] + b"\xff" + mine[71:], mine) and not bisecting._whole_lines(mine, mine)
