"""Random networks as driver calls: every epoch means the same as its controller program."""

from __future__ import annotations

import pytest

from atonc.compiler.compile.pipeline import compile_graph
from atonc.compiler.emit.c import ll_calls
from atonc.compiler.request.options import Options
from tests.compiler.random_graphs import random_graph


@pytest.mark.parametrize("seed", [200, 201, 204, 216])  # once refused: poolings that pad a single frame
def test_every_epoch_has_driver_calls(seed: int) -> None:
    program = compile_graph(random_graph(seed), Options(verify=False)).program
    for step in program.steps:
        if step.epoch is not None:
            assert "LL_ATON_Start_EpochBlock" in ll_calls.epoch_functions(step, "network")
