"""`atonc serve`: the compiler as a web application on this machine, and what it is started with."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from atonc.doors.serve.limits import JobLimits
from atonc.doors.verbs.parser import Command, declared_values, flags
from atonc.doors.verbs.reply import CommandReply
from atonc.machine.base.declare import AGAIN, PLAIN, Takes, option
from atonc.machine.base.errors import InputError, ToolError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import port

PORT = 8421
TOKEN = "ATONC_TOKEN"
_ASK = f"ask for a token on this machine too; {TOKEN} in the environment sets it, else a new one is printed"


@dataclass(frozen=True)
class ServeOptions:
    """Flags of the command line with their help, in their order."""

    host: str = option("127.0.0.1", "--host", PLAIN, "the address to listen on (default 127.0.0.1)")
    port: int = option(PORT, "--port", PLAIN, f"default {PORT}; 0 takes a free one", parse=port)
    folder: Path | None = option(
        None, "--folder", PLAIN, "builds and history (default ~/.local/share/atonc/serve)", metavar="DIR", parse=Path
    )
    token: bool = option(False, "--token", PLAIN, _ASK)
    allow_host: tuple[str, ...] = option(
        (), "--allow-host", PLAIN, "a name under which the page is opened", metavar="NAME", takes=Takes(many=AGAIN)
    )


def _serve(options: argparse.Namespace) -> CommandReply:
    try:
        from atonc.doors.serve.app import ServiceSettings, home, serve
    except ModuleNotFoundError as error:
        raise ToolError(f"{error.name} is missing", remedy="pip install 'atonc[serve]'") from None

    wanted, limits = declared_values(ServeOptions, options), declared_values(JobLimits, options)
    if limits.at_once < 0:
        raise InputError(f"{limits.at_once} jobs at once", where="--jobs", remedy="give a number above zero")
    folder = wanted.folder or home()
    names = frozenset(name.lower() for name in wanted.allow_host)
    settings = ServiceSettings(folder.absolute(), limits, os.environ.get(TOKEN, ""), names)
    serve(settings, wanted.host, wanted.port, wanted.token)
    return CommandReply()


COMMANDS = (
    Command(
        "serve",
        "the compiler in the browser: a queue, reports, history, comparisons; for this machine only",
        _serve,
        (flags(ServeOptions), flags(JobLimits)),
        (
            "atonc serve  # the compiler in the browser, for this machine only",
            "atonc serve --host 0.0.0.0 --allow-host lab.local  # for others, by token",
        ),
        "Serves a page on which models are compiled, and the same over HTTP. Only this machine can reach "
        "it, unless --host says otherwise; then it asks for a token. Jobs run in processes with limits.",
    ),
)
