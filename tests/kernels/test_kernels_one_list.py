"""The prototypes of atonc_kernels.h, which follow from the functions in C, are the list of kernels.

Everything else that names each of them is held against it: twins in the emulator, prices, call writers,
and cases in which exact arithmetic, C and emulator leave the same bytes. A sentence says what is missing where.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from atonc.compiler.emit.c import cpu_calls, kernels
from atonc.compiler.emit.c.calls import Argument, ConstantTable, Pointer, Struct
from atonc.machine.base.errors import AtoncError
from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.cpu import atonc_costs, call_cost, run_call
from atonc.machine.emu.cpu.families import KERNELS
from tests.kernels import kernel_examples
from tests.kernels.kernel_examples import calls, examples
from tests.kernels.three_ways import BASE, Memories, c_value, random_values, same_three_ways, stored
from tests.kernels.three_ways import KERNELS as FOLDER

assert cpu_calls  # importing it registers the calls of all operators
WRONG: dict[str, Any] = {"number": {}, "integer": {}, "structure": 1, "data": {}}  # for each kind of parameter


@dataclass(frozen=True)
class Parameter:
    text: str

    @property
    def ctype(self) -> str:
        return self.text.removeprefix("const ").rsplit(" ", 1)[0]

    @property
    def kind(self) -> str:
        if "*" not in self.text:
            return "number" if self.ctype == "double" else "integer"
        return "structure" if self.ctype.startswith("atonc_") else "data"

    def takes(self, value: Argument) -> bool:
        if isinstance(value, Pointer):
            return value.constant == self.text.startswith("const ") and self.ctype in ("void", value.ctype)
        if isinstance(value, ConstantTable):
            return self.kind == "data" and self.ctype in ("void", value.ctype)
        if isinstance(value, Struct):
            return self.ctype == value.ctype
        if self.kind == "data":
            return value == 0  # no table
        return isinstance(value, float if self.kind == "number" else int)


def prototypes() -> dict[str, list[Parameter]]:
    header = re.sub(r"/\*.*?\*/", "", kernels.header(), flags=re.DOTALL)
    found = re.findall(r"^void (atonc_\w+)\(([^)]*)\);", header, re.MULTILINE)
    return {name: [Parameter(" ".join(p.split())) for p in given.split(",")] for name, given in found}


def places() -> dict[str, set[str]]:
    """Every place that has a line for each kernel, and the kernels that it has."""
    return {
        "a function in runtime/kernels/parts (from it the prototype follows)": set(prototypes()),
        "a twin in atonc/machine/emu/cpu (@kernel)": {name for name in KERNELS if name.startswith("atonc_")},
        "a price in atonc/machine/emu/cpu (@kernel(name, price), or atonc_costs.WORK)": set(atonc_costs.WORK),
        "a writer in atonc/compiler/emit/c/cpu with an example in tests/kernels/kernel_examples.py": set(calls()),
    }


def functions_in_c() -> set[str]:
    """As the compiler sees them, whoever made the header."""
    files = (FOLDER / "parts").glob("*.c")
    return {name for file in files for name in re.findall(r"^void (atonc_\w+)\(", file.read_text(), re.MULTILINE)}


def missing() -> list[str]:
    found = places()
    everything = set().union(*found.values())
    return [f"{name} has no {place[2:]}" for place, names in found.items() for name in sorted(everything - names)]


def test_every_place_has_every_kernel() -> None:
    lacking = missing()
    assert not lacking, "; ".join(lacking)
    assert len(prototypes()) > 20


def test_the_header_declares_what_is_defined() -> None:
    assert set(prototypes()) == functions_in_c()
    assert "Prototypes:" not in kernels.header()


def test_a_place_without_a_kernel_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(KERNELS, "atonc_gather")
    monkeypatch.delitem(atonc_costs.WORK, "atonc_reduce")
    assert missing() == [
        "atonc_gather has no twin in atonc/machine/emu/cpu (@kernel)",
        "atonc_reduce has no price in atonc/machine/emu/cpu (@kernel(name, price), or atonc_costs.WORK)",
    ]
    monkeypatch.setattr(kernel_examples, "examples", lambda: examples()[1:])
    calls.cache_clear()
    assert any("atonc_copy has no writer" in sentence for sentence in missing())
    calls.cache_clear()


@pytest.mark.parametrize("name", prototypes())
def test_calls_have_the_arguments_of_the_prototype(name: str) -> None:
    parameters, arguments = prototypes()[name], calls()[name][0].arguments
    assert len(parameters) == len(arguments)
    unlike = [p.text for p, value in zip(parameters, arguments, strict=True) if not p.takes(value)]
    assert not unlike, f"emit/c/cpu gives {name} something else for {', '.join(unlike)}"


class Watched(list[Any]):
    """Arguments that remember who was looked at."""

    def __init__(self, values: Any) -> None:
        super().__init__(values)
        self.seen: set[int] = set()

    def __getitem__(self, index: Any) -> Any:
        self.seen.add(index)
        return super().__getitem__(index)


def run_twin(name: str, args: list[Any]) -> None:
    memory = AddressSpace()
    memory.add("ram", BASE, calls()[name][2].bytes.size)
    run_call(name, args, memory)


@pytest.mark.parametrize("name", prototypes())
def test_twins_read_the_arguments_of_the_prototype(name: str) -> None:
    """All of them, no other, and each as what it is."""
    parameters, honest = prototypes()[name], calls()[name][1]
    args = Watched(honest)
    run_twin(name, args)
    unread = [parameters[k].text for k in sorted(set(range(len(parameters))) - args.seen)]
    assert not unread, f"the twin of {name} in emu/cpu does not read {', '.join(unread)}"
    assert max(args.seen) < len(parameters)
    for k, parameter in enumerate(parameters):
        with pytest.raises(AtoncError):
            run_twin(name, [*honest[:k], WRONG[parameter.kind], *honest[k + 1 :]])


@pytest.mark.parametrize("name", prototypes())
def test_no_kernel_is_free(name: str) -> None:
    cost = call_cost(name, calls()[name][1])
    assert cost.cpu_cycles > 0 and not cost.known and "unmeasured" in cost.basis


def cases() -> list[Any]:
    return [pytest.param(*case, id=f"{k}-{case[1].kind}") for k, case in enumerate(examples())]


@pytest.mark.parametrize(("graph", "op"), cases())
def test_prices_count_every_byte_once(graph: Any, op: Any) -> None:
    """What an operator reads and writes in memory; of constants no more than there is."""
    size = {t.name: t.elements * stored(t).itemsize for t in graph.tensors.values()}
    memories, priced = Memories(size, {}), []
    for call in cpu_calls.cpu_calls(op, graph):
        reader = atonc_costs.Reader(call.function, [c_value(argument, memories) for argument in call.arguments])
        priced.append(atonc_costs.WORK[call.function](reader))
    in_memory = sum(size[name] for name in op.inputs if graph.tensors[name].data is None)
    constants = sum(size[name] for name in op.inputs) - in_memory
    read, written = (sum(getattr(price, f"{side}_bytes") for price in priced) for side in ("read", "written"))
    picked = op.kind in ("gather", "gather_nd")  # only what the indices point at
    assert picked or in_memory <= read <= in_memory + constants
    filled = size[op.outputs[0]] if op.kind == "pad" else 0  # and then the picture over it
    assert written <= size[op.outputs[0]] + filled and written >= size[op.outputs[0]]


@pytest.mark.parametrize(("graph", "op"), cases())
def test_every_kernel_three_ways(graph: Any, op: Any) -> None:
    rng = np.random.default_rng(1)
    values = {t.name: random_values(rng, t) for t in graph.tensors.values() if t.name in op.inputs and t.data is None}
    if op.kind.startswith("gather"):
        values["i"] = np.abs(values["i"]) % 3
    same_three_ways(graph, op, values)
