"""Cleans noisy.wav with a mask from the network, frame by frame, and says how much noise is left.

    denoise.py BUILD              codes of the emulated chip, and the float model where onnxruntime is installed
    denoise.py BUILD --save WAV   also writes what the chip would give

The transform back is the application's: here numpy, on the chip an inverse FFT of its DSP library.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import atonc
from examples.made_sounds import Samples, read_wav, samples, write_wav
from examples.make_denoiser import CELLS, RATE, snr_db, sound_of, spectra

HERE = Path(__file__).resolve().parent
Array = NDArray[Any]
EDGES = {"inputs": "features", "outputs": "mask"}


def masks_of_chip(build: Path, sound: Samples, session: Any = None) -> Array:
    """With the codes that the network takes, and the states that it keeps."""
    edges = json.loads((build / "denoiser_program.json").read_text())["edges"]
    taken, given = (next(one for one in edges[side] if one["name"] == name) for side, name in EDGES.items())
    kind = (taken["dtype"], taken.get("scale", 1.0), taken.get("zero_point", 0))
    front_end = atonc.front_end(HERE / "front_end.toml").for_input(*kind)
    codes = front_end(sound)
    session = session or atonc.load(build, "denoiser").stream()
    found = session.run(codes.reshape(len(codes), *taken["shape"]))["mask"].reshape(codes.shape)
    return found if given["dtype"] == "float32" else (found.astype(float) - given["zero_point"]) * given["scale"]


def masks_in_float(sound: Samples) -> Array:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(HERE / "denoiser.onnx"))
    state, found = np.zeros((1, 1, CELLS), np.float32), []
    for frame in atonc.front_end(HERE / "front_end.toml").features(sound):
        mask, state = session.run(["mask", "state_out"], {"features": frame[None, None], "state_in": state})
        found.append(mask[0])
    return np.stack(found)


def cleaned(sound: Samples, masks: Array) -> NDArray[np.float64]:
    return sound_of(spectra(sound) * masks)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--save", type=Path)
    asked = parser.parse_args(words)
    (noisy, _), (clean, _) = (read_wav(HERE / f"{name}.wav") for name in ("noisy", "clean"))
    ways = {"as recorded": np.ones_like(spectra(noisy).real)}
    try:
        ways["float model"] = masks_in_float(noisy)
    except ImportError:
        print("float model: onnxruntime is not installed")
    ways["emulated chip"] = masks_of_chip(asked.build, noisy)
    for title, masks in ways.items():
        print(f"{title:14} {snr_db(cleaned(noisy, masks), clean):6.2f} dB")
    if asked.save:
        write_wav(asked.save, samples(cleaned(noisy, ways["emulated chip"])), RATE)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
