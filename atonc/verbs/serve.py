"""`atonc serve`: the compiler as a web application on this machine."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path

from atonc.errors import InputError, ToolError
from atonc.verbs.common import positive

PORT = 8421
TOKEN = "ATONC_TOKEN"
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


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
    parser.add_argument("--jobs", type=int, default=0, metavar="N", help="at once (default: one per core, at most 4)")
    parser.add_argument(
        "--time-limit", type=positive, default=600.0, metavar="S", help="of a job, in processor time (default 600)"
    )
    parser.add_argument("--memory-limit", type=_size, default=4 << 30, metavar="BYTES", help="of a job (default 4G)")
    parser.add_argument("--max-upload", type=_size, default=256 << 20, metavar="BYTES", help="default 256M")
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
    from atonc.serve.limits import Limits

    if not 0 <= options.port < 1 << 16:
        raise InputError(f"{options.port} is no port", where="--port")
    if options.jobs < 0:
        raise InputError(f"{options.jobs} jobs at once", where="--jobs", remedy="give a number above zero")
    limits = Limits(options.time_limit, options.memory_limit, upload_bytes=options.max_upload, at_once=options.jobs)
    folder = options.folder or _default_folder()
    names = frozenset(name.lower() for name in options.allow_host)
    settings = Settings(folder.absolute(), limits, os.environ.get(TOKEN, ""), names)
    return serve(settings, options.host, options.port, options.token)


def _default_folder() -> Path:
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "atonc" / "serve"


def _size(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kmg]?)", text.strip().lower())
    if match is None or not float(match[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a size: write bytes, or 512M, or 4G")
    return round(float(match[1]) * _UNITS[match[2]])
