"""Makes examples/story: stories of a small grammar, and a transformer that learnt to write such ones, word by word.

    python examples/make_story.py FOLDER    trains (minutes): FOLDER/story.onnx, and tokens.npz for `atonc quantize`
    python examples/make_story.py --check   trains nothing: words and form of the network are what is said here

    token -> embedding -> 3 x (norm, attention over 64 tokens, norm, dense, SiLU, dense) -> norm, dense -> logits

Keys and values of the tokens before are inputs and outputs of a fixed size: states. A place of the cache that is still
empty holds zeros and counts as a token that says nothing, in training as on the chip: no mask is needed. Nearness is a
constant that is added to the scores (`near`), so no position is needed either. Needs onnx besides numpy.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from examples.made_sounds import adam

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "examples" / "story"
Array = NDArray[Any]
Weights = dict[str, Array]
Back = Callable[[Array], Array]  # from the gradient of what a layer gives to that of what it reads

WIDTH, HEADS, LAYERS, CONTEXT = 64, 4, 3, 64
PART = WIDTH // HEADS
LENGTH, BATCH, STEPS, SEED = 128, 16, 600, 48  # tokens of a sequence; sequences of a step

# -------------------------------------------------------------------------------------------------------------- text

HE = ("Tom", "Ben", "Max", "Sam", "Leo", "Finn")
SHE = ("Mia", "Anna", "Lily", "Ella", "Zoe", "Nora")
KINDS = ("cat", "dog", "fox", "mouse", "frog", "duck", "rabbit", "hedgehog")
HELPERS = ("bear", "wolf", "horse", "goat", "crow", "turtle")
LIKE = ("little", "young", "clever", "brave", "shy", "funny")
COLOURS = ("red", "blue", "green", "yellow", "white", "golden")
THINGS = ("ball", "hat", "kite", "drum", "boat", "shoe", "key", "bell")
PLACES = ("garden", "forest", "barn", "meadow", "village", "valley")
UNDER = ("under the bridge", "behind the wall", "in the tall grass", "near the river", "on the roof", "in a deep hole")
DAYS = ("sunny", "windy", "rainy", "cold", "warm")


def story(rng: np.random.Generator) -> list[str]:
    """Somebody has a thing, loses it, meets somebody, and has it again."""

    def one(of: tuple[str, ...]) -> str:
        return of[rng.integers(len(of))]

    male = rng.random() < 0.5
    name, he, his = (one(HE), "he", "his") if male else (one(SHE), "she", "her")
    kind, helper, thing, place, day, like = (one(of) for of in (KINDS, HELPERS, THINGS, PLACES, DAYS, LIKE))
    colour, where = one(COLOURS), one(UNDER)
    empty = one(tuple(at for at in UNDER if at != where))
    parts = (
        (f"once there was a {like} {kind} named {name} .", f"in the {place} lived a {like} {kind} named {name} ."),
        (f"{he} had a {colour} {thing} and loved it very much .", f"{his} best friend was a {colour} {thing} ."),
        (f"one {day} morning the {thing} was gone .", f"but one {day} day {he} lost the {thing} in the {place} ."),
        (f"{name} looked {empty} , but it was not there .", f"{he} looked {empty} and found nothing ."),
        (f"{name} was sad and began to cry .", f"{he} was very sad .", f"{name} sat down and cried ."),
        (f"then a {helper} came by .", f"a {helper} heard {name} and came ."),
        (f'" why are you sad ? " asked the {helper} .', f'" what is wrong ? " asked the {helper} .'),
        (f'" I lost my {colour} {thing} , " said {name} .', f'" my {colour} {thing} is gone ! " said {name} .'),
        (f'" I saw a {thing} {where} , " said the {helper} .', f'" look {where} ! " said the {helper} .'),
        (f"they went there together and found the {thing} .", f"and there it was : the {colour} {thing} !"),
        (f"{name} was so happy that {he} danced .", f"{name} laughed and hugged the {helper} ."),
        (f"from that day on the {kind} and the {helper} were friends .",
         f"they played with the {thing} until it was dark ."),
        ("the end",),
    )  # fmt: skip
    return [word for part in parts for word in one(part).split()]


def vocabulary() -> list[str]:
    """Every word that a story can have, the end first: it stands for the beginning of a text, too."""
    rng = np.random.default_rng(SEED)
    return ["end", *sorted({word for _ in range(2000) for word in story(rng)} - {"end"})]


def sequences(rng: np.random.Generator, words: list[str], count: int, length: int) -> Array:
    """Token numbers [count, length]: stories behind each other, the first behind an end."""
    number = {word: k for k, word in enumerate(words)}
    found = np.zeros((count, length), np.int64)
    for row in found:
        said: list[str] = []
        while len(said) < length - 1:
            said += story(rng)
        row[1:] = [number[word] for word in said[: length - 1]]
    return found


# ---------------------------------------------------------------------------------------------------------- training


def dense(name: str, p: Weights, g: Weights, x: Array) -> tuple[Array, Back]:
    def back(d: Array) -> Array:
        g[name], g[f"{name}_bias"] = x.reshape(-1, x.shape[-1]).T @ d.reshape(-1, d.shape[-1]), d.sum((0, 1))
        return d @ p[name].T

    return x @ p[name] + p[f"{name}_bias"], back


def norm(name: str, p: Weights, g: Weights, x: Array) -> tuple[Array, Back]:
    centred = x - x.mean(-1, keepdims=True)
    root = 1 / np.sqrt((centred**2).mean(-1, keepdims=True) + np.float32(1e-5))
    y = centred * root

    def back(d: Array) -> Array:
        g[name], g[f"{name}_bias"] = (d * y).sum((0, 1)), d.sum((0, 1))
        d = d * p[name]
        return root * (d - d.mean(-1, keepdims=True) - y * (d * y).mean(-1, keepdims=True))

    return y * p[name] + p[f"{name}_bias"], back


def silu(x: Array) -> tuple[Array, Back]:
    s = 0.5 + 0.5 * np.tanh(x / 2)
    return x * s, lambda d: d * (s + x * s * (1 - s))


def attend(name: str, p: Weights, g: Weights, x: Array) -> tuple[Array, Back]:
    """`x`: queries, keys and values side by side. Every token sees 64 places: itself, those before it, empty ones."""
    n, t = x.shape[:2]
    q, k, v = x.reshape(n, t, 3, HEADS, PART).transpose(2, 0, 3, 1, 4)
    k, v = (np.pad(one, ((0, 0), (0, 0), (CONTEXT - 1, 0), (0, 0))) for one in (k, v))
    rows, places = np.arange(t)[:, None], np.arange(t)[:, None] + np.arange(CONTEXT)  # the last place: the token itself
    near = np.full((HEADS, t, t + CONTEXT - 1), np.float32(-1e9))
    near[:, rows, places] = p[name][:, None]
    scores = q @ k.swapaxes(2, 3) + near
    a = np.exp(scores - scores.max(-1, keepdims=True))
    a /= a.sum(-1, keepdims=True)

    def back(d: Array) -> Array:
        d = d.reshape(n, t, HEADS, PART).transpose(0, 2, 1, 3)
        d_v, d_a = a.swapaxes(2, 3) @ d, d @ v.swapaxes(2, 3)
        d_scores = a * (d_a - (d_a * a).sum(-1, keepdims=True))
        g[name] = d_scores.sum(0)[:, rows, places].sum(1)
        d_q, d_k = d_scores @ k, d_scores.swapaxes(2, 3) @ q
        found = np.stack([d_q, d_k[:, :, CONTEXT - 1 :], d_v[:, :, CONTEXT - 1 :]])
        return np.asarray(found.transpose(1, 3, 0, 2, 4).reshape(n, t, 3 * WIDTH))

    return (a @ v).transpose(0, 2, 1, 3).reshape(n, t, WIDTH), back


def forward(tokens: Array, p: Weights, g: Weights) -> tuple[Array, list[Back]]:
    """Logits, and the way back to the embedding, block by block."""
    x, blocks = p["embedding"][tokens], list[Back]()

    def through(*layers: Callable[[Array], tuple[Array, Back]]) -> Array:
        y, ways = x, list[Back]()
        for layer in layers:
            y, way = layer(y)
            ways.append(way)
        blocks.append(lambda d: _all(ways, d))
        return y

    def named(layer: Any, name: str) -> Callable[[Array], tuple[Array, Back]]:
        return lambda y: layer(name, p, g, y)

    for k in range(LAYERS):
        asked = (named(norm, f"{k}_norm"), named(dense, f"{k}_asked"), named(attend, f"{k}_near"))
        x = x + through(*asked, named(dense, f"{k}_mixed"))
        x = x + through(named(norm, f"{k}_over"), named(dense, f"{k}_wide"), silu, named(dense, f"{k}_thin"))
    return through(named(norm, "last"), named(dense, "logits")), blocks


def _all(ways: list[Back], d: Array) -> Array:
    for way in reversed(ways):
        d = way(d)
    return d


def gradients(tokens: Array, p: Weights) -> tuple[float, Weights]:
    """Differentiates the mean cross entropy of every next token."""
    g: Weights = {}
    logits, blocks = forward(tokens[:, :-1], p, g)
    shares = np.exp(logits - logits.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    n, t = np.indices(tokens[:, 1:].shape)
    loss = -np.log(shares[n, t, tokens[:, 1:]] + 1e-9).mean()
    shares[n, t, tokens[:, 1:]] -= 1
    d = blocks[-1](shares / n.size)
    for block in reversed(blocks[:-1]):
        d = d + block(d)
    g["embedding"] = np.zeros_like(p["embedding"])
    np.add.at(g["embedding"], tokens[:, :-1], d)
    return float(loss), g


def start(rng: np.random.Generator, words: int) -> Weights:
    def drawn(rows: int, columns: int, gain: float = 1.0) -> Array:
        return rng.normal(0, gain / np.sqrt(rows), (rows, columns)).astype(np.float32)

    p = {"embedding": rng.normal(0, 0.5, (words, WIDTH)).astype(np.float32)}
    for k in range(LAYERS):
        p |= {f"{k}_asked": drawn(WIDTH, 3 * WIDTH), f"{k}_mixed": drawn(WIDTH, WIDTH, 0.5)}
        p |= {f"{k}_wide": drawn(WIDTH, 4 * WIDTH), f"{k}_thin": drawn(4 * WIDTH, WIDTH, 0.5)}
        p[f"{k}_asked"][:, :WIDTH] /= np.sqrt(PART)
        p |= {f"{k}_{name}": np.ones(WIDTH, np.float32) for name in ("norm", "over")}
    p |= {"last": np.ones(WIDTH, np.float32), "logits": drawn(WIDTH, words, 0.5)}
    p |= {f"{name}_bias": np.zeros(value.shape[-1], np.float32) for name, value in p.items() if name != "embedding"}
    slopes = 2.0 ** -np.arange(1, HEADS + 1)  # as ALiBi has them: each head begins with another reach
    distance = np.arange(CONTEXT - 1, -1, -1)
    return p | {f"{k}_near": (-slopes[:, None] * distance).clip(-6).astype(np.float32) for k in range(LAYERS)}


def train(words: list[str], rng: np.random.Generator) -> Weights:
    p, kept = start(rng, len(words)), dict[str, Any]()
    for step in range(1, STEPS + 1):
        loss, g = gradients(sequences(rng, words, BATCH, LENGTH + 1), p)
        size = np.sqrt(sum(float((one**2).sum()) for one in g.values()))
        g = {name: one * np.float32(min(1, 1 / size)) for name, one in g.items()}
        adam(p, g, kept, step, 3e-3 * min(1, step / 50) * 0.5 * (1 + np.cos(np.pi * step / STEPS)))
        if step % 100 == 0:
            print(f"step {step}: {np.exp(loss):.2f} words to choose from", flush=True)
    return p


# ------------------------------------------------------------------------------------------------------------- files


class Writer:
    """One token through the network, node by node; weights are named as in training."""

    def __init__(self, p: Weights) -> None:
        self.p, self.nodes, self.stored = p, list[Any](), dict[str, Array]()

    def constant(self, name: str, value: Array) -> str:
        self.stored[name] = np.ascontiguousarray(value)
        return name

    def op(self, kind: str, name: str, *inputs: str, **attributes: Any) -> str:
        from onnx import helper

        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def dense(self, name: str, x: str, part: slice = slice(None), as_: str = "") -> str:
        as_ = as_ or name
        weights = self.constant(f"{as_}_weights", self.p[name][:, part])
        bias = self.constant(f"{as_}_bias", self.p[f"{name}_bias"][part])
        return self.op("Add", as_, self.op("MatMul", f"{as_}_product", x, weights), bias)

    def norm(self, name: str, x: str) -> str:
        parts = self.constant(f"{name}_gain", self.p[name]), self.constant(f"{name}_bias", self.p[f"{name}_bias"])
        return self.op("LayerNormalization", name, x, *parts, axis=-1, epsilon=1e-5)

    def reshape(self, name: str, x: str, *shape: int) -> str:
        return self.op("Reshape", name, x, self.constant(f"shape_{'x'.join(map(str, shape))}", np.array(shape)))

    def attention(self, k: int, x: str) -> str:
        """Keys and values of the newest token come behind those before it; the oldest falls out."""
        one, end, axis = (self.constant(n, np.array([v])) for n, v in (("one", 1), ("end", CONTEXT), ("axis", 2)))
        heads = list[str]()
        for i, part in enumerate(("query", "key", "value")):
            made = self.dense(f"{k}_asked", x, slice(i * WIDTH, (i + 1) * WIDTH), f"{k}_{part}")
            heads.append(self.reshape(f"{k}_{part}_heads", made, 1, HEADS, 1, PART))
        kept = list[str]()
        for name, new in ((f"keys_{k}", heads[1]), (f"values_{k}", heads[2])):
            moved = self.op("Slice", f"{name}_kept", f"{name}_in", one, end, axis)
            kept.append(self.op("Concat", f"{name}_out", moved, new, axis=2))
        turned = self.op("Transpose", f"{k}_turned", kept[0], perm=[0, 1, 3, 2])
        near = self.constant(f"{k}_near", self.p[f"{k}_near"][None, :, None])
        scores = self.op("Add", f"{k}_scores", self.op("MatMul", f"{k}_products", heads[0], turned), near)
        read = self.op("MatMul", f"{k}_read", self.op("Softmax", f"{k}_shares", scores, axis=-1), kept[1])
        return self.dense(f"{k}_mixed", self.reshape(f"{k}_seen", read, 1, 1, WIDTH))


def model(p: Weights) -> bytes:
    from onnx import TensorProto, checker, helper, numpy_helper

    w = Writer(p)
    x = w.op("Gather", "embedded", w.constant("embedding", p["embedding"]), "token", axis=0)
    for k in range(LAYERS):
        x = w.op("Add", f"{k}_first", x, w.attention(k, w.norm(f"{k}_norm", x)))
        wide = w.dense(f"{k}_wide", w.norm(f"{k}_over", x))
        y = w.op("Mul", f"{k}_silu", wide, w.op("Sigmoid", f"{k}_gate", wide))
        x = w.op("Add", f"{k}_second", x, w.dense(f"{k}_thin", y))
    w.dense("logits", w.norm("last", x))
    kept = [f"{word}_{k}" for k in range(LAYERS) for word in ("keys", "values")]
    edge, cache = helper.make_tensor_value_info, (1, HEADS, CONTEXT, PART)
    given = [edge("token", TensorProto.INT32, (1, 1)), *(edge(f"{name}_in", TensorProto.FLOAT, cache) for name in kept)]
    made = [edge("logits", TensorProto.FLOAT, (1, 1, p["logits"].shape[1])),
            *(edge(f"{name}_out", TensorProto.FLOAT, cache) for name in kept)]  # fmt: skip
    stored = [numpy_helper.from_array(value, name) for name, value in w.stored.items()]
    graph = helper.make_graph(w.nodes, "story", given, made, stored)
    whole = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    checker.check_model(whole)
    return bytes(whole.SerializeToString())


def main(folder: Path) -> None:
    """The network in float, and 24 sequences to quantise it with, drawn as those of the training: [.., token, 1, 1]."""
    folder.mkdir(parents=True, exist_ok=True)
    words = vocabulary()
    (FOLDER / "words.txt").write_text("\n".join(words) + "\n")
    (folder / "story.onnx").write_bytes(model(train(words, np.random.default_rng(SEED))))
    found = sequences(np.random.default_rng([SEED, 1]), words, 24, LENGTH)
    np.savez(folder / "tokens.npz", token=found[:, :, None, None].astype(np.int32))


def check() -> None:
    """story_int8.onnx is of this form: its inputs and outputs, and constants of the shapes of all weights."""
    import onnx

    words = vocabulary()
    assert (FOLDER / "words.txt").read_text().split() == words, "words.txt is not what this script makes"
    p = start(np.random.default_rng(0), len(words))
    made, kept = onnx.load_from_string(model(p)).graph, onnx.load(FOLDER / "story_int8.onnx").graph
    for one, other in ((made.input, kept.input), (made.output, kept.output)):
        assert [str(edge) for edge in one] == [str(edge) for edge in other], "story_int8.onnx has other ends"
    large = [sorted(list(t.dims) for t in graph.initializer if np.prod(t.dims) >= WIDTH**2) for graph in (made, kept)]
    assert large[0] == large[1], "story_int8.onnx has other weights"
    print("examples/story is what this script makes")


if __name__ == "__main__":
    check() if sys.argv[1:] == ["--check"] else main(Path(sys.argv[1]))
