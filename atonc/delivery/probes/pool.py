"""Questions about POOL."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from atonc.compiler.lower.units.pool import global_unit, windows_unit
from atonc.compiler.plan.streams import Area, contiguous, engine
from atonc.delivery.probes.bench import ProbeBuilder
from atonc.delivery.probes.types import INPUT, OUTPUT, Probe, ProbeEpochs

_SIDE = 10


def _global_average(out_width: int, out_height: int) -> ProbeEpochs:
    """Means of a frame of eight channels, with 8 fractional bits."""
    bench = ProbeBuilder(_SIDE * _SIDE * 8, 16)
    unit = replace(global_unit(_SIDE, _SIDE, 8, _SIDE * _SIDE), out_width=out_width, out_height=out_height)
    b = bench.epoch("global average")
    means = b.unit(unit, b.read(INPUT, contiguous(_SIDE * _SIDE * 8)))
    b.write(means, OUTPUT, engine(Area(1, 1, 8, 16, 16, 0, 2), write=True))
    bench.add(b)
    return bench.done()


def _maximum(batch: int, height: int = _SIDE, width: int = _SIDE) -> ProbeEpochs:
    """3x3 windows."""
    unit = windows_unit(height, width, batch, 3, 1)
    out = unit.out_height * unit.out_width * batch
    bench = ProbeBuilder(height * width * batch, out)
    b = bench.epoch("maximum")
    largest = b.unit(unit, b.read(INPUT, contiguous(height * width * batch)))
    b.write(largest, OUTPUT, contiguous(out, write=True))
    bench.add(b)
    return bench.done()


PROBES = (
    Probe(
        "control-global-average",
        "a global average whose OUTDIMS are the input's size + 1",
        "all published global averages",
        partial(_global_average, _SIDE + 1, _SIDE + 1),
    ),
    Probe(
        "global-average-outdims-1",
        "a global average whose OUTDIMS are 1 x 1",
        "published ones write the input's size + 1",
        partial(_global_average, 1, 1),
        "control-global-average",
    ),
    Probe(
        "control-max-pool-3x3",
        "maxima of 3x3 windows, one channel at a time",
        "all 127 published ones",
        partial(_maximum, 1),
    ),
    Probe(
        "max-pool-3x3-batch-8",
        "maxima of 3x3 windows, 8 channels at a time",
        "published 3x3 maxima take one channel at a time; those of 2x2 take 8",
        partial(_maximum, 8),
        "control-max-pool-3x3",
    ),
    *(
        Probe(
            f"max-pool-3x3-{height}x{width}",
            f"maxima of 3x3 windows over frames of {height}x{width}, one channel at a time",
            "published 3x3 frames are smaller; those of 2x2 go up to 224x224, and 3x3 keeps one line more",
            partial(_maximum, 1, height, width),
            "control-max-pool-3x3",
            argument="S3",
        )
        for height, width in ((10, 224), (224, 10), (112, 112))
    ),
)
