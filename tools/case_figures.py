"""Figures of docs/cases, from benchmarks/results/cases.json; beside them what the public stories say."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent.parent / "benchmarks" / "results" / "cases.json"
# the story of MoveNet: report and generated files of ST Edge AI Core 2.1.0 as published with it
ST_KIB = {"cpuRAM2": 864, "npuRAM4": 378, "npuRAM5": 432, "octoFlash": 2994}  # 0x70380000 to 0x7066c810
ST_RAM_KIB = sum(size for name, size in ST_KIB.items() if name != "octoFlash")
ST_CONFIG = {
    "POSTPROCESS_TYPE": "POSTPROCESS_SPE_MOVENET_UF",
    "NN_HEIGHT": "192",
    "NN_WIDTH": "192",
    "AI_POSE_PP_CONF_THRESHOLD": "0.4",
    "AI_POSE_PP_POSE_KEYPOINTS_NB": "13",
    "AI_SPE_MOVENET_POSTPROC_HEATMAP_WIDTH": "48 (=192/4)",
    "AI_SPE_MOVENET_POSTPROC_HEATMAP_HEIGHT": "48 (=192/4)",
}
Record = dict[str, Any]


@cache
def _cases() -> Record:
    found: Record = json.loads(RESULTS.read_text())
    return found


def _builds() -> Record:
    builds: Record = _cases()["movenet"]["builds"]
    return builds


def _table(head: list[str], rows: list[list[str]], left: int = 1) -> str:
    lines = [head, ["---"] * left + ["---:"] * (len(head) - left), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _time(build: Record) -> str:
    return f"{build['ms']:.2f} ({build['low_ms']:.2f} to {build['high_ms']:.2f})"


def _kib(size: float) -> str:
    return f"{size / 1024:,.0f}"


def movenet_report() -> str:
    builds = list(_builds().values())
    on_cpu = [", ".join(one["kind"] for one in build["layers"] if one["on"] == "cpu") or "none" for build in builds]
    rows = [
        ["ms", "22, reported", *(f"{_time(build)}, predicted" for build in builds)],
        ["epochs on the NPU / CPU", "71 / 4", *(f"{build['npu']} / {build['cpu']}" for build in builds)],
        ["on the CPU", "3 resizes, dequantize", *on_cpu],
        ["RAM, KiB", f"{ST_RAM_KIB:,}", *(_kib(build["ram_bytes"]) for build in builds)],
        ["weights, KiB", f"{ST_KIB['octoFlash']:,}", *(_kib(build["weights_bytes"]) for build in builds)],
    ]
    return _table(["", "ST 2.1.0", *_builds()], rows)


def movenet_newer() -> str:
    """The best figure that ST has published for the same file."""
    rows = json.loads(RESULTS.with_name("against_st.json").read_text())["same_file"]["rows"]
    row = next(row for row in rows if row["model"] == "st_movenet_lightning_heatmaps_192_int8_pc.tflite")
    return f"{row['st_ms']:g} ms with release {row['release']}"


def movenet_resizes() -> str:
    (build, *_) = _builds().values()
    rows = [[one["name"], one["on"].upper(), f"{one['ms']:.3f}"] for one in build["layers"] if "resize" in one["kind"]]
    return _table(["layer", "runs on", "predicted ms"], rows, 2)


def movenet_memory() -> str:
    names = list(dict.fromkeys([*ST_KIB, *(name for build in _builds().values() for name in build["pools"])]))
    rows = [
        [name, f"{ST_KIB.get(name, 0):,}", *(_kib(build["pools"].get(name, 0)) for build in _builds().values())]
        for name in sorted(names)
    ]
    return _table(["KiB in", "ST 2.1.0", *_builds()], rows)


def movenet_config() -> str:
    ours = _cases()["movenet"]["app_config"]
    return _table(["define", "the story", "atonc"], [[f"`{k}`", v, f"`{ours[k]}`"] for k, v in ST_CONFIG.items()], 3)


def denoiser_layers() -> str:
    whole, even = (_cases()["denoiser"][channels] for channels in ("257", "256"))
    builds, rows = (whole["flash"], whole["RAM"], even["flash"]), []
    for flash, ram, other in zip(*(build["layers"] for build in builds), strict=True):
        per_cycle = f"{ram['macs'] / ram['cycles']:.1f}"
        times = [f"{one['ms']:.3f}" for one in (flash, ram, other)]
        rows.append([flash["name"], f"{flash['macs']:,}", flash["on"].upper(), times[0], times[1], per_cycle, times[2]])
    total, in_ram, narrow = (_time(build) for build in builds)
    rows.append(["whole network", "", "", total, in_ram, "", narrow])
    head = ["layer", "MAC", "runs on", "ms, flash", "ms, RAM", "MAC/cycle, RAM", "ms, flash, 256 channels"]
    return _table(head, rows)


def denoiser_size() -> str:
    return f"{_cases()['denoiser']['257']['parameters']:,}"


def denoiser_cpu() -> str:
    build = _cases()["denoiser"]["257"]["flash"]
    return f"{build['npu']} epochs on the NPU, {build['cpu']} on the CPU"


def update_images() -> str:
    rows = []
    for one in _cases()["update"]:
        sizes = [f"{one[key]:,}" for key in ("image_bytes", "xip_bytes", "copy_bytes", "params_bytes")]
        good, of = one["checks"]
        same = "yes" if all(ran["same"] for ran in one["modes"].values()) else "no"
        rows.append([one["model"], *sizes, f"{good} of {of}", f"{one['modes']['copy']['ms']:.2f}", same])
    head = ["image of", "bytes", "XIP", "COPY", "PARAMS", "checks passed", "predicted ms", "same outputs"]
    return _table(head, rows)


def update_pools() -> str:
    rows = [
        [one["model"], name, label, f"0x{place:08x}" if place else "where the image is", f"{size:,}"]
        for one in _cases()["update"]
        for name, label, place, size in one["pools"]
    ]
    return _table(["image of", "memory", "flags", "address", "bytes"], rows, 4)


CASES: Mapping[str, Callable[[], str]] = {
    "case-movenet-report": movenet_report,
    "case-movenet-newer": movenet_newer,
    "case-movenet-resizes": movenet_resizes,
    "case-movenet-memory": movenet_memory,
    "case-movenet-config": movenet_config,
    "case-denoiser-layers": denoiser_layers,
    "case-denoiser-size": denoiser_size,
    "case-denoiser-epochs": denoiser_cpu,
    "case-update-images": update_images,
    "case-update-pools": update_pools,
}
