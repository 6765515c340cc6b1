"""A visitor's model, compiled under the name that the visitor knows it by."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from atonc.compiler.compile.compile_view import CompileView


def titled_view(model: Path, asked: argparse.Namespace, title: str, verify: bool) -> CompileView:
    """`title` is no path here."""
    from atonc.compiler.compile import reproduce
    from atonc.compiler.place.explain import PlacementError
    from atonc.delivery.generate import generating
    from atonc.doors.verbs.common import compiler_options
    from atonc.doors.verbs.generate import with_levers

    wanted = compiler_options(asked, verify)
    try:
        view = generating.analyze(model, wanted, asked.name)
    except PlacementError as error:
        raise with_levers(model, wanted, error) from None
    command = {"command": reproduce.command(title, wanted, asked.name)}
    return replace(view, model=title, reproduce={**view.reproduce, **command})
