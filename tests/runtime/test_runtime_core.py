"""Networks run block by block, in both modes; whatever goes wrong is a code, and nothing waits for ever."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

import pytest

from atonc.machine.hw import regs
from tests.runtime import host

CONTROLLER = regs.UNIT_BY_NAME["EPOCHCTRL0"].id
OK, NPU_VERSION, RUNTIME_OFF, NETWORK_OFF, NETWORK_INIT, MEMORY_MISSING, BAD_INITIALISER, WRONG_VERSION = range(8)
INFERENCE_INIT, BLOB_MAGIC, BLOB_SIZE, BLOB_ADDRESS, TIMEOUT, CONTROLLER_ERROR, NPU_IRQ, UNIT_STUCK = range(16, 24)
MODES = {"polling": "LL_ATON_RT_MODE=LL_ATON_RT_POLLING", "interrupts": "LL_ATON_RT_MODE=LL_ATON_RT_ASYNC"}
FINISHES, HANGS, FAILS = range(3)


class Bench:
    """The compiled scenarios."""

    def __init__(self, library: ctypes.CDLL, mode: str) -> None:
        self.c, self.mode = library, mode
        library.scenario_trace.restype = ctypes.c_char_p
        host.reset(library)
        library.scenario_runtime(0)
        library.scenario_prepare()
        host.stores(library)

    def start(self) -> None:
        self.c.scenario_runtime(1)
        self.c.scenario_init()

    def run(self, npu: int = FINISHES, label: int = 0) -> int:
        ctypes.c_int.in_dll(self.c, "fake_mode").value = npu
        ctypes.c_uint32.in_dll(self.c, "fake_label").value = label
        return int(self.c.scenario_run(5000))

    def trace(self) -> str:
        text = self.c.scenario_trace().decode()
        self.c.scenario_clear()
        return text

    def status(self, of_runtime: bool = False) -> tuple[int, ...]:
        values = (ctypes.c_uint32 * 4)()
        self.c.scenario_status(values, int(of_runtime))
        return tuple(values)


@pytest.fixture(scope="module", params=MODES)
def compiled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[ctypes.CDLL, str]:
    folder = tmp_path_factory.mktemp("runtime")
    return host.build(folder, [host.HERE / "scenarios.c"], [MODES[request.param]]), request.param


@pytest.fixture
def bench(compiled: tuple[ctypes.CDLL, str]) -> Iterator[Bench]:
    yield Bench(*compiled)


def test_blocks_run_in_order_with_inserted_ones(bench: Bench) -> None:
    bench.start()
    assert bench.run() > 0
    assert bench.trace().replace("w", "") == "NIsechsiic"
    assert bench.status()[0] == OK


def test_interrupts_are_waited_for_only_where_the_npu_works(bench: Bench) -> None:
    bench.start()
    bench.run()
    assert bench.trace().count("w") == (3 if bench.mode == "interrupts" else 0)


def test_inferences_repeat_after_reset(bench: Bench) -> None:
    bench.start()
    for _ in range(3):
        bench.c.scenario_reset()
        assert bench.run() > 0
        assert bench.status()[0] == OK
    assert bench.trace().replace("w", "") == "N" + 3 * "Isechsiic"


def test_after_the_end_it_stays_done(bench: Bench) -> None:
    bench.start()
    bench.run()
    assert bench.c.scenario_step() == 2


def test_callbacks_hear_everything(bench: Bench) -> None:
    bench.c.scenario_callbacks()
    bench.start()
    bench.run()
    bench.c.scenario_deinit()
    bench.c.scenario_runtime(0)
    heard = bench.trace().replace("w", "")
    assert heard == "6N4I0s12e3012c301230" + "12h30s12i3012i3" + "012c3" + "57"


def test_the_controller_gets_the_blob_and_is_switched_off(bench: Bench) -> None:
    bench.start()
    bench.run()
    found = [(r, v) for u, r, v in host.stores(bench.c) if u == CONTROLLER]
    registers = regs.registers("EPOCHCTRL")
    assert [r for r, _ in found] == [0, registers["ADDR"].index, 0, registers["IRQ"].index, 0, 0]
    assert [v for r, v in found if r == 0] == [0, 1, 2, 0x40000000]
    gates = regs.registers("CLKCTRL")["BGATES"].index
    assert bench.c.fake_get(0, gates) == 0


@pytest.mark.parametrize(
    ("fault", "code"),
    [(0, BLOB_MAGIC), (1, BLOB_SIZE), (2, BLOB_SIZE), (3, MEMORY_MISSING), (4, BAD_INITIALISER), (5, NETWORK_INIT)],
)
def test_damage_is_found(bench: Bench, fault: int, code: int) -> None:
    bench.c.scenario_break(fault)
    bench.start()
    assert bench.run() > 0
    assert bench.status()[0] == code
    assert bench.run() == 1  # and again, at once
    bench.c.scenario_reset()
    assert bench.run() > 0
    assert bench.status()[0] == code  # a reset does not mend it


def test_a_relocation_that_fails_ends_the_inference(bench: Bench) -> None:
    bench.c.scenario_break(6)
    bench.start()
    assert bench.run() == 1
    assert bench.status()[0] == INFERENCE_INIT


def test_a_hanging_epoch_is_reported_by_block(bench: Bench) -> None:
    bench.c.scenario_callbacks()
    bench.start()
    assert bench.run(HANGS) > 0
    assert bench.status() == (TIMEOUT, 0, 0, 0x24)
    assert bench.trace()[-1] == "!"


def test_a_hanging_blob_is_reported_by_epoch(bench: Bench) -> None:
    bench.start()
    for _ in range(2):
        if bench.c.scenario_step() == 1:
            bench.c.fake_interrupt()
            bench.c.scenario_step()
    assert bench.run(HANGS, label=37) > 0
    assert bench.status()[:3] == (TIMEOUT, 37, 2)
    bench.c.scenario_reset()  # the NPU was reset: the next inference works
    assert bench.run() > 0
    assert bench.status()[0] == OK


def test_a_clock_barks_too(bench: Bench) -> None:
    bench.c.scenario_break(7)
    bench.start()
    assert bench.run(HANGS) > 0
    assert bench.status()[0] == TIMEOUT


def test_errors_of_the_npu_end_the_inference(bench: Bench) -> None:
    bench.start()
    assert bench.run(FAILS) > 0
    code, _, block, detail = bench.status()
    assert (code, block) == (NPU_IRQ, 0)
    assert detail & 0xFFC00
    bench.c.scenario_reset()
    assert bench.run() > 0
    assert bench.status()[0] == OK


def test_errors_of_the_controller_end_the_inference(bench: Bench) -> None:
    bench.start()
    for _ in range(2):
        if bench.c.scenario_step() == 1:
            bench.c.fake_interrupt()
            bench.c.scenario_step()
    assert bench.run(FAILS, label=5) > 0
    assert bench.status() == (CONTROLLER_ERROR, 5, 2, 0x20)


def test_a_unit_that_does_not_reset(bench: Bench) -> None:
    bench.start()
    ctypes.c_int.in_dll(bench.c, "fake_stuck").value = CONTROLLER
    assert bench.run() > 0
    assert bench.status()[0] == UNIT_STUCK
    assert bench.status()[3] == CONTROLLER


def test_another_npu_is_refused(bench: Bench) -> None:
    bench.c.fake_set(regs.UNIT_BY_NAME["CONVACC0"].id, 1, 0x1234)
    bench.start()
    assert bench.status(of_runtime=True)[0] == NPU_VERSION
    assert bench.run() == 1
    assert bench.status()[0] == NPU_VERSION
    assert bench.status()[3] == regs.UNIT_BY_NAME["CONVACC0"].id << 16 | 0x1234


def test_units_that_wake_slowly_are_waited_for(bench: Bench) -> None:
    ctypes.c_int.in_dll(bench.c, "fake_asleep").value = 50
    bench.start()
    assert bench.status(of_runtime=True)[0] == OK
    assert bench.run() > 0


def test_what_was_not_initialised(bench: Bench) -> None:
    bench.c.scenario_init()
    assert bench.run() == 1
    assert bench.status()[0] == RUNTIME_OFF
    bench.c.scenario_runtime(1)
    bench.c.scenario_init()
    bench.c.scenario_deinit()
    assert bench.run() == 1
    assert bench.status()[0] == NETWORK_OFF


def test_main_does_it_all(compiled: tuple[ctypes.CDLL, str]) -> None:
    library, mode = compiled
    if mode == "interrupts":
        pytest.skip("nobody raises the interrupt inside LL_ATON_RT_Main here")
    bench = Bench(library, mode)
    library.scenario_main()
    assert bench.trace() == "NIsechsiic"
    assert bench.status()[0] == OK


def test_error_names(compiled: tuple[ctypes.CDLL, str]) -> None:
    library, _ = compiled
    library.atonc_error_name.restype = ctypes.c_char_p
    assert library.atonc_error_name(TIMEOUT) == b"TIMEOUT"
    assert library.atonc_error_name(99) == b"UNKNOWN"


def test_every_code_has_a_name(compiled: tuple[ctypes.CDLL, str]) -> None:
    library, _ = compiled
    library.atonc_error_name.restype = ctypes.c_char_p
    text = (host.RUNTIME / "include" / "atonc_runtime.h").read_text()
    codes = [line.split("=") for line in text.splitlines() if line.strip().startswith("ATONC_ERR_") and "=" in line]
    assert len(codes) >= 17
    for name, rest in codes:
        number = int(rest.split(",")[0].split("/")[0])
        assert library.atonc_error_name(number).decode() == name.strip().removeprefix("ATONC_ERR_")


def test_headers_stand_alone(tmp_path: Path) -> None:
    headers = sorted(p.name for p in (host.RUNTIME / "include").glob("*.h"))
    source = tmp_path / "headers.c"
    for header in headers:
        source.write_text(f'#include "{header}"\n')
        host.check_syntax(source)
