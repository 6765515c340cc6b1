"""Listens for the wake word as the chip would: samples -> front end -> codes -> network with its states.

listen.py BUILD                   the clip: when the word was heard
listen.py BUILD --seconds 120     made sound that nobody has trained on
listen.py BUILD --c               also: the codes of the generated C code, compiled for this machine
listen.py BUILD --wrong           the same with front ends that are almost that of the training
listen.py BUILD --save FILE.npy   the codes of the clip, for `atonc run` and `atonc validate`
"""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import atonc
from examples.made_sounds import Samples, read_wav

HERE = Path(__file__).resolve().parent
FRAME_S, LAST_S = 0.02, 0.03  # hop and length of a frame
LOUD, QUIET = 0.7, 0.3  # heard at the one, ready again below the other
WRONG: dict[str, tuple[str, dict[str, Any]]] = {
    "as in training": ("log", {}),
    "log10 for ln": ("log", {"of": "log10"}),
    "samples not divided by 32768": ("spectrum", {"samples": "integer"}),
    "dB for ln": ("log", {"of": "dB"}),
    "mean and deviation left out": ("normalise", {"mean": (), "deviation": ()}),
    "magnitude for power": ("spectrum", {"of": "magnitude"}),
    "no window for hann": ("frame", {"window": "none"}),
    "mels of slaney for htk": ("mel", {"scale": "slaney"}),
}


def front_end_of(build: Path, section: str = "log", changed: dict[str, Any] | None = None) -> Any:
    """That of the training, with the codes of the network's input; or one that differs in `changed`."""
    declared = atonc.front_end(HERE / "front_end.toml")
    if changed:
        pipeline = declared.pipeline
        part = dataclasses.replace(getattr(pipeline, section), **changed)
        declared = dataclasses.replace(declared, pipeline=dataclasses.replace(pipeline, **{section: part}))
    taken = json.loads((build / "wake_word_program.json").read_text())["edges"]["inputs"][0]
    return declared.for_input(taken["dtype"], taken["scale"], taken["zero_point"])


def scores(session: Any, codes: NDArray[Any]) -> NDArray[np.float64]:
    """A score for every frame; a sound begins with a reset."""
    session.reset()
    found = session.run(codes.reshape(-1, 1, 1, 1, codes.shape[1]))["score"].reshape(-1)
    return (found.astype(np.float64) + 128) / 256


def heard(given: Sequence[float]) -> list[float]:
    """When, in seconds: the end of the frame."""
    found, ready = [], True
    for number, score in enumerate(given):
        if ready and score >= LOUD:
            found.append(number * FRAME_S + LAST_S)
        ready = score < LOUD if ready else score < QUIET
    return found


def hits(at: Sequence[float], ends: Sequence[float]) -> tuple[int, int]:
    """Words heard, from 0.2 s before their end (in the last syllable) to 0.4 s behind it; and false alarms."""
    near = [[k for k, end in enumerate(ends) if end - 0.2 <= time <= end + 0.4] for time in at]
    return len({k for found in near for k in found}), sum(not found for found in near)


def codes_of_c(build: Path, sound: Samples, features: int) -> NDArray[np.int8]:
    """The generated file as a library of this machine; samples come in pieces of 100."""
    with tempfile.TemporaryDirectory() as place:
        library = str(Path(place) / "front_end.so")
        flags = ("-O2", "-std=c99", "-shared", "-fPIC")
        subprocess.run(["cc", *flags, str(build / "wake_word_front_end.c"), "-o", library], check=True)
        code = ctypes.CDLL(library)
    state, room, found = ctypes.create_string_buffer(1 << 16), np.zeros((2, features), np.int8), []
    code.wake_word_front_end_reset(state)
    for at in range(0, len(sound), 100):
        piece = np.ascontiguousarray(sound[at : at + 100])
        places = (ctypes.c_void_p(array.ctypes.data) for array in (piece, room))
        made = code.wake_word_front_end_push(state, next(places), len(piece), next(places))
        found.append(room[:made].copy())
    return np.concatenate(found)


def judged(given: NDArray[np.float64], ends: Sequence[float]) -> str:
    right, wrong = hits(heard(given), ends)
    times = np.arange(len(given)) * FRAME_S + LAST_S
    highest = [given[(times >= end - 0.2) & (times <= end + 0.4)].max() for end in ends]
    return f"{right} of {len(ends)} words, {wrong} false alarms; score at words {np.mean(highest):.2f}"


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--c", action="store_true")
    parser.add_argument("--wrong", action="store_true")
    parser.add_argument("--save", type=Path)
    asked = parser.parse_args(words)
    sound, _ = read_wav(HERE / "clip.wav")
    ends = json.loads((HERE / "clip.json").read_text())["ends_s"]
    if asked.seconds:
        from examples.make_wake_word import clip

        sound, ends = clip(1, asked.seconds)
    session = atonc.load(asked.build, "wake_word").stream()
    codes = front_end_of(asked.build)(sound)
    if asked.save:
        np.save(asked.save, codes.reshape(-1, 1, 1, 1, codes.shape[1]))
    given = scores(session, codes)
    if not asked.seconds:
        print(f"the word ends at {', '.join(f'{end:.2f}' for end in ends)} s")
        print(f"heard at         {', '.join(f'{time:.2f}' for time in heard(given))} s")
    print(f"{len(codes)} frames: {judged(given, ends)}")
    if asked.c:
        equal = int((codes_of_c(asked.build, sound, codes.shape[1]) == codes).sum())
        print(f"codes of C and of Python: {equal} of {codes.size} equal")
    for title, (section, changed) in WRONG.items() if asked.wrong else ():
        given = scores(session, front_end_of(asked.build, section, changed)(sound))
        print(f"{title:38} {judged(given, ends)}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
