"""Makes examples/wake_word: sound, a front end, a streaming network trained on both, a test clip.

    python examples/make_wake_word.py            trains (minutes) and writes examples/wake_word
    python examples/make_wake_word.py --check    trains nothing: clip and form of the network are what is said here

The word is ui-a-u of a made voice, among other words and noise. Needs flatbuffers and tflite besides numpy.

    32 features -> convolution over 5 frames, ReLU -> 3 x (depthwise over 9, 13, 17 frames, 1x1, ReLU) -> score

Every convolution over frames keeps the frames before in a variable of the file, as microWakeWord and kws_streaming do.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import atonc
from examples.made_sounds import SYLLABLES, Samples, adam, noise, read_wav, same_sound, samples, word, write_wav
from tests.frontends.tflite_models import O, T, build

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "examples" / "wake_word"
Array = NDArray[np.float32]
Weights = dict[str, Any]

RATE, HOP, FEATURES, CHANNELS = 16000, 320, 32, 24
WORD = ("ui", "a", "u")
REACH = {"conv": 5, "one": 9, "two": 13, "three": 17}  # frames
BLOCKS = ("one", "two", "three")
CLIPS, SECONDS, STEPS, BATCH, SEED = 1000, 2.4, 800, 24, 46
HEARD = (-0.06, 0.16)  # s from the end of the word: there the score shall be 1
FRONT_END = """# The front end of wake_word.tflite, as it was trained: written by make_wake_word.py.
name = "wake_word"
rate = 16000

[frame] # 30 ms every 20 ms
length = 480
hop = 320
window = "hann"

[spectrum]
n_fft = 512
of = "power"

[mel]
count = 32
scale = "htk"
norm = "none"
fmin = 80.0
fmax = 7600.0

[log]
of = "ln"
guard = 1e-3

[normalise] # of the training sounds
"""

# ------------------------------------------------------------------------------------------------------------- sound


def other_word(rng: np.random.Generator) -> tuple[str, ...]:
    """Another word of the same syllables, mostly a near miss."""
    found = WORD
    while found == WORD:
        kind = rng.integers(4)
        if kind == 0:  # one syllable is another
            at = rng.integers(3)
            found = tuple(str(rng.choice(list(SYLLABLES))) if k == at else WORD[k] for k in range(3))
        elif kind == 1:  # another order
            found = tuple(WORD[k] for k in rng.permutation(3))
        elif kind == 2:  # a part
            found = WORD[:2] if rng.random() < 0.5 else WORD[1:]
        else:
            found = tuple(str(name) for name in rng.choice(list(SYLLABLES), rng.integers(1, 4)))
    return found


def speech(rng: np.random.Generator, seconds: float, often: float) -> tuple[Samples, list[float]]:
    """Words in noise, and when the wake word ends, in seconds. `often`: share of the words that are it."""
    count = int(seconds * RATE)
    made, ends, at = np.zeros(count), [], int(rng.uniform(0.1, 0.5) * RATE)
    while True:
        names = WORD if rng.random() < often else other_word(rng)
        said = word(rng, names, RATE)
        if at + len(said) + RATE // 5 > count:
            break
        made[at : at + len(said)] += said
        if names == WORD:
            ends.append((at + len(said)) / RATE)
        at += len(said) + int(rng.uniform(0.25, 0.8) * RATE)
    level = rng.uniform(0.08, 0.5)
    quieter = 10 ** (-rng.uniform(8, 28) / 20)
    return samples(level * (made + 0.25 * quieter * noise(rng, count, RATE))), ends


def clip(seed: int = 255, seconds: float = 7.0) -> tuple[Samples, list[float]]:
    """For tests: drawn apart from what is trained on. That of seed 255 shows what another front end does."""
    return speech(np.random.default_rng([SEED, seed]), seconds, 0.45)


# ---------------------------------------------------------------------------------------------------------- training


def targets(frames: int, ends: list[float]) -> tuple[Array, Array]:
    """What the score shall be in every frame, and how much it counts; nobody asks shortly before and after."""
    times = (np.arange(frames) * HOP + 480) / RATE  # where a frame ends
    wanted, weight = np.zeros(frames, np.float32), np.ones(frames, np.float32)
    for end in ends:
        inside = (times >= end + HEARD[0]) & (times <= end + HEARD[1])
        near = (times >= end + HEARD[0] - 0.08) & (times <= end + HEARD[1] + 0.2)
        wanted[inside], weight[near & ~inside], weight[inside] = 1, 0, 4
    return wanted, weight


def before(x: Array, reach: int) -> Array:
    return np.pad(x, ((0, 0), (reach - 1, 0), (0, 0)))


def forward(x: Array, p: Weights) -> dict[str, Array]:
    """Whole clips [n, frames, features]: what the streaming network gives frame by frame."""
    frames = x.shape[1]
    v = {"features": x}
    line = before(x, REACH["conv"])
    total = sum(line[:, k : k + frames] @ p["conv"][k] for k in range(REACH["conv"]))
    v["conv"] = y = np.maximum(total + p["conv_bias"], 0)
    for name in BLOCKS:
        line = before(y, REACH[name])
        v[f"{name}_over"] = sum(line[:, k : k + frames] * p[f"{name}_over"][k] for k in range(REACH[name]))
        v[f"{name}_over"] += p[f"{name}_over_bias"]
        v[name] = y = np.maximum(v[f"{name}_over"] @ p[name] + p[f"{name}_bias"], 0)
    v["logit"] = y @ p["logit"] + p["logit_bias"]
    return v


def sigmoid(x: Array) -> Array:
    return 0.5 + 0.5 * np.tanh(x / 2)


def backward(v: dict[str, Array], p: Weights, wanted: Array, weight: Array) -> Weights:
    n, frames = wanted.shape
    score = sigmoid(v["logit"][..., 0])
    d = ((score - wanted) * weight / (n * frames))[..., None]
    g = {"logit": _product(v["three"], d), "logit_bias": d.sum((0, 1))}
    d = d @ p["logit"].T
    sources = ("conv", *BLOCKS)
    for name, source in zip(BLOCKS[::-1], sources[-2::-1], strict=True):
        d = d * (v[name] > 0)
        g[name], g[f"{name}_bias"] = _product(v[f"{name}_over"], d), d.sum((0, 1))
        d = d @ p[name].T
        line, back = before(v[source], REACH[name]), np.zeros_like(before(v[source], REACH[name]))
        g[f"{name}_over"] = np.stack([(line[:, k : k + frames] * d).sum((0, 1)) for k in range(REACH[name])])
        g[f"{name}_over_bias"] = d.sum((0, 1))
        for k in range(REACH[name]):
            back[:, k : k + frames] += d * p[f"{name}_over"][k]
        d = back[:, REACH[name] - 1 :]
    d = d * (v["conv"] > 0)
    line = before(v["features"], REACH["conv"])
    g["conv"] = np.stack([_product(line[:, k : k + frames], d) for k in range(REACH["conv"])])
    g["conv_bias"] = d.sum((0, 1))
    return g


def _product(x: Array, d: Array) -> Array:
    return x.reshape(-1, x.shape[2]).T @ d.reshape(-1, d.shape[2])


def start(rng: np.random.Generator) -> Weights:
    def drawn(fan: int, *shape: int) -> Array:
        return rng.normal(0, np.sqrt(2 / fan), shape).astype(np.float32)

    p = {"conv": drawn(5 * FEATURES, 5, FEATURES, CHANNELS), "logit": drawn(CHANNELS, CHANNELS, 1)}
    for name in BLOCKS:
        p |= {f"{name}_over": drawn(2 * REACH[name], REACH[name], CHANNELS), name: drawn(CHANNELS, CHANNELS, CHANNELS)}
        p[f"{name}_over_bias"] = np.zeros(CHANNELS, np.float32)
    for name in ("conv", *BLOCKS, "logit"):
        p[f"{name}_bias"] = np.zeros(1 if name == "logit" else CHANNELS, np.float32)
    p["logit_bias"] -= 2
    return p


def train(x: Array, wanted: Array, weight: Array, rng: np.random.Generator) -> Weights:
    p = start(rng)
    kept: dict[str, Any] = {}
    for step in range(1, STEPS + 1):
        some = rng.integers(len(x), size=BATCH)
        moved = x[some] + rng.normal(0, 0.1, (BATCH, 1, FEATURES)).astype(np.float32)
        v = forward(moved, p)
        adam(p, backward(v, p, wanted[some], weight[some]), kept, step, 3e-3 * 0.5 * (1 + np.cos(np.pi * step / STEPS)))
        if step % 100 == 0:
            right = ((v["logit"][..., 0] > 0) == (wanted[some] > 0.5)) | (weight[some] == 0)
            print(f"step {step}: {right.mean():.2%} of the frames", flush=True)
    return p


# ------------------------------------------------------------------------------------------------------ quantisation


def activation(name: str, shape: tuple[int, ...], values: Array) -> T:
    """int8 over the range of the training sounds; zero is a code."""
    low, high = min(0.0, float(values.min())), max(0.0, float(values.max()))
    scale = (high - low) / 255
    return T(name, shape, scale=scale, zero=int(np.clip(round(-128 - low / scale), -128, 127)))


def weighted(name: str, weights: Array, bias: Array, source: T, axis: int = 0) -> list[T]:
    """Weights symmetric with a scale for each channel (`axis`); bias in steps of the accumulator."""
    others = tuple(k for k in range(weights.ndim) if k != axis)
    scales = np.maximum(np.abs(weights).max(axis=others), 1e-6) / 127
    codes = np.rint(weights / np.expand_dims(scales, others)).astype(np.int8)
    steps = scales * source.scale
    return [
        T(f"{name}_weights", weights.shape, scale=scales, data=codes, axis=axis),
        T(f"{name}_bias", bias.shape, "int32", steps, data=np.rint(bias / steps).astype(np.int32)),
    ]


class Network:
    """The TFLite file, layer by layer."""

    def __init__(self, values: dict[str, Array], p: Weights) -> None:
        self.values, self.p = values, p
        self.tensors = [T(*given) for given in (("begin", (4,), "int32"), ("strides", (4,), "int32"))]
        self.tensors[0].data, self.tensors[1].data = [0, 1, 0, 0], [1, 1, 1, 1]
        self.ops = [O("CALL_ONCE", [], [], "CallOnceOptions", {0: ("i", 1)})]
        self.first: tuple[list[T], list[O]] = ([], [])

    def add(self, *tensors: T) -> T:
        self.tensors += tensors
        return tensors[-1]

    def line(self, source: T, reach: int) -> T:
        """The frames before, which a variable keeps, and this one."""
        name, channels = source.name, source.shape[3]
        same = {"scale": source.scale, "zero": source.zero}
        kept = (1, reach - 1, 1, channels)
        self.add(T(f"{name}_line", (), "resource"), T(f"{name}_before", kept, **same), T(f"{name}_next", kept, **same))
        self.add(T(f"{name}_end", (4,), "int32", data=[1, reach, 1, channels]))
        whole = self.add(T(f"{name}_all", (1, reach, 1, channels), **same))
        cut = [whole.name, "begin", f"{name}_end", "strides"]
        self.ops += [
            handle(name),
            O("READ_VARIABLE", [f"{name}_line"], [f"{name}_before"]),
            O("CONCATENATION", [f"{name}_before", name], [whole.name], "ConcatenationOptions", {0: ("i", 1)}),
            O("STRIDED_SLICE", cut, [f"{name}_next"], "StridedSliceOptions", {1: ("i", 15)}),
            O("ASSIGN_VARIABLE", [f"{name}_line", f"{name}_next"], []),
        ]
        start = np.full(kept, source.zero)
        self.first[0].extend([T(f"{name}_line", (), "resource"), T(f"{name}_first", kept, data=start, **same)])
        self.first[1].extend([handle(name), O("ASSIGN_VARIABLE", [f"{name}_line", f"{name}_first"], [])])
        return whole

    def conv(self, name: str, source: T, weights: Array, relu: bool = True) -> T:
        """`weights`: [frames, in, out]."""
        kernel = weights.transpose(2, 0, 1)[:, :, None, :]
        stored = weighted(name, kernel, self.p[f"{name}_bias"], source)
        made = self.add(*stored, activation(name, (1, 1, 1, weights.shape[2]), self.values[name]))
        fields: dict[int, tuple[str, Any]] = {0: ("b", 1), 1: ("i", 1), 2: ("i", 1), 3: ("b", int(relu))}
        self.ops.append(O("CONV_2D", [source.name, *(t.name for t in stored)], [name], "Conv2DOptions", fields))
        return made

    def depthwise(self, name: str, source: T) -> T:
        kernel = self.p[name][None, :, None, :]
        stored = weighted(name, kernel, self.p[f"{name}_bias"], source, axis=3)
        made = self.add(*stored, activation(name, (1, 1, 1, CHANNELS), self.values[name]))
        fields: dict[int, tuple[str, Any]] = {0: ("b", 1), 1: ("i", 1), 2: ("i", 1), 3: ("i", 1)}
        inputs = [source.name, *(t.name for t in stored)]
        self.ops.append(O("DEPTHWISE_CONV_2D", inputs, [name], "DepthwiseConv2DOptions", fields))
        return made

    def content(self) -> bytes:
        y = self.add(activation("features", (1, 1, 1, FEATURES), self.values["features"]))
        y = self.conv("conv", self.line(y, REACH["conv"]), self.p["conv"])
        for name in BLOCKS:
            y = self.depthwise(f"{name}_over", self.line(y, REACH[name]))
            y = self.conv(name, y, self.p[name][None])
        self.conv("logit", y, self.p["logit"][None], relu=False)
        self.add(T("score", (1, 1, 1, 1), scale=1 / 256, zero=-128))
        self.ops.append(O("LOGISTIC", ["logit"], ["score"]))
        return build(self.tensors, self.ops, ["features"], ["score"], self.first)


def handle(name: str) -> O:
    return O("VAR_HANDLE", [], [f"{name}_line"], "VarHandleOptions", {0: ("s", ""), 1: ("s", f"{name}_line")})


# ------------------------------------------------------------------------------------------------------------- files


def with_constants(found: dict[str, list[float]]) -> str:
    rows = []
    for name, values in found.items():
        said = [f"{value:.4f}" for value in values]
        rows.append(f"{name} = [\n" + "".join(f"  {', '.join(said[k : k + 8])},\n" for k in range(0, 32, 8)) + "]\n")
    return FRONT_END + "".join(rows)


def write_clip() -> None:
    made, ends = clip()
    write_wav(FOLDER / "clip.wav", made, RATE)
    (FOLDER / "clip.json").write_text(json.dumps({"word": "-".join(WORD), "ends_s": np.round(ends, 3).tolist()}) + "\n")


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    rng = np.random.default_rng(SEED)
    sounds = [speech(rng, SECONDS, 0.4) for _ in range(CLIPS)]
    plain = FOLDER / "front_end.toml"
    plain.write_text(FRONT_END)
    plain.write_text(with_constants(atonc.front_end(plain).measured([sound for sound, _ in sounds])))
    front_end = atonc.front_end(plain)
    x = np.stack([front_end.features(sound) for sound, _ in sounds])
    wanted, weight = (np.stack(one) for one in zip(*(targets(x.shape[1], ends) for _, ends in sounds), strict=True))
    p = train(x, wanted, weight, rng)
    (FOLDER / "wake_word.tflite").write_bytes(Network(forward(x[:200], p), p).content())
    write_clip()


def form(content: bytes) -> Any:
    """Operators and shapes, without weights and scales."""
    from atonc.compiler.frontends.tflite import read_tflite

    graph = read_tflite(content)
    return [(op.kind, [graph.tensors[name].shape for name in (*op.inputs, *op.outputs)]) for op in graph.ops]


def check() -> None:
    made, ends = clip()
    kept = json.loads((FOLDER / "clip.json").read_text())
    assert same_sound(made, read_wav(FOLDER / "clip.wav")[0]), "clip.wav is not what this script makes"
    assert np.allclose(kept["ends_s"], ends, atol=1e-3), "clip.json is not what this script makes"
    p = start(np.random.default_rng(0))
    sound = np.zeros((1, 60, FEATURES), np.float32) + np.linspace(-2, 2, 60, dtype=np.float32)[:, None]
    untrained = Network(forward(sound, p), p).content()
    same = form(untrained) == form((FOLDER / "wake_word.tflite").read_bytes())
    assert same, "wake_word.tflite has another form than this script says"
    assert (FOLDER / "front_end.toml").read_text().startswith(FRONT_END), "front_end.toml says something else"
    print("examples/wake_word is what this script makes")


if __name__ == "__main__":
    check() if sys.argv[1:] == ["--check"] else main()
