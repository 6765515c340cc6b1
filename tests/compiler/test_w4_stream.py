"""Kernels of 4 bits that engines read: never unless asked for, and then the same numbers as kernels of bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from atonc.compiler.compile.pipeline import Compiled, compile_graph
from atonc.compiler.ir import Graph
from atonc.compiler.lower.semantics.run import run_mapped
from atonc.compiler.request.options import Options
from atonc.compiler.request.target import trust_of
from atonc.compiler.verify.emulation import Emulation
from atonc.delivery.generate import generating
from atonc.doors.cli.cli import main
from atonc.insight.report import compile_text
from atonc.insight.report.document import lines
from atonc.machine.base.errors import InputError, NotModelledError
from atonc.machine.base.reasons import Severity
from atonc.machine.emu.network import load
from atonc.machine.hw import safety
from atonc.machine.hw.decode import decode_epochs
from atonc.machine.hw.ec import ec_program, instructions
from atonc.machine.hw.four_bits import PROBABILITY, FourBits
from atonc.machine.hw.safety.evidence import EpochGrade, GradedForm, Trust, grade_program
from atonc.machine.hw.safety.evidence.board_file import FORMAT, VERSION, BoardEvidence, evidence_row
from atonc.machine.hw.safety.evidence.grades import Feature, Grade, Graded
from atonc.machine.hw.safety.evidence.summary import summarise
from atonc.machine.hw.safety.evidence.unit_features import NARROW, NARROW_DEEP
from atonc.machine.hw.units.stream_engine import StrengConfig
from tests.compiler import test_named_cases as cases
from tests.compiler.random_graphs import random_graph, random_inputs
from tests.emit.generated import view_of
from tests.errors_said import unwrapped
from tests.place.test_four_bits import network

ASKED = Options(verify=False, allow_unproven=("w4-stream",))


def coarse(graph: Graph) -> Graph:
    """Weights of all layers in 4 bits, those of depthwise ones too."""
    weights = {op.inputs[1] for op in graph.ops if op.kind in ("conv", "dense", "transpose_conv")}
    return replace(graph, tensors={
        name: replace(t, data=t.data >> 4) if name in weights and t.data is not None and t.dtype == "int8" else t
        for name, t in graph.tensors.items()
    })  # fmt: skip


def narrow_engines(compiled: Compiled) -> list[StrengConfig]:
    engines = [engine for epoch in compiled.program.epochs for engine in epoch.engines().values()]
    return [engine for engine in engines if engine.size0 < 8]


def points_and_odd_counts() -> Graph:
    """Layers whose kernels are an odd number of values."""
    net = cases._net((1, 5, 5, 3), 0)
    cases._conv(net, cases._conv(net, net.inputs[0], 5, (1, 1)), 7, (3, 3), padding=(1, 1, 1, 1))
    return net.graph("odd")


def with_a_zero_point() -> Graph:
    """Features of 16 bits."""
    net = cases._net((1, 9, 9, 5), 7)
    cases._conv(net, net.inputs[0], 12, (3, 3), padding=(1, 1, 1, 1), stride=(2, 2))
    return net.graph("zero point")


LAYERS = (network, points_and_odd_counts, with_a_zero_point, cases.seven_by_seven_stride_2, cases.depthwise_stride_2)


@pytest.mark.parametrize("make", LAYERS, ids=lambda make: make.__name__)
def test_the_same_numbers_as_kernels_of_bytes(make: Callable[[], Graph]) -> None:
    """Against what the operators mean with their weights as they are, bit for bit."""
    graph = coarse(make()) if make is not network else make()
    found = compile_graph(graph, ASKED)
    assert narrow_engines(found)
    inputs = random_inputs(found.graph, 3)
    got, meant = Emulation(found.program, found.graph).run(inputs), run_mapped(found.graph, found.mapped, inputs)
    assert all(np.array_equal(got[name], meant[name]) for name in found.graph.outputs)
    other = Emulation(replace(found.program, four_bits=FourBits(low_first=False)), found.graph).run(inputs)
    assert any(not np.array_equal(other[name], meant[name]) for name in found.graph.outputs)  # the order matters


@pytest.mark.parametrize("seed", [5, 8, 13])
def test_random_networks(seed: int) -> None:
    graph = coarse(random_graph(seed))
    found = compile_graph(graph, ASKED)
    assert narrow_engines(found)
    inputs = random_inputs(found.graph, seed)
    got, meant = Emulation(found.program, found.graph).run(inputs), run_mapped(found.graph, found.mapped, inputs)
    assert all(np.array_equal(got[name], meant[name]) for name in found.graph.outputs)


@pytest.mark.parametrize("options", [Options(verify=False), Options(verify=False, allow_unproven=True)])
def test_nobody_gets_it_without_asking(options: Options) -> None:
    found = compile_graph(network(), options)
    assert not narrow_engines(found) and found.program.four_bits is None
    assert not any(home.buffer.half_bytes for home in found.layout.placed.values())


def test_wide_values_stay_bytes() -> None:
    found = compile_graph(network(small=False), ASKED)
    assert not narrow_engines(found) and found.program.four_bits is None


def test_the_words_say_four_bits_and_half_the_flash_is_read() -> None:
    small, plain = compile_graph(network(), ASKED), compile_graph(network(), Options(verify=False))
    words = ec_program.words(small.program.epochs)
    engines = [e for epoch in decode_epochs(instructions.decode(words)) for e in epoch.engines().values()]
    narrow = [engine for engine in engines if engine.size0 == 4]
    assert len(narrow) == 2
    for engine in narrow:
        assert (engine.size1, engine.size2, engine.raw, engine.frames) == (0, 0, 1, 1)
        assert (engine.align_right, engine.sign_extend) == (1, 1)
    assert small.layout.memory.weights_bytes * 2 == plain.layout.memory.weights_bytes
    # the second layer waits for its flash
    assert 0.5 < small.cost.cycles / plain.cost.cycles < 0.56


def test_the_emulator_does_not_guess() -> None:
    found = compile_graph(network(), ASKED)
    inputs = random_inputs(found.graph, 1)
    with pytest.raises(NotModelledError, match="w4-stream"):
        Emulation(replace(found.program, four_bits=None), found.graph).run(inputs)


@pytest.mark.parametrize("epoch_controller", [True, False])
def test_a_build_keeps_what_it_assumes(tmp_path: Path, epoch_controller: bool) -> None:
    view = view_of(network(), options=replace(ASKED, epoch_controller=epoch_controller))
    generating.generate(view, tmp_path)
    emulated = load(tmp_path)
    codes = random_inputs(view.compiled.graph, 2)
    emulated.write_input(0, codes[view.compiled.graph.inputs[0]].reshape(emulated.inputs[0].shape))
    assert list(emulated.run())
    wanted = Emulation(view.compiled.program, view.compiled.graph).run(codes)
    np.testing.assert_array_equal(emulated.read_output(0).reshape(-1), next(iter(wanted.values())).reshape(-1))
    if epoch_controller:
        described = tmp_path / "network_program.json"
        assert json.loads(described.read_text())["four_bits"] == ["low bits first", False]
        described.unlink()  # files of somebody else do not say
        assert load_or_refused(tmp_path)


def load_or_refused(folder: Path) -> bool:
    try:
        emulated = load(folder)
        return emulated.memory.four_bits is None
    except InputError:  # the folder is not whole
        return True


def test_copies_in_ram_stay_as_engines_read_them() -> None:
    found = compile_graph(network(), replace(ASKED, resident="all", verify=True))
    copies = [home for home in found.layout.placed.values() if home.copy_of]
    assert copies and all(home.buffer.half_bytes and not home.buffer.four_bits for home in copies)
    assert found.layout.memory.resident_bytes < found.layout.memory.weights_bytes + 64


# ------------------------------------------------------------------------------------------------------------ evidence


def test_safety_calls_it_unseen_unless_a_board_has_shown_it() -> None:
    program = compile_graph(network(), ASKED).program
    epochs = [epoch for epoch in decode_epochs(ec_program.program(program.epochs)) if not epoch.empty]
    found = [v for v in safety.check_program(epochs) if v.rule.id in ("U15", "U18")]
    assert {(v.rule.id, v.severity, v.seen) for v in found} == {("U18", Severity.UNPROVEN, str(NARROW))}
    assert {grade.grade for grade in grade_program(epochs)} == {Grade.UNSEEN}
    shown = Trust(board=BoardEvidence(confirmed=frozenset({NARROW}), four_bits=FourBits(confirmed=True)))
    context = safety.SafetyContext(trust=shown)
    assert not [v for v in safety.check_program(epochs, context) if v.rule.id in ("U15", "U18")]
    assert Grade.UNSEEN not in {grade.grade for grade in grade_program(epochs, context)}


@pytest.mark.parametrize("feature", [NARROW, Feature("STRENG", "read raw", "9")])
@pytest.mark.parametrize("grade", list(Grade))
def test_four_bits_are_assumed_where_they_are_used_and_unseen(feature: Feature, grade: Grade) -> None:
    form = GradedForm("STRENG0", Graded(feature, grade))
    found = summarise([EpochGrade(0, grade, (form,))])
    assert found.assumes_four_bits == ("assumed" in found.as_dict()) == ((feature, grade) == (NARROW, Grade.UNSEEN))


def evidence(folder: Path, **more: object) -> Options:
    row = evidence_row(BoardEvidence(board="stm32n6570-dk", **more))  # type: ignore[arg-type]
    file = folder / "evidence.json"
    file.write_text(json.dumps({"format": FORMAT, "version": VERSION, **row}))
    return Options(verify=False, evidence=str(file))


@pytest.mark.parametrize("low_first", [True, False])
def test_a_board_turns_it_on_and_says_the_order(tmp_path: Path, low_first: bool) -> None:
    options = evidence(tmp_path, confirmed=frozenset({NARROW}), four_bits=FourBits(low_first, confirmed=True))
    found = compile_graph(network(), replace(options, verify=True))
    assert found.program.four_bits == FourBits(low_first, confirmed=True) and narrow_engines(found)
    assert not found.silicon.assumes_four_bits and not found.silicon.epochs["unseen"]
    inputs = random_inputs(found.graph, 1)
    got, meant = Emulation(found.program, found.graph).run(inputs), run_mapped(found.graph, found.mapped, inputs)
    assert all(np.array_equal(got[name], meant[name]) for name in found.graph.outputs)


def deep_layer() -> Graph:
    """Points of many channels run in deep mode; a count of words that is odd, and kernels that do not fill a word."""
    net = cases._net((1, 3, 3, 70))
    cases._conv(net, net.inputs[0], 13, (1, 1))
    return coarse(net.graph("deep"))


@pytest.mark.parametrize("low_first", [True, False])
def test_deep_mode_where_a_board_has_shown_it(tmp_path: Path, low_first: bool) -> None:
    form = FourBits(low_first, deep=True, confirmed=True)
    both = evidence(tmp_path, confirmed=frozenset({NARROW, NARROW_DEEP}), four_bits=form)
    found = compile_graph(deep_layer(), replace(both, verify=True))
    (engine,) = narrow_engines(found)
    assert (engine.size0, engine.size1, engine.size2, engine.align_right) == (4, 4, 4, 0)
    assert engine.frame_bytes == -(-3 * engine.elements // 2) and not found.silicon.epochs["unseen"]
    inputs = random_inputs(found.graph, 1)
    got, meant = Emulation(found.program, found.graph).run(inputs), run_mapped(found.graph, found.mapped, inputs)
    assert all(np.array_equal(got[name], meant[name]) for name in found.graph.outputs)
    by_cpu = compile_graph(deep_layer(), replace(both, epoch_controller=False))
    assert all(engine.size1 == 0 for engine in narrow_engines(by_cpu))  # drivers cannot say 4, 4, 4
    shallow = compile_graph(deep_layer(), ASKED)
    assert all(engine.size1 == 0 for engine in narrow_engines(shallow))  # nobody may ask for it without a board


def test_what_a_board_refuted_cannot_be_asked_for(tmp_path: Path) -> None:
    options = evidence(tmp_path, refuted=frozenset({NARROW}))
    assert trust_of(options).four_bits is None
    with pytest.raises(InputError, match="the board refuted"):
        compile_graph(network(), replace(options, allow_unproven=("w4-stream",)))


@pytest.mark.parametrize("damaged", ["low bits first", ["middle", False], ["low bits first", 1], [1]])
def test_a_damaged_answer_is_refused(tmp_path: Path, damaged: object) -> None:
    options = evidence(tmp_path)
    file = Path(options.evidence)
    file.write_text(json.dumps(json.loads(file.read_text()) | {"four_bits": damaged}))
    with pytest.raises(InputError, match="four_bits"):
        trust_of(options)


# ------------------------------------------------------------------------------------------------------- what is said


def test_reports_say_how_likely_it_is() -> None:
    view = view_of(network(), options=ASKED)
    said = "\n".join(lines(compile_text.report(view)))
    assert f"{PROBABILITY:.0%} likely" in said
    assert "weights that engines read in 4 bits: 2 constants, 37,632 bytes" in said
    assert view.compiled.silicon.as_dict()["assumed"] == {"w4-stream": PROBABILITY}
    plain = "\n".join(lines(compile_text.report(view_of(network()))))
    assert "4 bits" not in plain and "likely" not in plain


def test_unknown_forms_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match="w4-stream"):
        Options(allow_unproven=("w4-streams",))
    assert main(["analyze", "--allow-unproven", "model.tflite"]) != 0
    assert "--allow-unproven=any" in unwrapped(capsys.readouterr().err)
    assert Options(allow_unproven=True).unproven == ("any",) and Options().unproven == ()
