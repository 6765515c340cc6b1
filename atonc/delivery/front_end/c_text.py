"""`NAME_front_end.c` and `.h`: the pieces of `machine/runtime/front_end` that the steps need, with their numbers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from atonc.compiler.emit.c.names import macro
from atonc.delivery.front_end.micro import MicroTables, micro_tables
from atonc.delivery.front_end.pipeline import Pipeline
from atonc.delivery.front_end.tables import Array, tables
from atonc.delivery.front_end.twin import steps_of
from atonc.machine.base.about import __version__, package_folder
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.templates import render

C_TYPES = {"int8": "int8_t", "uint8": "uint8_t", "int16": "int16_t", "float32": "float"}
_PUTS = {"int8": "fe_put_s8", "uint8": "fe_put_u8", "int16": "fe_put_s16", "float32": "fe_put_f32"}
_KINDS = {"float32": "float", "uint16": "uint16_t", "int16": "int16_t"}
_SWAP = "{ float *other = from; from = to; to = other; }"
_ROW = 8  # numbers in a line


@dataclass(frozen=True)
class Window:
    """What the network takes: how many frames, and whether they vary fastest (features x frames)."""

    frames: int = 1
    frames_inside: bool = False


ONE = Window()


def files(p: Pipeline, name: str, window: Window = ONE) -> dict[str, bytes]:
    """File name -> contents."""
    words: dict[str, Any] = {
        "name": name, "prefix": macro(name), "sense": _sense(p), "tool": f"atonc {__version__}",
        "rate": p.rate, "hop": p.frame.hop, "features": p.features, "frames": window.frames, "half": _n_fft(p) // 2,
        "mels": p.mel.count, "type": C_TYPES[p.codes.type], "scale": f"{p.codes.scale!r}", "zero": p.codes.zero_point,
        "kept": p.frame.length + 1 + -p.frame.length % 4, "buffer": _buffer(p),
        "order": "features, then frames" if window.frames_inside else "frames, then features",
        "history": window.frames > 1, "floats": not p.tflm.enabled, "integers": p.tflm.enabled,
    }  # fmt: skip
    source = {
        "numbers": [{"key": key, "value": value} for key, value in _numbers(p, window)],
        "constants": [{"key": key, "kind": _KINDS[str(a.dtype)], "values": values_text(a)} for key, a in _constants(p)],
        "parts": "\n".join(_part(part) for part in _parts(p)),
        "calls": [{"call": call} for call in _calls(p)],
        "stream": _part("stream.c").rstrip(),
    }
    return {
        f"{name}_front_end.h": render("front_end/front_end.h", words).encode(),
        f"{name}_front_end.c": render("front_end/front_end.c", {**words, **source}).encode(),
    }


def state_bytes(p: Pipeline, window: Window) -> int:
    """RAM: what `NAME_front_end_state` takes."""
    code = np.dtype(p.codes.type).itemsize
    kept = -(-(2 * (p.frame.length + 1 + -p.frame.length % 4)) // 4) * 4
    history = 8 + -(-window.frames * p.features * code // 4) * 4 if window.frames > 1 else 0
    integers = 4 * (_n_fft(p) // 2) + 4 * (_n_fft(p) // 2 + 1 + p.mel.count) if p.tflm.enabled else 0
    return kept + 8 + history + integers + 8 * _buffer(p)


def constant_bytes(p: Pipeline) -> int:
    """Flash: the tables, without the code."""
    return sum(one.nbytes for _, one in _constants(p))


def _sense(p: Pipeline) -> str:
    return f"front end {p.name}: samples at {p.rate} Hz, frames of {p.frame.length} every {p.frame.hop}"


def _n_fft(p: Pipeline) -> int:
    return micro_tables(p).n_fft if p.tflm.enabled else p.spectrum.n_fft


def _buffer(p: Pipeline) -> int:
    """Floats: both halves of a spectrum, each with room for one number more; or the features."""
    return max(0 if p.tflm.enabled else p.spectrum.n_fft + 8, p.values + 8)


@cache
def _part(name: str) -> str:
    return package_folder().joinpath("machine", "runtime", "front_end", name).read_text(encoding="utf-8")


def _parts(p: Pipeline) -> list[str]:
    found = ["lanes.h", *(part for step in steps_of(p) for part in step.parts), "codes.c"]
    return list(dict.fromkeys(found))


def last_stride(half: int) -> int:
    stride = 1
    while half // stride > 4:
        stride *= 4
    return stride


def _calls(p: Pipeline) -> Iterator[str]:
    for step in steps_of(p):
        if step.key in ("frame", "micro"):
            yield f"fe_{step.key}({'state' if step.key == 'micro' else 'state->kept'}, from)"
        elif step.in_place:
            yield f"fe_{step.key}(from)"
        else:
            yield f"fe_{step.key}(from, to)"
            passes = last_stride(p.spectrum.n_fft // 2).bit_length() // 2 + 1
            if step.key != "fft" or passes % 2:
                yield _SWAP


def _numbers(p: Pipeline, window: Window) -> Iterator[tuple[str, str]]:
    half, floats, coded = _n_fft(p) // 2, not p.tflm.enabled, p.codes.type != "float32"
    t = tables(p)
    yield from (
        ("FE_LENGTH", str(p.frame.length)),
        ("FE_HOP", str(p.frame.hop)),
        ("FE_FIRST", f"({p.first})"),
        ("FE_N_FFT", str(2 * half)),
        ("FE_MELS", str(p.mel.count)),
        ("FE_VALUES", str(p.values)),
        ("FE_FEATURES", f"{p.features}u"),
        ("FE_FRAMES", str(window.frames)),
        ("FE_FRAMES_INSIDE", str(int(window.frames_inside))),
        ("FE_QUANTISED", str(int(coded))),
        ("FE_PUT", _PUTS[p.codes.type]),
        ("FE_ZERO", str(p.codes.zero_point)),
    )
    if coded:
        yield from (("fe_steps", literal(t.steps)), ("FE_LOW", literal(t.low)), ("FE_HIGH", literal(t.high)))
    if floats:
        framed = p.frame.pre_emphasis > 0 and p.frame.pre_emphasis_over == "frame"
        yield from (
            ("FE_REMOVE_MEAN", str(int(p.frame.remove_mean))),
            ("FE_EMPHASIS", str(int(p.frame.pre_emphasis > 0))),
            ("FE_EMPHASIS_OF_FRAME", str(int(framed))),
            ("fe_emphasis", literal(t.emphasis)),
            ("FE_LAST_STRIDE", str(last_stride(half))),
            ("FE_LAST_OF_TWO", str(int(half // last_stride(half) == 2))),
            ("fe_factor", literal(t.factor)),
            ("FE_HAS_GUARD", str(int(p.log.guard > 0))),
            ("FE_HAS_FLOOR", str(int(p.log.floor > 0))),
            ("fe_guard", literal(t.guard)),
            ("fe_floor", literal(t.floor)),
            ("fe_log_factor", literal(t.log_factor)),
            ("FE_DCT_ROW", str(p.values + -p.values % 4)),
        )
    else:
        yield from _micro_numbers(p, micro_tables(p))


def _micro_numbers(p: Pipeline, t: MicroTables) -> Iterator[tuple[str, str]]:
    yield from (
        ("FE_LAST_OF_TWO", str(int(t.stages[0][0] == 2))),
        ("FE_PCAN", str(int(p.tflm.pcan))),
        ("FE_SMOOTHING_BITS", str(p.tflm.smoothing_bits)),
        ("FE_LEAST_SIGNAL", f"{t.least_signal}u"),
        ("FE_SNR_SHIFT", str(t.snr_shift)),
        ("FE_CORRECTION_BITS", f"({t.correction_bits})"),
        ("FE_LOG_SHIFT", str(p.tflm.log_shift)),
        ("FE_OUTPUT_SCALE", literal(np.float32(p.tflm.scale))),
    )


def _constants(p: Pipeline) -> Iterator[tuple[str, Array]]:
    t = tables(p)
    if p.normalise.mean or p.normalise.deviation:
        yield from (("fe_mean", t.mean), ("fe_inverse", t.inverse))
    if p.tflm.enabled:
        m = micro_tables(p)
        gains = [("fe_gains", m.gains)] if p.tflm.pcan else []
        yield from (
            *(("fe_window", m.window), ("fe_order", m.order), ("fe_twiddles", m.twiddles), ("fe_turns", m.turns)),
            *(("fe_starts", m.starts), ("fe_widths", m.widths), ("fe_weights", m.weights), ("fe_others", m.others)),
            *(("fe_smoothing", m.smoothing), *gains, ("fe_logs", m.logs)),
        )
        return
    yield from (("fe_window", t.window), ("fe_twiddles", t.twiddles), ("fe_turns", t.turns))
    if p.mel.count:
        yield from (("fe_mel_starts", t.mel_starts), ("fe_mel_fours", t.mel_fours), ("fe_mel_weights", t.mel_weights))
    if p.dct.count:
        yield "fe_cosines", t.cosines


def literal(value: Any) -> str:
    """A single in C: nine digits say which."""
    text = f"{float(value):.9g}"
    return f"{text}f" if any(mark in text for mark in ".en") else f"{text}.0f"


def values_text(values: Array) -> str:
    flat = values.reshape(-1)
    said = [literal(one) if values.dtype == np.float32 else str(one) for one in flat.tolist()]
    rows = [", ".join(said[k : k + _ROW]) for k in range(0, len(said), _ROW)]
    return ",\n    ".join(rows)
