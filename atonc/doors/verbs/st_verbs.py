"""`generate`, `analyze` and `validate` by ST's name: its files, and its report as what is shown."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from atonc.compiler.compile.compile_view import CompileView
    from atonc.insight.validating.judging import OutputResult


def folder(options: argparse.Namespace) -> Path:
    """Where `analyze` writes: ST's tool leaves the C files and images of the network there too."""
    from atonc.delivery.generate.st_call import OUTPUT

    return options.output or OUTPUT


def release(options: argparse.Namespace) -> str:
    """The release of LL_ATON that ST's packager reads, unless another one was named."""
    from atonc.delivery.reloc.abi import release_for, release_named

    return release_named(options.runtime) if options.runtime else release_for(options.st.core)


def show(view: CompileView, options: argparse.Namespace) -> None:
    """The report that was written, then what is ours: the predicted time, the proof, and the files."""
    from atonc.delivery.generate import generating
    from atonc.insight.report import compile_text, generate_report
    from atonc.insight.report.run_text import cost_lines
    from atonc.insight.report.terminal import show as shown

    _, _, *report = generate_report.text(view, generating.c_network(view)).splitlines()
    files = [f" {Path(file).absolute()}" for file in view.files]
    shown(
        [
            f"Parameters            : {options.st.arguments}",
            *report,
            "",
            *cost_lines(view.cost),
            *compile_text.verify_lines(view.compiled.report),
            "",
            f"Generated files ({len(files)})",
            "-" * 80,
            *files,
            "",
            f"elapsed time ({options.st.verb}): {view.compiled.seconds:.3f}s",
        ]
    )


def validated(options: argparse.Namespace, device: str, outputs: Sequence[OutputResult], lines: Sequence[str]) -> None:
    """The files of `validate`: beside the network, or where the user says."""
    from atonc.delivery.generate import st_files
    from atonc.machine.base.disk import write_files

    place = folder(options)
    place.mkdir(parents=True, exist_ok=True)
    write_files(place, st_files.validated(options.st, options.name, device, outputs, lines))
