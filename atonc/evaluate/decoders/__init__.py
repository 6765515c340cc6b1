"""Outputs of detectors as boxes: one file for each family."""

from atonc.evaluate.decoders.boxes import Boxes, Decoder
from atonc.evaluate.decoders.choose import decoder_for

__all__ = ["Boxes", "Decoder", "decoder_for"]
