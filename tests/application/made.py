"""Small applications of the digits models, planned once for a module that asks."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from atonc.compiler.request.options import Options, room
from atonc.delivery.application import building, planning
from atonc.delivery.application.planning import ApplicationPlan
from atonc.delivery.application.read import checked
from atonc.delivery.application.types import Application, AppNetwork, LoadMode

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
TFLITE, ONNX = DIGITS / "digits.tflite", DIGITS / "digits.onnx"


def accepted(found: Application) -> Application:
    """No file says it, so every key is where its name is."""
    return checked(found, [str] * len(found.networks))


def application(resident: str = "") -> Application:
    """Two networks; outputs of the first stay while the second runs, and so do inputs of the second."""
    options = Options(verify=False)
    first = AppNetwork("first", TFLITE, options, 30.0, outputs_survive=("second",), inputs_survive=("second",))
    second = AppNetwork("second", ONNX, options, 10.0, after="first", inputs_survive=("first",))
    return accepted(Application("made", options.board, (first, second), resident=room(resident)))


def with_image(mode: LoadMode = LoadMode.XIP, resident: str = "") -> Application:
    """The second one as a relocatable image."""
    found = application(resident)
    first, second = found.networks
    options = replace(second.options, relocatable=True)
    return replace(found, networks=(first, replace(second, relocatable=mode, options=options)))


def built(found: Application) -> building.BuiltApplication:
    """Its files in memory, checked."""
    return building.build(found, None)


@cache
def plan(resident: str = "") -> ApplicationPlan:
    return building.planned(application(resident))


def plan_of(found: Application) -> ApplicationPlan:
    return planning.plan(found, planning.read_all(found))


def alone(found: Application) -> Application:
    """Nothing survives anything."""
    return replace(found, networks=tuple(replace(one, inputs_survive=(), outputs_survive=()) for one in found.networks))
