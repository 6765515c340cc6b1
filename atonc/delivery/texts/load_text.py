"""`atonc load-and-run` as text: the image, times per epoch block, totals."""

from __future__ import annotations

from collections.abc import Sequence

from atonc.delivery.trials.loading import VIRTUAL, EpochTime, Loaded, LoadPlan


def plan_lines(plan: LoadPlan) -> list[str]:
    image, context = plan.image, plan.image.context
    return [
        f"image          : {plan.file} at {plan.address:#010x}",
        f"split model    : {f'{plan.params_file} at {plan.params_address:#010x}' if plan.params_file else 'no'}",
        f"exec sz        : XIP={image.xip_bytes:,} COPY={image.copy_bytes:,}",
        f"acts/params sz : acts={context.activations_bytes:,} params={context.params_bytes:,}",
        f"ext ram sz     : {context.ext_ram_bytes:,}",
        f"runtime        : {context.runtime}",
        f"install mode   : {plan.install_mode}",
    ]


def run_lines(loaded: Loaded) -> list[str]:
    """Times in the form of ST's profiler: milliseconds, then cycles [before, NPU, after]."""
    rows = [_row(f"epoch {_numbers(e)}", e.kind, loaded.mhz, [e.pre, e.npu, e.post]) for e in loaded.epochs]
    sums = [sum(part) for part in zip(*((e.pre, e.npu, e.post) for e in loaded.epochs), strict=True)] or [0, 0, 0]
    whole = max(1, sum(sums))
    share = "".join(f"{100 * part / whole:12.1f}%" for part in sums)
    rate = loaded.mhz * 1e6 / max(1, loaded.cycles)
    virtual = (
        "virtual board, our loader and runtime; CPU cycles are instructions, NPU cycles those of the hardware model"
    )
    return [
        virtual if loaded.board == VIRTUAL else f"{loaded.board}: {loaded.line}; cycles as its firmware measured them",
        f"{'':24}{'ms':>10}   [{'before':>13}{'NPU':>13}{'after':>13} ]",
        *rows,
        "-" * 82,
        _row("total", "", loaded.mhz, sums),
        f"{f'{rate:.2f} inf/s':>34}   [{share} ]",
        *(f"output {k}: sha256 {digest}" for k, digest in enumerate(loaded.outputs)),
    ]


def _numbers(epoch: EpochTime) -> str:
    return str(epoch.first) if epoch.first == epoch.last else f"{epoch.first}-{epoch.last}"


def _row(name: str, kind: str, mhz: float, parts: Sequence[int]) -> str:
    cycles = "".join(f"{part:13,}" for part in parts)
    return f"{name:<16}{kind:<8}{sum(parts) / mhz / 1e3:10.3f}   [{cycles} ]"


def as_json(loaded: Loaded) -> dict[str, object]:
    epochs = [
        {"first": e.first, "last": e.last, "kind": e.kind, "pre": e.pre, "npu": e.npu, "post": e.post}
        for e in loaded.epochs
    ]
    return {
        "file": str(loaded.plan.file),
        "mode": loaded.plan.install_mode,
        "board": loaded.board,
        "cycles": loaded.cycles,
        "cpu_mhz": loaded.mhz,
        "latency_ms": loaded.cycles / loaded.mhz / 1e3,
        "inferences_per_second": loaded.mhz * 1e6 / max(1, loaded.cycles),
        "epochs": epochs,
        "outputs": list(loaded.outputs),
    }
