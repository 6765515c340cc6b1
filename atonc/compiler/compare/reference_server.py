"""The other end of `reference_process`: runs models with other people's kernels, one request after the other."""

from __future__ import annotations

import sys
from pathlib import Path

from atonc.compiler.compare.messages import pack, unpack
from atonc.compiler.compare.reference import Kernels, open_kernels
from atonc.machine.base import child
from atonc.machine.base.errors import AtoncError

NUMBERS = "biuf"


def main() -> None:
    answers = child.answers()
    opened: dict[str, Kernels] = {}
    while True:
        try:
            asked, content = child.receive(sys.stdin.buffer)
        except EOFError:
            return
        inputs = unpack(asked["arrays"], content)
        tensors = None if asked["tensors"] is None else tuple(asked["tensors"])
        key = repr((asked["path"], asked["kernels"], tensors))
        try:
            if key not in opened:
                opened[key] = open_kernels(Path(asked["path"]), asked["kernels"], tensors)
            found = opened[key](inputs if asked["named"] else list(inputs.values()))
        except AtoncError as error:
            child.send(answers, {"error": type(error).__name__, "what": error.what, "remedy": error.remedy})
            continue
        listed, contents = pack({name: value for name, value in found.items() if value.dtype.kind in NUMBERS})
        child.send(answers, {"arrays": listed}, *contents)


if __name__ == "__main__":
    main()
