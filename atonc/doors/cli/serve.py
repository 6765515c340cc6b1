"""`atonc serve`: the compiler as a web application on this machine."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from atonc.doors.serve.limits import JobLimits
from atonc.doors.serve.options import TOKEN, ServeOptions
from atonc.doors.verbs.flags import add_declared, declared_values
from atonc.machine.base.errors import InputError, ToolError


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "serve",
        help="the compiler in the browser: a queue, reports, history, comparisons; for this machine only",
        description="Serves a page on which models are compiled, and the same over HTTP. Only this machine can reach "
        "it, unless --host says otherwise; then it asks for a token. Jobs run in processes with limits.",
    )
    parser.set_defaults(verb=_serve)
    add_declared(parser, ServeOptions)
    add_declared(parser, JobLimits)


def _serve(options: argparse.Namespace) -> int:
    try:
        from atonc.doors.serve.running import serve
    except ModuleNotFoundError as error:
        raise ToolError(f"{error.name} is missing", remedy="pip install 'atonc[serve]'") from None
    from atonc.doors.serve.app import ServiceSettings

    wanted, limits = declared_values(ServeOptions, options), declared_values(JobLimits, options)
    if not 0 <= wanted.port < 1 << 16:
        raise InputError(f"{wanted.port} is no port", where="--port")
    if limits.at_once < 0:
        raise InputError(f"{limits.at_once} jobs at once", where="--jobs", remedy="give a number above zero")
    folder = wanted.folder or _default_folder()
    names = frozenset(name.lower() for name in wanted.allow_host)
    settings = ServiceSettings(folder.absolute(), limits, os.environ.get(TOKEN, ""), names)
    return serve(settings, wanted.host, wanted.port, wanted.token)


def _default_folder() -> Path:
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "atonc" / "doors" / "serve"
