"""Epochs as driver calls: the structs give back the registers of the epoch, as data and as C text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

import atonc
from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.emit.c import ll_calls
from atonc.compiler.emit.c.ll_calls import Base, DriverCall, ListCall
from atonc.compiler.emit.program import Program, ProgramStep
from atonc.compiler.plan.types import EpochPlan
from atonc.compiler.request.options import Options
from atonc.delivery.generate.generating import analyze, generate
from atonc.insight.runs.runs import RunOptions, run
from atonc.machine.base.errors import ToolError
from atonc.machine.base.reasons import Severity
from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.files.network_c import read_network
from atonc.machine.emu.network import plan_steps
from atonc.machine.hw import safety
from atonc.machine.hw.decode import decode_epochs
from atonc.machine.hw.ec import ec_program
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.ll import GENERATIONS
from atonc.machine.hw.units.convacc import ConvaccConfig
from atonc.machine.hw.units.stream_engine import StrengConfig
from atonc.machine.hw.units.switch import Link
from tests.emit.ll_configs import epochs
from tests.real_networks import CORPUS, usual

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.tflite"
MODELS = (
    "kws_ref_model.tflite", "ad01_int8.tflite", "blazeface_front_128_quant_pc_ff_od_wider_face.tflite",
    "yunetn_320_qdq_int8.onnx", "mobilenet_v1_0.25_96_tfs_int8.tflite",
)  # fmt: skip
ORDERS = (GENERATIONS[0], GENERATIONS[-1])  # these reset the switch at different times
QUICK = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def npu_steps(program: Program) -> list[ProgramStep]:
    return [step for step in program.steps if step.epoch is not None]


def bases(step: ProgramStep, program: Program) -> dict[str, Base]:
    assert isinstance(step.plan, EpochPlan)
    return {name: Base(program.placed[use.buffer].address) for name, use in step.plan.engines.items()}


def as_blob(epoch: Epoch) -> Epoch:
    return next(e for e in decode_epochs(ec_program.program([epoch])) if not e.empty)


def check_all(program: Program) -> None:
    for step in npu_steps(program):
        assert step.epoch is not None
        start, end = ll_calls.start_calls(step.epoch, bases(step, program)), ll_calls.end_calls(step.epoch)
        ll_calls.require_same(step.epoch, start, end)
        for generation in ORDERS:
            made = ll_calls.driver_epoch(start, end, ll_calls.wait_mask(step), step.number, generation)
            found = safety.check_program([made])
            assert not [v for v in found if v.severity == Severity.VIOLATION], found


def test_digits() -> None:
    check_all(atonc.compile(DIGITS, verify=False).program)


@pytest.mark.parametrize("model", MODELS)
def test_corpus(model: str) -> None:
    check_all(usual(model).compiled.program)


@QUICK
@given(epochs())
def test_any_configuration_that_the_driver_can_say(epoch: Epoch) -> None:
    where = {"STRENG2": Base(0x3420_0000), "STRENG9": Base(0x3420_0000, "user_output")}
    for known in ({}, where):
        ll_calls.require_same(epoch, ll_calls.start_calls(epoch, known), ll_calls.end_calls(epoch))


def small_epoch(**reader: int) -> Epoch:
    common = {"size0": 8, "frames": 1, "single": 1, "gap_cycles": 0, "illegal_config_event": 1}
    common |= {"frame_limit_enabled": 1, "fsize_low": 4, "fsize_high": 2, "depth": 3, "pixel_offset_low": 3}
    source = StrengConfig(**{**common, "address": 0x3420_0000, "line_offset_low": 12, **reader})
    target = StrengConfig(**common, address=0x3420_1000, line_offset_low=12, to_memory=1)
    return Epoch(7, {"STRENG0": source, "STRENG1": target}, (Link("STRENG0", "STRENG1", 0),), ("STRENG1",))


def test_what_the_driver_cannot_say_is_refused() -> None:
    good, bad = small_epoch(), small_epoch(line_offset_low=0)  # the driver reads 0 as "as wide as the pixels"
    ll_calls.require_same(good, ll_calls.start_calls(good, {}), ll_calls.end_calls(good))
    with pytest.raises(ToolError, match="line_offset_low 12 instead of 0"):
        ll_calls.require_same(bad, ll_calls.start_calls(bad, {}), ll_calls.end_calls(bad))


def test_a_padding_of_its_own_is_refused() -> None:
    unit = ConvaccConfig(line_elements=8, height=8, crop_right=7, crop_bottom=7, frame_top=1)
    plain = small_epoch()
    epoch = replace(plain, units={**plain.units, "CONVACC0": unit}, links=(*plain.links,))
    with pytest.raises(ToolError, match="frame_top"):
        ll_calls.require_same(epoch, ll_calls.start_calls(epoch, {}), ll_calls.end_calls(epoch))


def test_settings_that_nobody_knows_are_refused() -> None:
    plain = small_epoch()
    odd = replace(plain.units["STRENG0"], unmodelled=(("CTRL.NOINC", 1),))
    with pytest.raises(ToolError, match="STRENG0"):
        ll_calls.start_calls(replace(plain, units={**plain.units, "STRENG0": odd}), {})


def test_order_of_calls() -> None:
    """Configure, wire, enable writers before units before readers; unwire before release."""
    step = npu_steps(atonc.compile(DIGITS, verify=False).program)[0]
    assert step.epoch is not None
    start, end = ll_calls.start_calls(step.epoch, {}), ll_calls.end_calls(step.epoch)
    assert [type(call) for call in start[-3:]] == [DriverCall, ListCall, ListCall]
    assert [call.name for call in start[-2:]] == ["LL_Switch_Init", "LL_ATON_EnableUnits_Init"]
    assert [call.name for call in end] == ["LL_Switch_Deinit", "LL_ATON_DisableUnits_Init"]
    enabled = start[-1]
    assert isinstance(enabled, ListCall)
    names = [f"{port.kind}{port.unit}" for port in enabled.entries]  # type: ignore[union-attr]
    rank = [0 if n in step.epoch.writers() else 2 if n in step.epoch.readers() else 1 for n in names]
    assert rank == sorted(rank) and set(names) == set(step.epoch.units)


def test_masks() -> None:
    step = ProgramStep(7, EpochPlan((), "", {}, {}, ()), small_epoch())
    assert ll_calls.wait_mask(step) == 2
    with pytest.raises(ToolError, match="CPU"):
        ll_calls.wait_mask(ProgramStep(3, EpochPlan((), "", {}, {}, ())))


def c_file(functions: list[str], steps: list[tuple[int, int]], variables: str = "") -> str:
    """A network of driver epochs and nothing else."""
    items = "".join(
        f"{{ .start_epoch_block = LL_ATON_Start_EpochBlock_{number}_Default, "
        f".end_epoch_block = LL_ATON_End_EpochBlock_{number}_Default, .wait_mask = {mask:#x}, "
        f".flags = EpochBlock_Flags_pure_hw, .epoch_num = {number} }},\n"
        for number, mask in steps
    )
    tables = "".join(
        f"const LL_Buffer_InfoTypeDef *LL_ATON_{kind}_Buffers_Info_Default(void) {{ return NULL; }}\n"
        for kind in ("Input", "Output")
    )
    return (
        f"{variables}\n{chr(10).join(functions)}\n{tables}"
        "const EpochBlock_ItemTypeDef *LL_ATON_EpochBlockItems_Default(void)\n{\n"
        f"  static const EpochBlock_ItemTypeDef items[] = {{\n{items}{{ .flags = EpochBlock_Flags_last_eb }},\n}};\n"
        "  return items;\n}\n"
    )


def read_back(text: str, folder: Path) -> Iterator[Epoch]:
    path = folder / "network.c"
    path.write_text(text)
    for step in plan_steps(read_network(path), AddressSpace()):
        assert step.epoch is not None
        yield step.epoch


def test_c_text_reads_back_as_the_same_epochs(tmp_path: Path) -> None:
    program = atonc.compile(DIGITS, verify=False).program
    steps = npu_steps(program)
    texts = [ll_calls.epoch_functions(step, "Default", bases(step, program)) for step in steps]
    text = c_file(texts, [(step.number, ll_calls.wait_mask(step)) for step in steps])
    blob = [e for e in decode_epochs(ec_program.program(program.epochs)) if not e.empty]
    for wanted, made in zip(blob, read_back(text, tmp_path), strict=True):
        different = ll_calls.differences(wanted, made)
        assert not [d for d in different if "overflow_event" not in d]  # the CPU listens to it


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(epochs())
def test_c_text_of_any_epoch_reads_back(tmp_path_factory: pytest.TempPathFactory, epoch: Epoch) -> None:
    step = ProgramStep(epoch.number, EpochPlan((), "", {}, {}, ()), epoch)
    text = c_file([ll_calls.epoch_functions(step, "Default")], [(epoch.number, ll_calls.wait_mask(step))])
    (made,) = read_back(text, tmp_path_factory.mktemp("c"))
    assert not [d for d in ll_calls.differences(as_blob(epoch), made) if "overflow_event" not in d]


def test_buffers_of_the_application_are_followed_at_run_time() -> None:
    step = ProgramStep(7, EpochPlan((), "", {}, {}, ()), small_epoch())
    text = ll_calls.epoch_functions(step, "Default", {"STRENG0": Base(0x3420_0000, "_mem_pool_x")}, ["first();"])
    assert "  const LL_Streng_TensorInitTypeDef streng0 = {" in text
    assert ".addr_base = {(unsigned char *)(_mem_pool_x)}," in text
    assert "static const LL_Streng_TensorInitTypeDef streng1 = {" in text
    assert text.index("first();") < text.index("streng0")


def outputs(view: CompileView, folder: Path) -> dict[str, bytes]:
    """What the emulator computes from the written files."""
    generate(view, folder)
    result = run(RunOptions(folder, seed=3))
    assert all((step.blob != "") == view.options.epoch_controller for step in result.steps if step.kind == "npu")
    return {name: value.tobytes() for name, value in result.outputs.items()}


@pytest.mark.parametrize(
    "model", ["digits", "kws_ref_model.tflite", "mobilenet_v1_0.25_96_tfs_int8.tflite", "ad01_int8.tflite"]
)
def test_both_forms_of_the_files_compute_the_same(model: str, tmp_path: Path) -> None:
    blobs = analyze(DIGITS, Options(verify=False)) if model == "digits" else usual(model)
    calls = analyze(
        DIGITS if model == "digits" else CORPUS / "models" / model, Options(verify=False, epoch_controller=False)
    )
    one, other = outputs(blobs, tmp_path / "blobs"), outputs(calls, tmp_path / "calls")
    assert one == other and one
