"""What `atonc load-and-run` shows: the image, times per epoch block, totals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from atonc.delivery.trials.loading import VIRTUAL, EpochTime, Loaded, LoadPlan
from atonc.insight.report.document import Chapter, Document, Terms, fields_of

VIRTUAL_TIMES = (
    "virtual board, our loader and runtime; CPU cycles are instructions, NPU cycles those of the hardware model"
)


def plan_terms(plan: LoadPlan) -> Terms:
    image, context = plan.image, plan.image.context
    return Terms(
        {
            "image": f"{plan.file} at {plan.address:#010x}",
            "split model": f"{plan.params_file} at {plan.params_address:#010x}" if plan.params_file else "no",
            "exec sz": f"XIP={image.xip_bytes:,} COPY={image.copy_bytes:,}",
            "acts/params sz": f"acts={context.activations_bytes:,} params={context.params_bytes:,}",
            "ext ram sz": f"{context.ext_ram_bytes:,}",
            "runtime": context.runtime,
            "install mode": plan.install_mode,
        }
    )


def document(loaded: Loaded) -> Document:
    rate = loaded.mhz * 1e6 / max(1, loaded.cycles)
    data = {
        "file": str(loaded.plan.file),
        "mode": loaded.plan.install_mode,
        "board": loaded.board,
        "cycles": loaded.cycles,
        "cpu_mhz": loaded.mhz,
        "latency_ms": loaded.cycles / loaded.mhz / 1e3,
        "inferences_per_second": rate,
        "epochs": [fields_of(e, "first", "last", "kind", "pre", "npu", "post") for e in loaded.epochs],
        "outputs": list(loaded.outputs),
    }
    return Document(sections=[Chapter("", list(_lines(loaded, rate)))], data=lambda: data)


def _lines(loaded: Loaded, rate: float) -> Iterator[str]:
    """Times in the form of ST's profiler: milliseconds, then cycles [before, NPU, after]."""
    on_board = f"{loaded.board}: {loaded.line}; cycles as its firmware measured them"
    yield VIRTUAL_TIMES if loaded.board == VIRTUAL else on_board
    yield from time_lines(loaded.epochs, loaded.mhz)
    sums = _sums(loaded.epochs)
    share = "".join(f"{100 * part / max(1, sum(sums)):12.1f}%" for part in sums)
    yield f"{f'{rate:.2f} inf/s':>34}   [{share} ]"
    yield from (f"output {k}: sha256 {digest}" for k, digest in enumerate(loaded.outputs))


def time_lines(epochs: Sequence[EpochTime], mhz: float) -> Iterator[str]:
    """Every block of epochs, and their sum."""
    yield f"{'':24}{'ms':>10}   [{'before':>13}{'NPU':>13}{'after':>13} ]"
    for epoch in epochs:
        yield _row(f"epoch {_numbers(epoch)}", epoch.kind, mhz, (epoch.pre, epoch.npu, epoch.post))
    yield "-" * 82
    yield _row("total", "", mhz, _sums(epochs))


def _sums(epochs: Sequence[EpochTime]) -> list[int]:
    return [sum(part) for part in zip(*((e.pre, e.npu, e.post) for e in epochs), strict=True)] or [0, 0, 0]


def _numbers(epoch: EpochTime) -> str:
    return str(epoch.first) if epoch.first == epoch.last else f"{epoch.first}-{epoch.last}"


def _row(name: str, kind: str, mhz: float, parts: Sequence[int]) -> str:
    cycles = "".join(f"{part:13,}" for part in parts)
    return f"{name:<16}{kind:<8}{sum(parts) / mhz / 1e3:10.3f}   [{cycles} ]"
