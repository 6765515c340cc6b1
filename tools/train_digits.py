"""Trains the demo network on the digits that ship with scikit-learn, quantises it and writes examples/digits.

Needs scikit-learn, flatbuffers and tflite besides numpy; no network. Run from anywhere: python tools/train_digits.py

    8x8x1 -> conv 3x3 relu -> conv 3x3 relu -+-> max pool 2x2 -> conv 3x3 relu -> mean -> dense -> softmax
                  '------------- add --------'
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "frontends"))

from tflite_models import O, T, build  # noqa: E402

Array = NDArray[Any]
Weights = dict[str, Array]

EPOCHS, BATCH, RATE, SEED, TEST_IMAGES = 40, 32, 2e-3, 7, 100
CONVS = {"conv1": (16, 1), "conv2": (16, 16), "conv3": (32, 16)}


# ------------------------------------------------------------------------------------------------------------ layers


def columns(x: Array) -> Array:
    """[n, h, w, c] -> the 3x3 neighbourhood of every pixel, [n, h, w, 9 c]."""
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    h, w = x.shape[1:3]
    return np.concatenate([padded[:, i : i + h, j : j + w] for i in range(3) for j in range(3)], axis=3)


def scatter(gradient: Array, channels: int) -> Array:
    """The transpose of `columns`."""
    n, h, w, _ = gradient.shape
    padded = np.zeros((n, h + 2, w + 2, channels), np.float32)
    for k in range(9):
        i, j = divmod(k, 3)
        padded[:, i : i + h, j : j + w] += gradient[..., k * channels : (k + 1) * channels]
    return padded[:, 1:-1, 1:-1]


def forward(x: Array, p: Weights) -> dict[str, Array]:
    v = {"x": x}
    v["cols1"] = columns(x)
    v["conv1"] = np.maximum(v["cols1"] @ p["conv1"] + p["conv1_bias"], 0)
    v["cols2"] = columns(v["conv1"])
    v["conv2"] = np.maximum(v["cols2"] @ p["conv2"] + p["conv2_bias"], 0)
    v["add"] = v["conv1"] + v["conv2"]
    v["blocks"] = v["add"].reshape(-1, 4, 2, 4, 2, 16).transpose(0, 1, 3, 5, 2, 4).reshape(-1, 4, 4, 16, 4)
    v["pool"] = v["blocks"].max(axis=4)
    v["cols3"] = columns(v["pool"])
    v["conv3"] = np.maximum(v["cols3"] @ p["conv3"] + p["conv3_bias"], 0)
    v["mean"] = v["conv3"].mean(axis=(1, 2))
    v["dense"] = v["mean"] @ p["dense"] + p["dense_bias"]
    return v


def backward(v: dict[str, Array], p: Weights, labels: Array) -> Weights:
    n = labels.size
    e = np.exp(v["dense"] - v["dense"].max(axis=1, keepdims=True))
    error = e / e.sum(axis=1, keepdims=True)
    error[np.arange(n), labels] -= 1
    error /= n
    g = {"dense": v["mean"].T @ error, "dense_bias": error.sum(axis=0)}
    d = np.broadcast_to((error @ p["dense"].T)[:, None, None] / 16, v["conv3"].shape) * (v["conv3"] > 0)
    d = _conv_gradients(g, "conv3", v["cols3"], d, p)
    winners = v["blocks"] == v["pool"][..., None]
    spread = d[..., None] * winners / winners.sum(axis=4, keepdims=True)
    d = spread.reshape(-1, 4, 4, 16, 2, 2).transpose(0, 1, 4, 2, 5, 3).reshape(v["add"].shape)
    through = _conv_gradients(g, "conv2", v["cols2"], d * (v["conv2"] > 0), p)
    _conv_gradients(g, "conv1", v["cols1"], (d + through) * (v["conv1"] > 0), p)
    return g


def _conv_gradients(g: Weights, name: str, cols: Array, d: Array, p: Weights) -> Array:
    g[name] = cols.reshape(-1, cols.shape[3]).T @ d.reshape(-1, d.shape[3])
    g[f"{name}_bias"] = d.sum(axis=(0, 1, 2))
    return scatter(d @ p[name].T, CONVS[name][1])


# ---------------------------------------------------------------------------------------------------------- training


def start(rng: np.random.Generator) -> Weights:
    p: Weights = {}
    for name, (outputs, inputs) in CONVS.items():
        p[name] = rng.normal(0, np.sqrt(2 / (9 * inputs)), (9 * inputs, outputs)).astype(np.float32)
        p[f"{name}_bias"] = np.zeros(outputs, np.float32)
    p["dense"] = rng.normal(0, np.sqrt(1 / 32), (32, 10)).astype(np.float32)
    p["dense_bias"] = np.zeros(10, np.float32)
    return p


def train(images: Array, labels: Array, rng: np.random.Generator) -> Weights:
    """Adam with a falling rate; pictures are shifted by up to one pixel."""
    p = start(rng)
    first, second = ({k: np.zeros_like(w) for k, w in p.items()} for _ in range(2))
    step, steps = 0, EPOCHS * (len(images) // BATCH)
    for epoch in range(EPOCHS):
        order = rng.permutation(len(images))
        for k in range(0, len(images) - BATCH + 1, BATCH):
            chosen = order[k : k + BATCH]
            shift = rng.integers(-1, 2, 2) * (rng.random() < 0.5)
            g = backward(forward(np.roll(images[chosen], shift, axis=(1, 2)), p), p, labels[chosen])
            step += 1
            rate = RATE * 0.5 * (1 + np.cos(np.pi * step / steps)) * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
            for name in p:
                first[name] += 0.1 * (g[name] - first[name])
                second[name] += 0.001 * (np.square(g[name]) - second[name])
                p[name] -= (rate * first[name] / (np.sqrt(second[name]) + 1e-8)).astype(np.float32)
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1}: {accuracy(images, labels, p):.2%} of the training images")
    return p


def accuracy(images: Array, labels: Array, p: Weights) -> float:
    return float(np.mean(forward(images, p)["dense"].argmax(axis=1) == labels))


# ------------------------------------------------------------------------------------------------------- quantisation


def activation(name: str, shape: tuple[int, ...], values: Array) -> T:
    """int8 over the range that the training images reach; zero is a code."""
    low, high = min(0.0, float(values.min())), max(0.0, float(values.max()))
    scale = (high - low) / 255
    return T(name, shape, scale=scale, zero=int(np.clip(round(-128 - low / scale), -128, 127)))


def weighted(name: str, weights: Array, bias: Array, source: T, per_channel: bool = True) -> list[T]:
    """Weights [out, ...] symmetric, per output channel; bias in steps of the accumulator."""
    rows = np.abs(weights.reshape(len(weights), -1)).max(axis=1)
    scales = (rows if per_channel else rows.max(keepdims=True)) / 127
    codes = np.rint(weights / scales.reshape(-1, *[1] * (weights.ndim - 1))).astype(np.int8)
    steps = scales * source.scale
    return [
        T(f"{name}_weights", weights.shape, scale=scales, data=codes),
        T(f"{name}_bias", bias.shape, "int32", steps, data=np.rint(bias / steps).astype(np.int32)),
    ]


def quantise(images: Array, p: Weights) -> bytes:
    v = forward(images, p)
    x = T("image", (1, 8, 8, 1), scale=1 / 255, zero=-128)
    conv1, conv2 = (activation(n, (1, 8, 8, 16), v[n]) for n in ("conv1", "conv2"))
    total = activation("add", (1, 8, 8, 16), v["add"])
    pool = T("pool", (1, 4, 4, 16), scale=total.scale, zero=total.zero)
    conv3, mean = activation("conv3", (1, 4, 4, 32), v["conv3"]), activation("mean", (1, 32), v["mean"])
    dense = activation("dense", (1, 10), v["dense"])
    probabilities = T("probabilities", (1, 10), scale=1 / 256, zero=-128)

    def conv(name: str, source: T) -> list[T]:
        outputs, inputs = CONVS[name]
        kernel = p[name].reshape(3, 3, inputs, outputs).transpose(3, 0, 1, 2)
        return weighted(name, kernel, p[f"{name}_bias"], source)

    tensors = [x, *conv("conv1", x), conv1, *conv("conv2", conv1), conv2, total, pool, *conv("conv3", pool), conv3]
    tensors += [T("axes", (2,), "int32", data=[1, 2]), mean]
    tensors += [*weighted("dense", p["dense"].T, p["dense_bias"], mean, per_channel=False), dense, probabilities]
    relu: dict[int, tuple[str, Any]] = {1: ("i", 1), 2: ("i", 1), 3: ("b", 1), 4: ("i", 1), 5: ("i", 1)}
    window: dict[int, tuple[str, Any]] = {k: ("i", 2) for k in (1, 2, 3, 4)}
    ops = [
        O("CONV_2D", ["image", "conv1_weights", "conv1_bias"], ["conv1"], "Conv2DOptions", relu),
        O("CONV_2D", ["conv1", "conv2_weights", "conv2_bias"], ["conv2"], "Conv2DOptions", relu),
        O("ADD", ["conv1", "conv2"], ["add"], "AddOptions"),
        O("MAX_POOL_2D", ["add"], ["pool"], "Pool2DOptions", window),
        O("CONV_2D", ["pool", "conv3_weights", "conv3_bias"], ["conv3"], "Conv2DOptions", relu),
        O("MEAN", ["conv3", "axes"], ["mean"], "ReducerOptions"),
        O("FULLY_CONNECTED", ["mean", "dense_weights", "dense_bias"], ["dense"], "FullyConnectedOptions"),
        O("SOFTMAX", ["dense"], ["probabilities"], "SoftmaxOptions", {0: ("f", 1.0)}),
    ]
    return build(tensors, ops, ["image"], ["probabilities"])


def main() -> None:
    from sklearn.datasets import load_digits

    data = load_digits()
    images = (data.images[..., None] / 16).astype(np.float32)
    labels = data.target.astype(np.int64)
    rng = np.random.default_rng(SEED)
    order = rng.permutation(len(images))
    test, rest = order[:TEST_IMAGES], order[TEST_IMAGES:]
    p = train(images[rest], labels[rest], rng)
    folder = ROOT / "examples" / "digits"
    (folder / "digits.tflite").write_bytes(quantise(images[rest], p))
    codes = np.clip(np.rint(images[test] * 255) - 128, -128, 127).astype(np.int8)
    np.savez_compressed(folder / "test.npz", image=codes, labels=labels[test].astype(np.uint8))
    print(f"float model: {accuracy(images[test], labels[test], p):.2%} of {TEST_IMAGES} test images")


if __name__ == "__main__":
    main()
