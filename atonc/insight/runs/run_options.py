"""What the user may ask of `atonc run`: every option once."""

from __future__ import annotations

from pathlib import Path

from atonc.compiler.request.options import Options, frames, positive, whole
from atonc.machine.base.declare import AGAIN, PLAIN, Takes, again, option
from atonc.machine.base.frozen import dataclass

_COMPARE = "--output file or --dump folder; exit 1 if unequal"


@dataclass(frozen=True)
class RunOptions:
    """A compiled network and what to do with it; flags of the command line with their help, in their order."""

    directory: Path
    name: str | None = option(None, "-n --name", PLAIN, "which network, when the folder holds several")
    weights: tuple[Path, ...] = option(
        (), "--weights", PLAIN, ".raw, .bin or .hex", metavar="FILE", parse=Path, takes=Takes(many=AGAIN)
    )
    blobs: Path | None = option(
        None, "--blobs", PLAIN, "the *_ecblobs.h, if it is not beside the C file", metavar="FILE", parse=Path
    )
    inputs: tuple[Path, ...] = option(
        (), "--input", PLAIN, ".npz, .npy, .png, .jpg", metavar="FILE", parse=Path, takes=Takes(many=AGAIN)
    )
    seed: int = option(0, "--seed", PLAIN, "synthetic input from this seed (default 0)", parse=whole)
    frames: int = option(
        0, "--frames", PLAIN, "networks with states: frames of a synthetic sequence", metavar="N", parse=frames
    )
    hop: float = option(
        0.0, "--hop", PLAIN, "milliseconds from frame to frame, for the real-time factor", metavar="MS", parse=positive
    )
    output: Path | None = option(None, "--output", PLAIN, "write the outputs", metavar="FILE.npz", parse=Path)
    save_input: Path | None = option(
        None, "--save-input", PLAIN, "write the inputs that were used", metavar="FILE.npz", parse=Path
    )
    until: int | None = option(None, "--until", PLAIN, "stop after epoch E", metavar="E", parse=int)
    dump: Path | None = option(
        None, "--dump", PLAIN, "write every buffer after the epoch that wrote it", metavar="DIR", parse=Path
    )
    compare: Path | None = option(None, "--compare", PLAIN, _COMPARE, metavar="REF", parse=Path)
    layers: Path | None = option(
        None, "--layers", PLAIN, "compare each layer with exact arithmetic", metavar="MODEL", parse=Path
    )
    custom: str = again(Options, "custom", PLAIN)
    check: bool = option(True, "--no-check", PLAIN, "skip the safety rules")
    observe: bool = False  # keep every buffer as the epoch that wrote it left it
