"""`atonc serve`: the compiler as a web application on this machine."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from atonc.errors import InputError, ToolError
from atonc.serve.limits import Limits
from atonc.verbs.flags import add_declared, declared_values

PORT = 8421
TOKEN = "ATONC_TOKEN"


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "serve",
        help="the compiler in the browser: a queue, reports, history, comparisons; for this machine only",
        description="Serves a page on which models are compiled, and the same over HTTP. Only this machine can reach "
        "it, unless --host says otherwise; then it asks for a token. Jobs run in processes with limits.",
    )
    parser.set_defaults(verb=_serve)
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=int, default=PORT, help=f"default {PORT}; 0 takes a free one")
    parser.add_argument(
        "--folder", type=Path, metavar="DIR", help="builds and history (default ~/.local/share/atonc/serve)"
    )
    add_declared(parser, Limits)
    parser.add_argument(
        "--token",
        action="store_true",
        help=f"ask for a token on this machine too; {TOKEN} in the environment sets it, else a new one is printed",
    )
    parser.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME", help="a name under which the page is opened"
    )


def _serve(options: argparse.Namespace) -> int:
    try:
        from atonc.serve.running import serve
    except ModuleNotFoundError as error:
        raise ToolError(f"{error.name} is missing", remedy="pip install 'atonc[serve]'") from None
    from atonc.serve.app import Settings

    if not 0 <= options.port < 1 << 16:
        raise InputError(f"{options.port} is no port", where="--port")
    limits = declared_values(Limits, options)
    if limits.at_once < 0:
        raise InputError(f"{limits.at_once} jobs at once", where="--jobs", remedy="give a number above zero")
    folder = options.folder or _default_folder()
    names = frozenset(name.lower() for name in options.allow_host)
    settings = Settings(folder.absolute(), limits, os.environ.get(TOKEN, ""), names)
    return serve(settings, options.host, options.port, options.token)


def _default_folder() -> Path:
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "atonc" / "serve"
