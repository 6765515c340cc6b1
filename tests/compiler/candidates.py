"""A finished compilation as the search sees it, with options that nobody has acted on yet."""

from __future__ import annotations

from dataclasses import replace

from atonc.compiler.compile.pipeline import Compiled
from atonc.compiler.request.options import Options
from atonc.compiler.search.candidate import Built, Candidate, Setting
from atonc.compiler.select.decisions import FIRST, Decisions


def candidate_of(compiled: Compiled, options: Options, decisions: Decisions = FIRST) -> Candidate:
    decisions = replace(decisions, resident_bytes=int(options.room_for_weights))
    setting = Setting(compiled.graph, compiled.memory, compiled.target, options)
    built = Built(compiled.mapped, compiled.scheduled, compiled.layout, compiled.program)
    return Candidate(decisions, setting, compiled.mapped, built)
