"""This machine: `atonc doctor` says which tools, packages, boards, probes and permissions it has, `atonc completion`
gives a script that lets its shell complete verbs, options and their values."""

from __future__ import annotations

import argparse

from atonc.doors.verbs.parser import SHOWN, Command, arg, defaults, single
from atonc.doors.verbs.reply import CommandReply
from atonc.machine.base.errors import InputError, ToolError

SHELLS = ("bash", "zsh", "fish")


def _doctor(options: argparse.Namespace) -> CommandReply:
    from atonc.delivery.doctor.diagnosis import STEPS, examine
    from atonc.delivery.texts import doctor_text
    from atonc.delivery.trials.real_board import cube_ide

    unknown = [step for step in options.steps if step not in STEPS]
    if unknown:
        raise InputError(f"{unknown[0][:40]!r} is no step", where="--for", rule=f"steps: {', '.join(STEPS)}")
    found = examine(options.board, ide=cube_ide(None))
    wanted = options.steps or ["compile"]
    ready = all(step.ready for step in found.steps if step.key in wanted)
    code = 0 if ready else ToolError.exit_code
    return CommandReply("doctor", doctor_text.document(found, options.verbose), code=code)


def _completion(options: argparse.Namespace) -> CommandReply:
    from atonc.insight.report.about_text import script

    return CommandReply(raw=script(options.shell, options.root))


COMMANDS = (
    Command(
        "doctor",
        "what this machine has and lacks for each step, and how to get it",
        _doctor,
        (
            single("board"),
            arg(
                "--for", dest="steps", action="append", default=[], metavar="STEP",
                help="this step must be ready (repeatable)",
            ),
            SHOWN,
        ),
        ("atonc doctor  # what this machine has and lacks for each step", "atonc doctor --for compile --json"),
        "Exit code 0: the steps asked for are ready (without --for: compiling is); 4: something lacks.",
    ),
    Command(
        "completion",
        "a script for the shell: completes verbs, options and values",
        _completion,
        (arg("shell", choices=SHELLS, help="which shell"), defaults(quiet=False)),
        (
            'eval "$(atonc completion bash)"  # in ~/.bashrc; zsh likewise in ~/.zshrc',
            "atonc completion fish > ~/.config/fish/completions/atonc.fish",
        ),
    ),
)  # fmt: skip
