"""`python -m atonc`."""

import sys

from atonc.doors.cli.start import main

if __name__ == "__main__":
    sys.exit(main())
