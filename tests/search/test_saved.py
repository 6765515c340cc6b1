"""Decisions carry what they depend on: replayed elsewhere they give the same program, or a clear refusal."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atonc.compiler.compile.pipeline import Compiled, compile_graph
from atonc.compiler.ir import Graph, Quantisation
from atonc.compiler.lower.conv.lanes import SAME_BITS
from atonc.compiler.lower.same_bits import same_bits
from atonc.compiler.plan.types import Buffer, BufferKind
from atonc.compiler.request.options import Options
from atonc.compiler.search.build import build
from atonc.compiler.search.candidate import Setting
from atonc.compiler.search.saved import as_json
from atonc.compiler.select.decisions import FIRST, Decisions
from atonc.compiler.select.form import Alternative, Semantics
from atonc.compiler.select.variants import Variant
from atonc.machine.base.errors import ConflictError, InputError
from tests.compiler.golden_graphs import Sketch
from tests.compiler.random_graphs import random_graph

PLAIN = Options(verify=False)
RESIDENT = replace(PLAIN, resident="all")
FETCHING = replace(PLAIN, schedule_with=("prefetch",))
NOWHERE = "kernels:0000000000000000"


def network(outputs: int = 64) -> Graph:
    net = Sketch().start(1, 30, 30, 64)
    net.conv(64)
    net.conv(outputs)
    return net.graph()


@cache
def compiled() -> Compiled:
    return compile_graph(network(), RESIDENT)


def replayed(tmp_path: Path, decisions: Decisions | dict[str, Any], options: Options, graph: Graph) -> Compiled:
    file = tmp_path / "decisions.json"
    given = as_json(decisions) if isinstance(decisions, Decisions) else decisions
    file.write_text(json.dumps({"decisions": given}))
    return compile_graph(graph, replace(options, decisions=str(file)))


def epochs(found: Compiled) -> list[object]:
    return [step.epoch for step in found.program.steps]


@pytest.mark.parametrize("options", [PLAIN, RESIDENT], ids=["none", "all"])
def test_weights_in_ram_are_decided_by_the_file(tmp_path: Path, options: Options) -> None:
    found = compiled()
    assert found.decisions.resident and found.decisions.near
    assert epochs(replayed(tmp_path, found.decisions, options, network())) == epochs(found)


def test_another_room_for_weights_contradicts_the_file(tmp_path: Path) -> None:
    with pytest.raises(ConflictError, match="--resident 1024 does not go with decisions for all"):
        replayed(tmp_path, compiled().decisions, replace(PLAIN, resident="1k"), network())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "lacks 'decisions'"),
        ('{"stripes": [{"ops": ["a"]}]}', "'stripes' lacks 'bands'"),
        ('{"cuts": ["a"]}', "'cuts': "),
        ('{"fetched": 3}', "'fetched': "),
        ('{"huge_share": "1/0"}', "'huge_share': "),
        ('{"decisions": {"on_cpu": {"a": {"rule": "R1"}}}}', "'on_cpu': "),
    ],
)
def test_what_is_wrong_in_a_file_is_named(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "decisions.json"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        compile_graph(network(), replace(PLAIN, decisions=str(file)))
    assert said in caught.value.what and caught.value.where == str(file)


def steep(outputs: int = 128, seed: int = 917) -> Graph:
    """Scales of the channels differ so much that kernels in RAM are grouped otherwise than kernels in flash."""
    net = Sketch(rng=np.random.default_rng(seed)).start(1, 28, 28, 256)
    net.conv(outputs)
    scales = 0.002 * 2.0 ** np.random.default_rng(seed).normal(0, 2, outputs)
    weights = replace(net.tensors["w0"], quant=Quantisation(scales, np.zeros(outputs, np.int64), 0))
    net.tensors["w0"] = weights
    return net.graph()


def test_a_program_with_weights_in_ram_needs_no_option_to_come_back(tmp_path: Path) -> None:
    found = compile_graph(steep(), RESIDENT)
    assert epochs(replayed(tmp_path, found.decisions, PLAIN, steep())) == epochs(found)


@pytest.mark.parametrize("options", [PLAIN, RESIDENT], ids=["without the option", "with it"])
@pytest.mark.parametrize("room", [0, 1 << 20])
def test_lowering_asks_the_decision_and_not_the_option(options: Options, room: int) -> None:
    """Equal decisions give equal programs: forms of kernels in RAM differ from those of kernels in flash."""
    found = compiled()
    setting = Setting(found.graph, found.memory, found.target, options)
    near = frozenset(op.name for op in found.graph.ops) if room else frozenset()
    before = build(setting, FIRST)
    for made in (build(setting, replace(FIRST, near=near)), build(setting, FIRST.but(near=near), before)):
        assert [form.target.weights_near for form in made.mapped.forms.values()] == [room > 0] * len(made.mapped.forms)
    assert before.decisions.lowering != replace(FIRST, near=frozenset("a")).lowering


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (replace(PLAIN, no_npu=True), "the NPU (--no-npu) is on; here it is off"),
        (replace(PLAIN, numerics="2.x"), "--numerics is best; here it is 2.x"),
        (replace(PLAIN, epoch_controller=False), "the epoch controller (--no-epoch-controller) is on; here it is off"),
    ],
    ids=["no NPU", "2.x", "no epoch controller"],
)
@pytest.mark.parametrize("named", [True, False], ids=["says what for", "says nothing"])
def test_other_conditions_are_refused(tmp_path: Path, options: Options, said: str, named: bool) -> None:
    """A file of today says what it was made for; one of an earlier release does not, and names what is not there."""
    decisions = compiled().decisions if named else replace(compiled().decisions, made_for=None, forms={})
    with pytest.raises(InputError) as caught:
        replayed(tmp_path, replace(decisions, resident={NOWHERE: 0x34200000}), options, network())
    assert (said if named else f"no constant {NOWHERE!r}") in caught.value.what
    assert all((caught.value.where, caught.value.rule, caught.value.remedy))


def test_another_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the digest of the graph"):
        replayed(tmp_path, compiled().decisions, RESIDENT, network(48))
    with pytest.raises(InputError, match="no constant 'kernels:"):
        replayed(tmp_path, replace(compiled().decisions, made_for=None), RESIDENT, network(48))


def test_the_name_of_the_file_is_no_part_of_the_digest(tmp_path: Path) -> None:
    file = tmp_path / "decisions.json"
    file.write_text(json.dumps(as_json(compiled().decisions)))
    renamed = replace(compiled().source, name="another")
    assert epochs(compile_graph(renamed, replace(PLAIN, decisions=str(file)))) == epochs(compiled())


def test_weights_copied_ahead_come_back(tmp_path: Path) -> None:
    graph = random_graph(24)
    found = compile_graph(graph, FETCHING)
    assert found.decisions.fetched
    assert epochs(replayed(tmp_path, found.decisions, FETCHING, graph)) == epochs(found)
    first = asdict(found.decisions.fetched[0])
    wrong = {
        "no constant": {"constant": NOWHERE},
        "a copy is whole before": {"copies": [one | {"size_bytes": 16} for one in first["copies"]]},
        "not possible": {"address": 0x10},
        "is not a whole number": {"address": -1},
        "no more engines": {"copies": [{"step": 0, "offset": 0, "size_bytes": 16}] * 20},
        "no decisions": {"copies": [{"step": "0", "offset": 0, "size_bytes": 1}]},
    }
    for said, change in wrong.items():
        given = as_json(found.decisions) | {"fetched": [first | change]}
        with pytest.raises(InputError, match=said):
            replayed(tmp_path, given, FETCHING, graph)


@pytest.mark.parametrize("address", [0x10, 0x34200001, 0x71000000, (1 << 48) - 16])
def test_a_place_that_is_none(tmp_path: Path, address: int) -> None:
    homes = {name: address for name in list(compiled().decisions.resident or ())[:1]}
    with pytest.raises(InputError) as caught:
        replayed(tmp_path, replace(compiled().decisions, resident=homes), RESIDENT, network())
    assert "decisions.json" in caught.value.where and caught.value.rule and caught.value.remedy


@pytest.mark.parametrize(
    ("ops", "bands"), [([0, 1], 0), ([], 2), ([1, 0], 2), ([0], 1 << 50)], ids=["no band", "empty", "turned", "many"]
)
def test_a_stripe_that_is_none(tmp_path: Path, ops: list[int], bands: int) -> None:
    names = [compiled().graph.ops[index].name for index in ops]
    with pytest.raises(InputError, match=r"stripe|whole number"):
        replayed(tmp_path, {"stripes": [{"ops": names, "bands": bands}]}, PLAIN, network())


def test_activations_are_no_weights(tmp_path: Path) -> None:
    name = compiled().graph.ops[0].outputs[0]
    with pytest.raises(InputError, match="no constant"):
        replayed(tmp_path, replace(compiled().decisions, resident={name: 0x34200000}), RESIDENT, network())


def test_another_cut_brings_the_kernels_that_an_earlier_layer_has() -> None:
    """One matrix that several layers read is the first one's; a cut of a later one may be the only one to read it."""
    chosen = next(iter(compiled().mapped.forms.values()))
    shared = Buffer(NOWHERE, 64, BufferKind.CONSTANT, data=bytes(64))
    group = chosen.groups[0]
    uses = {name: replace(use, buffer=NOWHERE) for name, use in group.tasks[0].engines.items()}
    other = replace(chosen, groups=(replace(group, tasks=(replace(group.tasks[0], engines=uses),)),), buffers={},
                    earlier={NOWHERE: shared})  # fmt: skip
    label = Variant(next(iter(SAME_BITS)))
    meaning = {"op": Semantics(lambda codes: codes)}
    form = replace(chosen, semantics=meaning, alternatives=(Alternative(label, other, label, chosen),))
    ((_, instead),) = same_bits(form, "op")
    assert instead.earlier[NOWHERE] is shared and instead.cycles > 0


NO_VARIANTS = ("bogus", "rows beside", "rows beside 0", "ROWS BESIDE 2", "slices 2", "rows beside 9999")


@pytest.mark.parametrize("text", NO_VARIANTS)
def test_a_variant_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    """In its text, or because the operator does not have it."""
    found = compiled()
    op = next(iter(found.decisions.near))
    with pytest.raises(InputError, match=r"variant|pieces"):
        replayed(tmp_path, as_json(found.decisions) | {"forms": {op: text}}, PLAIN, network())


def test_errors_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    op = next(iter(compiled().decisions.near))
    for error in (float("nan"), float("inf"), -1, "3", True):
        with pytest.raises(InputError, match="disproved"):
            replayed(tmp_path, as_json(compiled().decisions) | {"disproved": {op: [error]}}, PLAIN, network())
