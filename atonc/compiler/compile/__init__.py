"""The whole way: the stages in a row (`pipeline.py`), and everything that one compilation gave."""
