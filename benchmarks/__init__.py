"""What programs, tools and claims are measured with: `python -m benchmarks --list` names them, README.md too.

Every file beside `door.py` is one benchmark: a docstring whose first sentence says what it asks, `GROUP`, `ARGUMENTS`
and `run(arguments)`. What several of them need lies in `shared`.
"""

import sys
from pathlib import Path

_STARTED = Path(str(getattr(sys.modules.get("__main__"), "__file__", "") or ""))
if _STARTED.parent.name == "benchmarks" and _STARTED.stem != "__main__":
    sys.exit(f"a benchmark is started from the checkout's folder with: python -m benchmarks {_STARTED.stem}")
