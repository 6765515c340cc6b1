"""`atonc view DIR`: the report of a build in the browser."""

from __future__ import annotations

import argparse
from pathlib import Path

from atonc.delivery.generate.comparing import network
from atonc.doors.verbs.common import add_picture_options, write_pictures
from atonc.machine.base.disk import write_file
from atonc.machine.base.errors import InputError


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("view", help="the HTML report of a build, served on this machine")
    parser.set_defaults(verb=_view)
    parser.add_argument(
        "place", type=Path, metavar="DIR", help="folder that atonc or ST's compiler wrote, its C file, or a model"
    )
    parser.add_argument("--port", type=int, default=8000, help="on 127.0.0.1 (default 8000; 0 takes a free one)")
    parser.add_argument("--save", type=Path, metavar="FILE.html", help="write the page instead of serving it")
    add_picture_options(parser)


def _view(options: argparse.Namespace) -> int:
    from atonc.delivery.generate import preflight

    for file in (options.save, options.trace, options.annotate):
        preflight.check_file(file)
    from atonc.insight.report.html import html_page

    found = network(options.place)
    write_pictures(found, options)
    page = html_page(found)
    if options.save:
        write_file(options.save, page)
        print(f"wrote {options.save}")
        return 0
    _serve(page, options.port)
    return 0


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
