"""`atonc view DIR`: the report of a build in the browser."""

from __future__ import annotations

import argparse
from pathlib import Path

from atonc.errors import InputError
from atonc.verbs.compare import network


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("view", help="the HTML report of a build, served on this machine")
    parser.set_defaults(verb=_view)
    parser.add_argument("place", type=Path, metavar="DIR", help="folder that atonc or ST's compiler wrote, or a model")
    parser.add_argument("--port", type=int, default=8000, help="on 127.0.0.1 (default 8000; 0 takes a free one)")
    parser.add_argument("--save", type=Path, metavar="FILE.html", help="write the page instead of serving it")
    parser.add_argument("--trace", type=Path, metavar="FILE.json", help="also write a Perfetto trace")


def _view(options: argparse.Namespace) -> int:
    from atonc.report.html import html_page
    from atonc.report.perfetto import trace

    found = network(options.place)
    if options.trace:
        _write(options.trace, trace(found))
    page = html_page(found)
    if options.save:
        _write(options.save, page)
        print(f"wrote {options.save}")
        return 0
    _serve(page, options.port)
    return 0


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", where=str(path)) from None


def _serve(page: bytes, port: int) -> None:
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.path in ("/", "/report.html")
            self.send_response(200 if known else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(page if known else b"not found")

        def log_message(self, format: str, *args: object) -> None:
            """Quiet: the terminal shows the address only."""

    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        raise InputError(f"port {port} cannot be used: {error.strerror}", remedy="name another with --port") from None
    print(f"http://127.0.0.1:{server.server_port}/ (Ctrl-C ends it)", flush=True)
    server.serve_forever()
