"""Graphs with something wrong in them: the passes give a graph or one clear error."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import numpy as np
import pytest

from atonc.compiler.ir.text import dump, parse
from atonc.compiler.passes import run
from atonc.compiler.passes.edit import rewrite
from atonc.machine.base.errors import AtoncError, ModelError
from tests.passes.small_graphs import Small

NUMBER = re.compile(r"-?\d+(\.\d+)?")
WRONG = ("0", "-1", "1", "2", "7", "255", "65536", "1e30", "-128", "3.5")


def text() -> str:
    """A bit of everything."""
    s = Small("onnx")
    x = s.input((1, 4, 6, 6), dtype="float32")
    s.op("quantize", [x], s.value("q", (1, 4, 6, 6)))
    s.op("pad", ["q"], s.value("p", (1, 4, 8, 8)), pads=((0, 0), (0, 0), (1, 1), (1, 1)), mode="constant")
    s.conv("p", s.value("a", (1, 8, 6, 6), "float32"), 8, layout="NCHW", padding=(0, 0, 0, 0))
    s.op("relu6", ["a"], s.value("b", (1, 8, 6, 6), scale=0.04, zero=-128))
    s.op("logistic", ["b"], s.value("c", (1, 8, 6, 6), scale=1 / 256, zero=-128))
    s.op("mul", ["b", "c"], s.value("d", (1, 8, 6, 6)))
    s.op("concat", ["d", "b"], s.value("e", (1, 16, 6, 6), scale=0.06), axis=1)
    s.op("transpose", ["e"], s.value("f", (1, 6, 6, 16), scale=0.06), perm=(0, 2, 3, 1))
    s.op("reshape", ["f"], s.value("g", (1, 36, 16), scale=0.06))
    s.op("mean", ["e"], s.value("h", (1, 16), scale=0.06), axes=(2, 3), keepdims=False)
    s.op("dense", ["h", s.weights("w", 5, 16), s.bias("v", 5)], s.value("i", (1, 5)))
    s.op("split", ["g"], [s.value("j", (1, 36, 8), scale=0.06), s.value("k", (1, 36, 8), scale=0.06)], axis=2)
    s.const("n", np.arange(8, dtype=np.int8), 0.1)
    s.op("add", ["j", "n"], s.value("y", (1, 36, 8), scale=0.1))
    return dump(s.graph("y", "i", "k"), complete=True)


def test_wrong_numbers_give_one_clear_error() -> None:
    lines, rng, outcomes = text().splitlines(), random.Random(5), {"graph": 0, "error": 0}
    for _ in range(400):
        changed = list(lines)
        for _ in range(rng.choice((1, 1, 2, 3))):
            index = rng.randrange(len(changed))
            places = list(NUMBER.finditer(changed[index]))
            if "base64" in changed[index] or not places:
                continue
            place = rng.choice(places)
            changed[index] = changed[index][: place.start()] + rng.choice(WRONG) + changed[index][place.end() :]
        try:
            run(parse("\n".join(changed)))
            outcomes["graph"] += 1
        except AtoncError:
            outcomes["error"] += 1
    assert outcomes["graph"] > 20 and outcomes["error"] > 100


def test_a_rule_that_changes_nothing_gives_the_graph_itself_if_it_is_sound() -> None:
    s = Small()
    s.op("relu", [s.input((1, 4))], s.value("a", (1, 4)))
    s.op("logistic", ["a"], s.value("y", (1, 4)))
    s.op("logistic", ["a"], s.value("nobody reads it", (1, 4)))
    graph = s.graph("y")
    plain = rewrite(graph, lambda op, editor: None)
    assert plain is not graph and [op.outputs[0] for op in plain.ops] == ["a", "y"]
    assert "nobody reads it" not in plain.tensors and rewrite(plain, lambda op, editor: None) is plain
    assert rewrite(plain, lambda op, editor: [replace(op)]) is not plain
    for wrong in (plain.ops[::-1], (*plain.ops, replace(plain.ops[1], name="again"))):
        with pytest.raises(ModelError, match=r"before it is computed|is written twice"):
            rewrite(replace(plain, ops=wrong), lambda op, editor: None)
