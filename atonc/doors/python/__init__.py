"""The Python interface: what `import atonc` hands on (docs/python.md)."""
