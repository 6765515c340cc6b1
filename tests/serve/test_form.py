"""Options of visitors: known ones, of the right kind, and never more than an option."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("starlette", reason="atonc[serve] is not installed")

from atonc.doors.serve import form
from atonc.doors.serve.api import options_schema
from atonc.doors.verbs.generate import DECLARED
from atonc.machine.base.declare import declared
from atonc.machine.base.errors import AtoncError, InputError
from atonc.machine.hw.board import board_names, find_board


def test_every_option_is_one_of_the_command_line_and_has_help() -> None:
    found = [option for group in form.schema() for option in group["options"]]
    names = [option["name"] for option in found]
    assert len(set(names)) == len(names)
    wanted = ("resident", "schedule-with", "schedule-without", "relocatable", "optimization", "cut-input-layers")
    assert set(wanted) <= set(names)
    assert all(option["help"] for option in found)
    assert set(options_schema()["properties"]) == {option["name"] for option in found}


def test_no_option_names_a_file() -> None:
    named = {known.flags[-1][2:] for kind in DECLARED for _, known in declared(kind) if "FILE" in known.metavar}
    assert named >= {"memory-pool", "evidence", "calibration"}
    for name in (*named, "mpool", "st-neural-art", "dump", "trace", "annotate", "output", "model"):
        with pytest.raises(InputError, match="no option"):
            form.parsed({name: "/etc/passwd"})


def test_values_are_those_of_the_command_line() -> None:
    options = {"prefer": "memory", "npu-mhz": 800, "no-cpu": True, "hex": False, "on": [["cpu", "a b"]], "name": "net"}
    found = form.parsed(options)
    assert (found.prefer, found.npu_mhz, found.no_cpu, found.hex, found.name) == ("memory", 800.0, True, False, "net")
    expected = "atonc generate m.tflite --prefer=memory --npu-mhz=800 --no-cpu --on cpu 'a b' --name=net"
    assert form.command("m.tflite", options) == expected


def test_an_option_whose_flag_stands_alone() -> None:
    found = form.parsed({"resident": True, "relocatable": True})
    assert (str(found.resident), found.relocatable) == ("all", "")
    assert form.parsed({"resident": "64k", "relocatable": "split"}).resident == 64 << 10


@pytest.mark.parametrize(
    "options",
    [
        {"prefer": "luck"},
        {"board": "/etc/passwd"},
        {"board": "default@../x.toml"},
        {"no-cpu": "yes"},
        {"npu-mhz": -1},
        {"name": ["a"]},
        {"name": True},
        {"on": [["gpu", "x"]]},
        {"on": [["cpu", "--json"]]},
        {"on": "cpu x"},
        {"cut-output-tensors": "x" * 5000},
        {"max-ram": "much"},
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        form.parsed(options)


def test_a_value_cannot_become_an_option() -> None:
    found = form.parsed({"cut-output-tensors": "--output=/tmp/x"})
    assert str(found.output) == str(form.parsed({}).output)


@pytest.mark.parametrize(
    ("name", "value"),
    [("prefer", "luck"), ("npu-mhz", -1), ("seed", "x"), ("max-latency", "soon"), ("relocatable", "all"),
     ("name", "9 x"), ("on", "cpu x"), ("no-cpu", "yes"), ("board", "stm32h747i-disco"), ("distrust", "S99")],
)  # fmt: skip
def test_an_error_names_the_field_to_mark(name: str, value: Any) -> None:
    with pytest.raises(AtoncError) as refused:
        form.check({"numerics": "2.x", name: value, "hex": True}, form.GENERATE)
    assert form.field(refused.value.where) == {"field": name}
    assert refused.value.what and "argument --" not in refused.value.what


def test_only_an_option_of_the_form_is_a_field() -> None:
    assert form.field("digits.tflite, --cut-output-tensors") == {"field": "cut-output-tensors"}
    assert form.field("model.onnx") == form.field("--output") == form.field("") == form.field("prefer") == {}


def test_every_offered_board_has_an_npu() -> None:
    board = next(one for group in form.schema() for one in group["options"] if one["name"] == "board")
    assert board["choices"] == [name for name in board_names() if find_board(name).has_npu]
    assert "stm32n6570-dk" in board["choices"] and len(board["choices"]) < len(board_names())


def test_an_option_of_the_command_line_alone_is_told_as_such() -> None:
    with pytest.raises(InputError) as refused:
        list(form.words(form.GENERATE, {"layout": "tflite"}))
    assert "command line alone" in refused.value.rule and "shell" in refused.value.fix
    with pytest.raises(InputError) as refused:
        list(form.words(form.GENERATE, {"zzzz": "tflite"}))
    assert "cut-" not in str(refused.value)  # no list that is cut in the middle
