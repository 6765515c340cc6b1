"""`python -m benchmarks NAME`: see door.py."""

import sys

from benchmarks.door import main

if __name__ == "__main__":
    sys.exit(main())
