"""The command line: `python -m atonc`, the `atonc` command."""
