"""`atonc completion bash|zsh|fish`: a script that lets the shell complete verbs, options and their values."""

from __future__ import annotations

import argparse

SHELLS = ("bash", "zsh", "fish")


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("completion", help="a script for the shell: completes verbs, options and values")
    parser.set_defaults(verb=_completion, quiet=False)
    parser.add_argument("shell", choices=SHELLS, help="which shell")


def _completion(options: argparse.Namespace) -> int:
    from atonc.insight.report.about_text import script

    print(script(options.shell, options.root), end="")
    return 0
