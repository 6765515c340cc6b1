"""`atonc.estimate`: what a model would cost on the chip, before anybody trains or quantises it.

`assume.py` gives codes to a float graph and plain weights to any graph, `estimate.py` builds the program of that once,
without any search.
"""
