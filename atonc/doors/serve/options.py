"""What the user may ask of `atonc serve` beside the limits of jobs: every option once."""

from __future__ import annotations

from pathlib import Path

from atonc.machine.base.declare import AGAIN, PLAIN, Takes, option
from atonc.machine.base.frozen import dataclass

PORT = 8421
TOKEN = "ATONC_TOKEN"
_ASK = f"ask for a token on this machine too; {TOKEN} in the environment sets it, else a new one is printed"


@dataclass(frozen=True)
class ServeOptions:
    """Flags of the command line with their help, in their order."""

    host: str = option("127.0.0.1", "--host", PLAIN, "the address to listen on (default 127.0.0.1)")
    port: int = option(PORT, "--port", PLAIN, f"default {PORT}; 0 takes a free one", parse=int)
    folder: Path | None = option(
        None, "--folder", PLAIN, "builds and history (default ~/.local/share/atonc/serve)", metavar="DIR", parse=Path
    )
    token: bool = option(False, "--token", PLAIN, _ASK)
    allow_host: tuple[str, ...] = option(
        (), "--allow-host", PLAIN, "a name under which the page is opened", metavar="NAME", takes=Takes(many=AGAIN)
    )
