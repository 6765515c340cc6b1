"""From a float model to an int8 one: calibrated, mended layer by layer, and tuned to what the NPU likes."""
