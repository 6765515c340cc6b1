"""Writes stories as the chip would: token -> network with its keys and values -> logits -> a word by chance -> token.

story.py BUILD                        one word after the other, on the emulated chip
story.py BUILD --seed 7 --tokens 300  another story, or a longer text
story.py BUILD --save FILE.npy        also what the network was given, for `atonc run` and `atonc validate`
story.py BUILD --header FILE.h        words and chances for main.c, which writes the same text
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import atonc

HERE = Path(__file__).resolve().parent
TEMPERATURE = 0.7  # below 1 likely words are likelier; near 0 always the likeliest
END = 0  # the first word, "end", stands for the beginning, too
UNIT = 1 << 16  # the chance of the likeliest word
MASK = (1 << 32) - 1


def words() -> list[str]:
    return (HERE / "words.txt").read_text().split()


def chances(build: Path) -> list[int]:
    """How likely a word is whose logit lies so many codes below the highest: whole numbers, so C draws the same."""
    given = json.loads((build / "story_program.json").read_text())["edges"]["outputs"]
    (scale,) = (one["scale"] for one in given if one["name"] == "logits")
    return [round(UNIT * float(np.exp(-scale * below / TEMPERATURE))) for below in range(256)]


def tokens(session: Any, share: Sequence[int], seed: int, count: int) -> Iterator[int]:
    """As main.c draws them: xorshift of 32 bits, and a walk along the sums."""
    session.reset()
    token, random = END, seed
    for _ in range(count):
        logits = session({"token": np.array([[token]], np.int32)})["logits"].reshape(-1).astype(int)
        for left, right in ((13, 0), (0, 17), (5, 0)):
            random ^= (random << left if left else random >> right) & MASK
        weights = [share[below] for below in logits.max() - logits]
        at, token = random * sum(weights) >> 32, 0
        while at >= weights[token]:
            at, token = at - weights[token], token + 1
        yield token


class Typist:
    """Words with spaces, capitals and lines where a reader expects them."""

    def __init__(self) -> None:
        self.capital, self.glued, self.quoted = True, True, False

    def typed(self, word: str) -> str:
        mark = word in ".,!?:" or (word == '"' and self.quoted)
        space = "" if mark or self.glued else " "
        said = word[0].upper() + word[1:] if self.capital else word
        self.quoted ^= word == '"'
        self.glued = word in ("end", '"') and (word == "end" or self.quoted)
        self.capital = word in (".", "!", "?", "end") or self.glued
        return space + said + (".\n" if word == "end" else "")


def header(build: Path) -> str:
    known, share = words(), ", ".join(map(str, chances(build)))
    listed = ", ".join(json.dumps(word) for word in known)
    return (
        "/* Written by story.py --header. */\n"
        f"#define STORY_WORDS {len(known)}u\n"
        f"static const char *const words[STORY_WORDS] = {{{listed}}};\n"
        f"static const uint32_t chances[256] = {{{share}}};\n"
    )


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--header", type=Path)
    parser.add_argument("--save", type=Path)
    asked = parser.parse_args(given)
    if asked.header:
        asked.header.write_text(header(asked.build))
        return 0
    session, known, typist, written = atonc.load(asked.build, "story").stream(), words(), Typist(), [END]
    for token in tokens(session, chances(asked.build), asked.seed, asked.tokens):
        print(typist.typed(known[token]), end="", flush=True)
        written.append(token)
    print()
    if asked.save:
        np.save(asked.save, np.array(written[:-1], np.int32)[:, None, None])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
