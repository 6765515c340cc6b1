"""Generated networks as Arm code: compiled, linked with our runtime and run on the virtual board."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from atonc.compiler.compile import pipeline
from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.inputs.inputs import read_samples
from atonc.compiler.ops import run_graph
from atonc.compiler.place import BoardMemory
from atonc.compiler.request.options import Options
from atonc.compiler.verify.emulation import Emulation
from atonc.delivery.firmware import building
from atonc.delivery.firmware import image as firmware
from atonc.delivery.firmware.image import ImageNetwork, Runtime
from atonc.delivery.trials import boarding
from atonc.delivery.trials.boarding import FirmwareError, Rig
from atonc.insight.validating import validating
from atonc.machine.base.errors import InputError, NotModelledError
from tests.board.programs import needs_compiler
from tests.compiler.random_graphs import random_graph, random_inputs
from tests.emit.generated import default_board, digits, view_of
from tests.place.test_four_bits import network as small_weights

pytestmark = needs_compiler
TEST_SET = Path(__file__).parents[2] / "examples" / "digits" / "test.npz"


def make(folder: Path, *views: CompileView, mode: str = firmware.ASYNC) -> tuple[Path, list[ImageNetwork]]:
    networks = [boarding.image_network(view, folder / f"net{k}") for k, view in enumerate(views)]
    return firmware.build_firmware(networks, firmware.our_runtime(mode), folder / "build"), networks


def rig_of(folder: Path, *views: CompileView, mode: str = firmware.ASYNC) -> Rig:
    return Rig(*make(folder, *views, mode=mode))


@pytest.mark.parametrize("epoch_controller", [True, False])
@pytest.mark.parametrize("mode", [firmware.ASYNC, firmware.POLLING])
def test_digits(tmp_path: Path, mode: str, epoch_controller: bool) -> None:
    view = digits(epoch_controller=epoch_controller)
    samples = read_samples(view.compiled.source, [TEST_SET], 3)
    rig = rig_of(tmp_path, view, mode=mode)
    found = boarding.compare(view, samples, rig)
    assert found.equal and found.bytes_compared == 30
    assert rig.board.npu.fault is None
    assert found.cycles > found.instructions > 500


@pytest.mark.parametrize("four_bits", [False, True])
@pytest.mark.parametrize("epoch_controller", [True, False])
def test_weights_in_ram(tmp_path: Path, epoch_controller: bool, four_bits: bool) -> None:
    """RAM is empty at reset: only the network's own initialisation can have filled it. What was released and used for
    something else is there again at the next inference."""
    options = {"epoch_controller": epoch_controller, "resident": "all"}
    view = view_of(small_weights(), options=Options(verify=False, **options)) if four_bits else digits(**options)
    source = view.compiled.source
    samples = [random_inputs(source, 0)] if four_bits else read_samples(source, [TEST_SET], 1)
    assert any(home.buffer.four_bits for home in view.compiled.layout.placed.values()) == four_bits
    rig = rig_of(tmp_path, view)
    assert boarding.compare(view, samples, rig).equal
    for home in view.compiled.layout.placed.values():
        if home.copy_of:
            rig.board.poke(home.address, np.full(home.buffer.size_bytes, 0x55, np.uint8))
    assert not boarding.compare(view, samples, rig).equal
    rig.board.poke(rig.board.firmware.symbols["atonc_resident_ready"], np.zeros(1, np.uint8))  # as the release does
    assert boarding.compare(view, samples, rig).equal


@pytest.mark.parametrize("epoch_controller", [True, False])
def test_kernels_of_four_bits(tmp_path: Path, epoch_controller: bool) -> None:
    """Registers as our driver sets them; the chip reads four bits only because the network says how."""
    options = Options(verify=False, epoch_controller=epoch_controller, allow_unproven=("w4-stream",))
    view = view_of(small_weights(), options=options)
    elf, networks = make(tmp_path, view)
    samples = [random_inputs(view.compiled.source, 0)]
    assert boarding.compare(view, samples, Rig(elf, networks)).equal
    with pytest.raises(NotModelledError, match="4 bits"):
        boarding.compare(view, samples, Rig(elf, [replace(one, four_bits=None) for one in networks]))


def test_everything_on_the_processor(tmp_path: Path) -> None:
    """Kernels in C give what the interpreter of the model gives, with the roundings of TFLite."""
    names = tuple(op.name for op in digits().compiled.graph.ops)
    view = digits(on_cpu=names)
    samples = read_samples(view.compiled.source, [TEST_SET], 3)
    found = boarding.compare(view, samples, rig_of(tmp_path, view))
    assert found.equal and not view.compiled.program.epochs
    for sample in samples:
        wanted, got = run_graph(view.compiled.source, sample), Emulation(view.compiled.program, view.compiled.graph)
        np.testing.assert_array_equal(got.run(sample)["probabilities"], wanted["probabilities"])


@pytest.mark.parametrize("epoch_controller", [True, False])
def test_random_graph(tmp_path: Path, epoch_controller: bool) -> None:
    graph = random_graph(1)
    view = view_of(graph, options=Options(verify=False, epoch_controller=epoch_controller))
    found = boarding.compare(view, [random_inputs(graph, k) for k in range(2)], rig_of(tmp_path, view))
    assert found.equal, found.first_difference


def test_two_networks_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph(5)
    monkeypatch.setattr(pipeline, "memories", lambda options: flash_from(0x7200_0000))
    second = view_of(graph, "other")
    monkeypatch.undo()
    first = digits("numbers")
    rig = rig_of(tmp_path, first, second)
    for turn in range(3):
        sample = validating.synthetic_samples(first.compiled.source, 1, turn)
        # both lie in the same RAM: the next network may start where the last one left its activations
        assert boarding.compare(first, sample, rig, number=0).equal
        assert boarding.compare(second, [random_inputs(graph, turn)], rig, number=1).equal


def test_networks_must_not_share_flash(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="both want"):
        rig_of(tmp_path, digits("a"), view_of(random_graph(5), "b"))


def flash_from(base: int) -> BoardMemory:
    """The board with a part of the flash that nobody else uses."""
    usual = default_board()
    pools = [p if p.writable else replace(p, base=base, size_bytes=1 << 24) for p in usual.pools]
    return replace(usual, pools=tuple(pools))


def test_user_buffers(tmp_path: Path) -> None:
    view = digits(inputs_allocation=False, outputs_allocation=False)
    samples = validating.synthetic_samples(view.compiled.source, 2)
    rig = rig_of(tmp_path, view)
    assert rig.inputs[0][0].user and rig.outputs[0][0].user
    assert boarding.compare(view, samples, rig).equal


@pytest.mark.parametrize("forgotten", ["LL_ATON_Cache_MCU_Clean_Range", "LL_ATON_Cache_MCU_Invalidate_Range"])
def test_forgotten_cache_maintenance_shows(tmp_path: Path, forgotten: str) -> None:
    """The cache of the board is a witness only if it notices; softmax runs on the CPU."""
    view = digits()
    network = boarding.image_network(view, tmp_path / "net")
    text = network.c_file.read_text()
    assert f"{forgotten}(" in text
    network.c_file.write_text(text.replace(f"{forgotten}(", "(void)sizeof("))
    elf = firmware.build_firmware([network], firmware.our_runtime(), tmp_path / "build")
    samples = validating.synthetic_samples(view.compiled.source, 2)
    assert not boarding.compare(view, samples, Rig(elf, [network])).equal
    assert boarding.compare(view, samples, Rig(elf, [network], data_cache=False)).equal


# ------------------------------------------------------------------------------------------------------------- faults


def test_corrupted_initialiser_is_reported(tmp_path: Path) -> None:
    elf, networks = make(tmp_path, digits())
    address, data = networks[0].contents[0]
    damaged = bytearray(data)
    damaged[len(data) // 2] ^= 1
    rig = Rig(elf, [ImageNetwork("Default", networks[0].c_file, (), ((address, bytes(damaged)),))], start=False)
    with pytest.raises(FirmwareError, match=r"ATONC ERROR 6 (?s:.*)BAD_INITIALISER"):
        rig.start()


def test_missing_memory_is_reported(tmp_path: Path) -> None:
    elf, networks = make(tmp_path, digits())
    rig = Rig(elf, networks, start=False)
    missing = np.array([0x3420_0000, 0x3427_0000], "<u4").view(np.uint8)
    rig.board.poke(rig.board.firmware.symbols["board_missing"], missing)
    with pytest.raises(FirmwareError, match=r"ATONC ERROR 5 (?s:.*)0x34200000 MEMORY_MISSING"):
        rig.start()


def test_network_for_another_runtime_is_reported(tmp_path: Path) -> None:
    """network.c sees the headers of a release that the linked runtime does not know."""
    network = boarding.image_network(digits(), tmp_path / "net")
    ours = firmware.our_runtime()
    other = replace(ours, defines=ours.defines | {"LL_ATON_VERSION_MINOR": "9"})
    linked = firmware.compile_runtime(ours, tmp_path / "runtime")
    elf = firmware.build_firmware([network], other, tmp_path / "build", linked)
    with pytest.raises(FirmwareError, match=r"ATONC ERROR 7 (?s:.*)WRONG_VERSION"):
        Rig(elf, [network])


def test_unknown_npu_version_is_reported(tmp_path: Path) -> None:
    elf, networks = make(tmp_path, digits())
    rig = Rig(elf, networks, start=False)
    rig.board.npu.versions["CONVACC"] = 0x1234
    with pytest.raises(FirmwareError, match=r"ATONC ERROR 1 (?s:.*)NPU_VERSION"):
        rig.start()


def test_hanging_npu_is_reported_with_its_epoch(tmp_path: Path) -> None:
    """An engine is told to wait for more than its chain gives: the watchdog of the runtime ends the inference."""
    view = digits()
    rig = rig_of(tmp_path, view)
    run = rig.board.npu._run

    def hang(epoch: object, programmed_by: str) -> int | None:
        cycles = run(epoch, programmed_by)  # type: ignore[arg-type]
        return None if rig.board.npu.epochs == 2 else cycles

    rig.board.npu._run = hang  # type: ignore[method-assign,assignment]
    with pytest.raises(FirmwareError, match=r"ATONC ERROR 20 epoch 2 (?s:.*)TIMEOUT"):
        rig.run([np.zeros(b.size_bytes, np.uint8) for b in rig.inputs[0]])


def test_damaged_program_is_reported(tmp_path: Path) -> None:
    rig = rig_of(tmp_path, digits())
    symbol = next(name for name in rig.board.firmware.symbols if name.startswith("_ec_blob_network"))
    rig.board.memory.view(rig.board.firmware.symbols[symbol], 4)[:] = 0
    with pytest.raises(FirmwareError, match=r"ATONC ERROR 17 (?s:.*)BLOB_MAGIC"):
        rig.run([np.zeros(b.size_bytes, np.uint8) for b in rig.inputs[0]])


def test_names_must_differ(tmp_path: Path) -> None:
    network = ImageNetwork("Default", tmp_path / "network.c", ())
    with pytest.raises(InputError, match=r"networks are called"):
        firmware.build_firmware([network, network], Runtime("none", (), ()), tmp_path, [])


def test_code_and_data_avoid_pools() -> None:
    one = ImageNetwork("a", Path("a.c"), ((0x3400_0000, 0x3410_0000),))
    two = ImageNetwork("b", Path("b.c"), ((0x3410_0000, 0x3410_0010),))
    assert firmware.place([]).data == building.Placement().data
    assert firmware.place([one]).data == 0x3410_0000
    assert firmware.place([one, two]).data == 0x3440_0000
