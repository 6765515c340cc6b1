"""`--stop-after STAGE --dump DIR`: what each stage hands to the next, as text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from atonc.disk import write_files
from atonc.ir import text
from atonc.lower.map_ops import Mapped, map_ops
from atonc.lower.wishes import resolve
from atonc.options import Options
from atonc.passes import order
from atonc.pipeline import compile_graph, read_model, schedule_tasks, supplied, typical_runs
from atonc.plan.types import CpuPlan

STAGES = ("read", "passes", "lower", "place")


def dump(model: Path, options: Options, last: str, folder: Path) -> list[Path]:
    """Runs the stages up to `last` and writes one file for each."""
    files = {}
    for number, (stage, content) in enumerate(_outputs(model, options), 1):
        files[f"{number}_{stage}.txt"] = content.encode()
        if stage == last:
            break
    return write_files(folder, files)


def _outputs(model: Path, options: Options) -> Iterator[tuple[str, str]]:
    source = read_model(model, options)
    yield "read", text.dump(source)
    graph = order.run(source, options)
    yield "passes", text.dump(graph)
    wishes = resolve(source, graph, options.on_cpu, options.on_npu)
    mapped = map_ops(graph, options.numerics, lambda: typical_runs(graph), wishes, supplied(graph, options))
    yield "lower", "".join(f"{line}\n" for line in _steps(mapped))
    compiled = compile_graph(source, options)
    homes = sorted(compiled.program.placed.values(), key=lambda home: (home.address, home.buffer.name))
    yield (
        "place",
        "".join(
            f"{h.address:#010x} {h.end:#010x} {h.pool:10} steps {h.first + 1}..{h.last + 1} {h.buffer.kind} "
            f"{h.buffer.name}\n"
            for h in homes
        ),
    )


def _steps(mapped: Mapped) -> Iterator[str]:
    for number, plan in enumerate(schedule_tasks(mapped).plans, 1):
        where = "cpu" if isinstance(plan, CpuPlan) else "npu"
        yield f"{number} {where} {plan.title}"
        yield f"    {', '.join(sorted(plan.reads()))} -> {', '.join(sorted(plan.writes()))}"
        if not isinstance(plan, CpuPlan):
            yield from (f"    {link}" for link in plan.links)
    for name, source in mapped.context.aliases.items():
        yield f"alias {name} = {source}"
