"""Makes examples/denoiser: noisy speech of a made voice, a front end, a GRU that learnt a mask on it, and a test clip.

    python examples/make_denoiser.py             trains (minutes) and writes examples/denoiser
    python examples/make_denoiser.py --frames F  writes frames for `atonc quantize --data`: F, an .npz file
    python examples/make_denoiser.py --check     trains nothing: clips and form of the network are what is said here

    129 log powers of a frame, state -> GRU of 32 -> dense, sigmoid -> mask of 129, state

Needs onnx besides numpy.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import atonc
from examples.made_sounds import SYLLABLES, Samples, adam, noise, read_wav, same_sound, samples, word, write_wav

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "examples" / "denoiser"
Array = NDArray[np.float32]
Weights = dict[str, Any]

RATE, LENGTH, HOP, BINS, CELLS = 8000, 256, 128, 129, 32
CLIPS, SECONDS, STEPS, BATCH, SEED = 600, 2.0, 1500, 24, 47
WINDOW = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(LENGTH) / LENGTH)  # halves that overlap sum to 1
FRONT_END = """# The front end of denoiser.onnx, as it was trained: written by make_denoiser.py.
name = "denoiser"
rate = 8000

[frame] # 32 ms every 16 ms
length = 256
hop = 128
window = "hann"

[spectrum]
n_fft = 256
of = "power"

[mel]
count = 0 # the 129 bins themselves

[log]
of = "ln"
guard = 1e-3

[normalise] # of the training sounds, one for all bins
"""

# ------------------------------------------------------------------------------------------------------------- sound


def noisy_speech(rng: np.random.Generator, seconds: float) -> tuple[Samples, Samples]:
    """Noisy and clean."""
    count = int(seconds * RATE)
    clean, at = np.zeros(count), int(rng.uniform(0.05, 0.4) * RATE)
    while at < count:
        said = word(rng, rng.choice(list(SYLLABLES), rng.integers(1, 5)), RATE)[: count - at]
        clean[at : at + len(said)] += said
        at += len(said) + int(rng.uniform(0.1, 0.5) * RATE)
    level = 10 ** (-rng.uniform(-2, 10) / 20) * np.sqrt(np.mean(clean**2))
    loud = rng.uniform(0.1, 0.4)
    made = noise(rng, count, RATE)
    return samples(loud * (clean + level * made)), samples(loud * clean)


def clip() -> tuple[Samples, Samples]:
    """For tests: drawn apart from what is trained on."""
    return noisy_speech(np.random.default_rng([SEED, 2026]), 6.0)


def spectra(sound: Samples) -> NDArray[np.complex128]:
    """[frame, bin], of the frames that the front end makes."""
    return np.fft.rfft(np.lib.stride_tricks.sliding_window_view(sound / 32768, LENGTH)[::HOP] * WINDOW)


def sound_of(frames: NDArray[np.complex128]) -> NDArray[np.float64]:
    """Overlapping frames added."""
    made = np.zeros((len(frames) + 1) * HOP)
    for k, frame in enumerate(np.fft.irfft(frames)):
        made[k * HOP : k * HOP + LENGTH] += frame
    return made


def snr_db(sound: NDArray[np.float64], clean: Samples) -> float:
    """Signal to noise, of what has two frames."""
    wanted = clean[HOP : len(sound) - HOP] / 32768
    return float(10 * np.log10(np.sum(wanted**2) / np.sum((sound[HOP:-HOP] - wanted) ** 2)))


def wanted_mask(noisy: Samples, clean: Samples) -> tuple[Array, Array]:
    """The mask that brings each bin nearest to the clean one, and how much it counts."""
    given, wanted = spectra(noisy), spectra(clean)
    mask = np.clip((wanted * given.conj()).real / (np.abs(given) ** 2 + 1e-9), 0, 1)
    loud = np.abs(given)
    return mask.astype(np.float32), (loud / loud.mean()).astype(np.float32)


# ---------------------------------------------------------------------------------------------------------- training


def sigmoid(x: Array) -> Array:
    return 0.5 + 0.5 * np.tanh(x / 2)


def forward(x: Array, p: Weights) -> dict[str, Any]:
    """x: [frame, n, bin]. The GRU of ONNX with linear_before_reset = 1: gates z, r, h."""
    h = np.zeros((x.shape[1], CELLS), np.float32)
    v: dict[str, Any] = {"x": x, "steps": []}
    from_x = x @ p["w"] + p["wb"]
    for one in from_x:
        from_h = h @ p["r"] + p["rb"]
        z = sigmoid(one[:, :CELLS] + from_h[:, :CELLS])
        r = sigmoid(one[:, CELLS : 2 * CELLS] + from_h[:, CELLS : 2 * CELLS])
        new = np.tanh(one[:, 2 * CELLS :] + r * from_h[:, 2 * CELLS :])
        v["steps"].append((h, z, r, new, from_h[:, 2 * CELLS :]))
        h = (1 - z) * new + z * h
    v["h"] = np.stack([*(step[0] for step in v["steps"][1:]), h])
    v["mask"] = sigmoid(v["h"] @ p["d"] + p["db"])
    return v


def backward(v: dict[str, Any], p: Weights, wanted: Array, weight: Array) -> Weights:
    mask = v["mask"]
    d = 2 * (mask - wanted) * weight * mask * (1 - mask) / mask.size
    g = {name: np.zeros_like(value) for name, value in p.items()}
    g["d"], g["db"] = _product(v["h"], d), d.sum((0, 1))
    to_h, later = d @ p["d"].T, np.zeros_like(v["h"][0])
    for k in range(len(to_h) - 1, -1, -1):
        h, z, r, new, inner = v["steps"][k]
        dh = to_h[k] + later
        d_new = dh * (1 - z) * (1 - new**2)
        d_z, d_r = dh * (h - new) * z * (1 - z), d_new * inner * r * (1 - r)
        d_x, d_h = np.concatenate([d_z, d_r, d_new], 1), np.concatenate([d_z, d_r, d_new * r], 1)
        later = dh * z + d_h @ p["r"].T
        g["w"] += v["x"][k].T @ d_x
        g["wb"] += d_x.sum(0)
        g["r"] += h.T @ d_h
        g["rb"] += d_h.sum(0)
    return g


def _product(x: Array, d: Array) -> Array:
    return x.reshape(-1, x.shape[2]).T @ d.reshape(-1, d.shape[2])


def start(rng: np.random.Generator) -> Weights:
    sizes = {"w": (BINS, 3 * CELLS), "r": (CELLS, 3 * CELLS), "d": (CELLS, BINS)}
    p = {name: (rng.standard_normal(size) / np.sqrt(size[0])).astype(np.float32) for name, size in sizes.items()}
    return p | {name: np.zeros(n, np.float32) for name, n in (("wb", 96), ("rb", 96), ("db", BINS))}


def train(x: Array, wanted: Array, weight: Array, rng: np.random.Generator) -> Weights:
    """Arrays [frame, clip, bin]."""
    p, kept = start(rng), dict[str, Any]()
    for step in range(1, STEPS + 1):
        some = rng.integers(x.shape[1], size=BATCH)
        v = forward(x[:, some], p)
        g = backward(v, p, wanted[:, some], weight[:, some])
        size = np.sqrt(sum(float((one**2).sum()) for one in g.values()))
        g = {name: one * min(1, 0.05 / size) for name, one in g.items()}
        adam(p, g, kept, step, 4e-3 * 0.5 * (1 + np.cos(np.pi * step / STEPS)))
        if step % 100 == 0:
            print(f"step {step}: loss {np.mean((v['mask'] - wanted[:, some]) ** 2 * weight[:, some]):.4f}", flush=True)
    return p


# ------------------------------------------------------------------------------------------------------------- files


def model(p: Weights) -> bytes:
    from onnx import TensorProto, checker, helper, numpy_helper

    stored = {
        "w": p["w"].T[None], "r": p["r"].T[None], "b": np.concatenate([p["wb"], p["rb"]])[None],
        "d": p["d"], "db": p["db"], "flat": np.array([1, CELLS]),
    }  # fmt: skip
    nodes = [
        helper.make_node("GRU", ["features", "w", "r", "b", "", "state_in"], ["", "state_out"], name="gru",
                         hidden_size=CELLS, linear_before_reset=1),
        helper.make_node("Reshape", ["state_out", "flat"], ["cells"], name="flatten"),
        helper.make_node("Gemm", ["cells", "d", "db"], ["logits"], name="dense"),
        helper.make_node("Sigmoid", ["logits"], ["mask"], name="sigmoid"),
    ]  # fmt: skip
    shapes = {"features": [1, 1, BINS], "state_in": [1, 1, CELLS], "mask": [1, BINS], "state_out": [1, 1, CELLS]}
    edges = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()}
    graph = helper.make_graph(
        nodes, "denoiser", [edges["features"], edges["state_in"]], [edges["mask"], edges["state_out"]],
        [numpy_helper.from_array(np.ascontiguousarray(value), name) for name, value in stored.items()],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    checker.check_model(made)
    return bytes(made.SerializeToString())


def write_clips() -> None:
    for name, sound in zip(("noisy", "clean"), clip(), strict=True):
        write_wav(FOLDER / f"{name}.wav", sound, RATE)


def write_frames(path: str) -> None:
    """48 sequences of 2 s, drawn as those of the training were: [sequence, frame, 1, 1, bin]."""
    front_end, rng = atonc.front_end(FOLDER / "front_end.toml"), np.random.default_rng([SEED, 1])
    found = [front_end.features(noisy_speech(rng, SECONDS)[0]) for _ in range(48)]
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, features=np.stack(found)[:, :, None, None])


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    rng = np.random.default_rng(SEED)
    sounds = [noisy_speech(rng, SECONDS) for _ in range(CLIPS)]
    plain = FOLDER / "front_end.toml"
    plain.write_text(FRONT_END)
    found = np.concatenate([atonc.front_end(plain).features(noisy) for noisy, _ in sounds])
    plain.write_text(f"{FRONT_END}mean = {found.mean():.4f}\ndeviation = {found.std():.4f}\n")
    front_end = atonc.front_end(plain)
    x = np.stack([front_end.features(noisy) for noisy, _ in sounds], 1)
    wanted, weight = (np.stack(one, 1) for one in zip(*(wanted_mask(*pair) for pair in sounds), strict=True))
    (FOLDER / "denoiser.onnx").write_bytes(model(train(x, wanted, weight, rng)))
    write_clips()


def form(content: bytes) -> Any:
    """Nodes and shapes, without weights."""
    import onnx

    graph = onnx.load_from_string(content).graph
    return [str(node) for node in graph.node], [(one.name, list(one.dims)) for one in graph.initializer]


def check() -> None:
    for name, sound in zip(("noisy", "clean"), clip(), strict=True):
        kept = read_wav(FOLDER / f"{name}.wav")
        assert kept[1] == RATE and same_sound(sound, kept[0]), f"{name}.wav is not what this script makes"
    untrained = model(start(np.random.default_rng(0)))
    same = form(untrained) == form((FOLDER / "denoiser.onnx").read_bytes())
    assert same, "denoiser.onnx has another form than this script says"
    assert (FOLDER / "front_end.toml").read_text().startswith(FRONT_END), "front_end.toml says something else"
    print("examples/denoiser is what this script makes")


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        check()
    elif sys.argv[1:2] == ["--frames"]:
        write_frames(sys.argv[2])
    else:
        main()
