"""Where a quantised network loses accuracy: every layer against float, what costs most, and what mends it, tried.

`twin.py` is the network without any rounding and finds its tensors in the float model, `measure.py` runs both beside
the exact and the NPU's integers, `symptoms.py` says what is wrong with a layer that costs much, `edits.py` changes the
network, and `explain.py` measures it again and makes the report.
"""
