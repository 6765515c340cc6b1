"""`atonc mcp`: the verbs as tools of an agent, and what it is started with."""

from __future__ import annotations

import argparse
from pathlib import Path

from atonc.doors.serve.limits import JobLimits, require_limits
from atonc.doors.verbs.parser import Command, declared_values, flags
from atonc.doors.verbs.reply import CommandReply
from atonc.machine.base.declare import PLAIN, option
from atonc.machine.base.errors import InputError, ToolError
from atonc.machine.base.frozen import dataclass


@dataclass(frozen=True)
class AgentOptions:
    """Flags of the command line with their help, in their order."""

    folder: Path = option(
        Path("."), "--folder", PLAIN, "the agent's folder: nothing else is read or written (default .)",
        metavar="DIR", parse=Path,
    )  # fmt: skip


def _mcp(options: argparse.Namespace) -> CommandReply:
    wanted, limits = declared_values(AgentOptions, options), declared_values(JobLimits, options)
    if not wanted.folder.is_dir():
        raise InputError("there is no such folder", where=f"--folder {wanted.folder}", remedy="make it first")
    if limits.at_once < 0:
        raise InputError(f"{limits.at_once} jobs at once", where="--jobs", remedy="give a number above zero")
    require_limits()
    try:
        from atonc.doors.agents.server import serve
    except ModuleNotFoundError as error:
        raise ToolError(f"{error.name} is missing", remedy="pip install 'atonc[mcp]'") from None

    serve(wanted.folder.resolve(), limits)
    return CommandReply()


COMMANDS = (
    Command(
        "mcp",
        "the verbs as tools of an agent (Model Context Protocol), in one folder, within limits",
        _mcp,
        (flags(AgentOptions), flags(JobLimits)),
        (
            "atonc mcp --folder models  # started by the agent's program, not by you",
            "atonc mcp --time-limit 120 --jobs 1",
        ),
        "Speaks the Model Context Protocol on standard input and output. Tools: analyze, explain, compare, quantize, "
        "generate, validate, board_try; each gives the document of --json. Paths stay in the folder; each call runs in "
        "a process with limits of time and memory (docs/agents.md).",
    ),
)
