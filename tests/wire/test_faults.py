"""A client at the end of a bad line: it recovers or says in one sentence why not, in time, and never a wrong number."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from atonc.delivery.trials.targeting import ExpectedSide, TargetValidation, validate_target
from atonc.delivery.wire.client import Client, TargetError
from atonc.delivery.wire.messages import NARROW, WIDE
from atonc.machine.cost.network import StepCost

from .fake_board import CPU_HZ, INPUT_BYTES, LAYERS, NPU_HZ, OUTPUT_BYTES, BadLine, FakeBoard, compute, script

SCRIPTS, SAMPLES = 300, 3
LIMIT_S = 120.0  # of the line's own time
PATIENCE_S = 1.0
LEAST_OF_EACH = 5  # scripts in which a fault really happened, by kind and direction


class Known:
    """What the board should compute, in place of a compiled model."""

    def __init__(self, signature: str = "first") -> None:
        cost = StepCost(0, "", 1000, "npu", 0.001, 0.0, "")
        steps = tuple((number, cost) for number in range(1, 10))
        ins, outs = (("in", INPUT_BYTES, "|i1"),), (("out", OUTPUT_BYTES, "|i1"),)
        self.side = ExpectedSide("net", signature, ins, outs, steps, 1000.0, 800.0)

    def expect(self, sample: dict[str, bytes]) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
        return (sample["in"],), (compute(sample["in"], "first"),)


def samples(count: int = SAMPLES) -> list[dict[str, bytes]]:
    return [{"in": random.Random(k).randbytes(INPUT_BYTES)} for k in range(count)]


def validate(line: BadLine) -> TargetValidation:
    return validate_target(Client(line, PATIENCE_S), Known(), samples())  # type: ignore[arg-type]


def check(found: TargetValidation) -> None:
    """Every number that is shown is the true one."""
    assert found.equal
    assert [turn.outputs[0] for turn in found.turns] == [compute(sample["in"]) for sample in samples()]
    total = sum(sum(parts) for _, _, parts in LAYERS)
    assert [turn.milliseconds for turn in found.turns] == [1e3 * total / CPU_HZ] * SAMPLES
    told = [(b.first, b.last, (b.before, b.core, b.after)) for b in found.measured.blocks]
    assert told == list(LAYERS)
    assert (found.system.cpu_hz, found.system.npu_hz, found.protocol) == (CPU_HZ, NPU_HZ, "3.1")
    assert found.model.name == "net" and found.model.signature == "first"


@pytest.mark.parametrize(("dialect", "minor"), [(WIDE, 1), (WIDE, 2), (NARROW, 1)])
def test_good_line(dialect, minor):
    line = BadLine(FakeBoard(dialect, minor))
    found = validate(line)
    assert found.equal and found.faults == 0 and found.protocol == f"3.{minor}"
    assert line.now() < 1.0


def test_300_bad_lines():
    length = _bytes_of_a_conversation()
    ended: dict[str, int] = {}
    happened: Counter[tuple[str, bool]] = Counter()
    for seed in range(SCRIPTS):
        dialect = (WIDE, NARROW)[seed % 3 == 2]
        line = BadLine(FakeBoard(dialect), script(seed, length))
        try:
            check(validate(line))
            ended["right"] = ended.get("right", 0) + 1
        except TargetError as error:
            ended[error.what.split(":")[0]] = ended.get(error.what.split(":")[0], 0) + 1
            other = any(fault.kind == "other" for fault in line.happened)
            assert "another network" not in str(error) or other, f"script {seed}: {error}"
            assert error.what.count(" ") >= 3, f"script {seed}: no sentence: {error}"
        except AssertionError as error:
            raise AssertionError(f"script {seed}: {error}; {line.happened}") from error
        assert line.now() < LIMIT_S, f"script {seed} took {line.now():.0f} s"
        happened.update({(fault.kind, fault.to_board) for fault in line.happened})
    assert ended["right"] > 0.85 * SCRIPTS, ended
    for kind in ("drop", "double", "corrupt", "delay", "reset", "other"):
        assert min(happened[kind, True], happened[kind, False]) >= LEAST_OF_EACH, happened


def _bytes_of_a_conversation() -> int:
    line = BadLine(FakeBoard())
    validate(line)
    return max(line._count.values())


def test_silence_is_an_error_in_time():
    class Silent(BadLine):
        def write(self, data: bytes) -> None:
            pass

    line = Silent(FakeBoard())
    with pytest.raises(TargetError, match="does not answer"):
        validate(line)
    assert line.now() < 30


def test_another_network():
    with pytest.raises(TargetError, match="another network"):
        validate(BadLine(FakeBoard(model="second")))


def test_another_network_without_a_hash_that_has_the_same_shape_is_seen_as_different():
    found = validate(BadLine(FakeBoard(model="second", hashed=False)))
    assert not found.equal and "no hash" in found.identity


def test_memory():
    board = FakeBoard()
    client = Client(BadLine(board))
    client.connect()
    content = random.Random(5).randbytes(3000)
    client.write_memory(100, content)
    assert bytes(board.memory[100:3100]) == content
    assert client.read_memory(100, 3000) == content
    assert client.read_memory(0, 0) == b""


def test_memory_over_a_bad_line():
    content = random.Random(5).randbytes(2500)
    for seed in range(20):
        board = FakeBoard()
        line = BadLine(board, script(1000 + seed, 9000))
        client = Client(line, PATIENCE_S)
        try:
            client.connect()
            client.write_memory(0, content)
            assert bytes(board.memory[:2500]) == content, seed
            assert client.read_memory(0, 2500) == content, seed
        except TargetError:
            pass
        assert line.now() < LIMIT_S
