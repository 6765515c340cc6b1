"""The other end of `reference_process`: runs models with other people's kernels, one request after the other."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from atonc.compare.messages import receive, send
from atonc.compare.reference import Kernels, open_kernels
from atonc.errors import AtoncError

NUMBERS = "biuf"


def main() -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the kernels print is no answer
    opened: dict[str, Kernels] = {}
    while True:
        try:
            asked, inputs = receive(sys.stdin.buffer)
        except EOFError:
            return
        tensors = None if asked["tensors"] is None else tuple(asked["tensors"])
        key = repr((asked["path"], asked["kernels"], tensors))
        try:
            if key not in opened:
                opened[key] = open_kernels(Path(asked["path"]), asked["kernels"], tensors)
            found = opened[key](inputs if asked["named"] else list(inputs.values()))
        except AtoncError as error:
            send(answers, {"error": type(error).__name__, "what": error.what, "remedy": error.remedy}, {})
            continue
        send(answers, {}, {name: value for name, value in found.items() if value.dtype.kind in NUMBERS})


if __name__ == "__main__":
    main()
