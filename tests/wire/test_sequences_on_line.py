"""Sequences at the end of a bad line: after a fault nobody knows how far the board came, so it begins again."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from atonc.delivery.trials.targeting import ExpectedSide, validate_target
from atonc.delivery.wire import messages
from atonc.delivery.wire.client import Client, Refused, TargetError
from atonc.doors.cli import cli
from atonc.machine.cost.network import StepCost
from tests.board.programs import needs_compiler

from .fake_board import INPUT_BYTES, OUTPUT_BYTES, BadLine, FakeBoard, compute, script
from .served import served

FRAMES, STARTS, SCRIPTS = 6, (0, 4), 30
STREAM = Path(__file__).parents[2] / "examples" / "streaming" / "stream.tflite"


class Keeping(FakeBoard):
    """What it computes depends on all frames since the reset."""

    can = 9 | messages.CAN_RESET
    kept = b""

    def compute(self, content: bytes) -> bytes:
        self.kept = compute(self.kept + content)
        return self.kept

    def _unknown(self, identity: int, command: int) -> None:
        if command == messages.RESET and self.can & messages.CAN_RESET:
            self.kept = b""
            self._ack(identity, messages.DONE, 0)
        else:
            super()._unknown(identity, command)


class Known:
    """What the board should compute."""

    def __init__(self) -> None:
        cost = StepCost(0, "", 1000, "npu", 0.001, 0.0, "")
        steps = tuple((number, cost) for number in range(1, 10))
        ins, outs = (("in", INPUT_BYTES, "|i1"),), (("out", OUTPUT_BYTES, "|i1"),)
        self.side = ExpectedSide("net", "first", ins, outs, steps, 1000.0, 800.0, keeps=True)
        self.kept = b""

    def reset(self) -> None:
        self.kept = b""

    def expect(self, sample: dict[str, bytes]) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
        self.kept = compute(self.kept + sample["in"])
        return (sample["in"],), (self.kept,)


def validate(line: BadLine):
    samples = [{"in": random.Random(k).randbytes(INPUT_BYTES)} for k in range(FRAMES)]
    return validate_target(Client(line, 1.0), Known(), samples, starts=STARTS)  # type: ignore[arg-type]


def test_frames_in_order_after_a_reset() -> None:
    found = validate(BadLine(Keeping()))
    assert found.equal and found.faults == 0 and (len(found.turns), found.sequences) == (FRAMES, 2)


def test_bad_lines_never_give_a_wrong_number() -> None:
    line = BadLine(Keeping())
    validate(line)
    length = line.now()
    ended: Counter[str] = Counter()
    for seed in range(SCRIPTS):
        line = BadLine(Keeping(), script(seed, int(length / 1e-5)))
        try:
            found = validate(line)
            assert found.equal, f"script {seed}"
            ended["faults" if found.faults else "clean"] += 1
        except TargetError as error:
            ended[error.what.split(":")[0]] += 1
    assert ended["faults"] >= SCRIPTS // 6, ended


def test_a_board_that_loses_its_states_is_found() -> None:
    class Forgets(Keeping):
        def compute(self, content: bytes) -> bytes:
            return compute(content)

    found = validate(BadLine(Forgets()))
    assert not found.equal and found.turns[0].outputs == found.turns[0].expected  # the first frame is right
    assert found.turns[1].outputs != found.turns[1].expected


def test_a_firmware_that_cannot_reset_is_refused() -> None:
    class Vendor(Keeping):
        can = 9

    with pytest.raises(Refused, match="cannot reset states to their initial values"):
        validate(BadLine(Vendor()))


@needs_compiler
def test_sequences_with_our_firmware(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, elf = tmp_path / "network", tmp_path / "firmware.elf"
    assert cli.main(["generate", str(STREAM), "-o", str(folder), "-q"]) == 0
    assert cli.main(["board", "build", str(folder), "-o", str(elf)]) == 0
    capsys.readouterr()
    frames = ["-vi", str(STREAM.parent / "frames.npy"), "--frames", "20"]
    with served(elf) as line:
        assert cli.main(["validate", str(STREAM), *frames, "--mode", "target", "-d", line, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["equal"] and (found["samples"], found["sequences"]) == (40, 2)
        assert cli.main(["validate", str(folder), *frames, "--mode", "target", "-d", line]) == 0
        assert "40 frames of 2 sequences" in " ".join(capsys.readouterr().out.split())
        assert cli.main(["validate", str(STREAM), *frames, "--mode", "target", "-d", line, "--bisect"]) == 0
