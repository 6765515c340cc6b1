"""Outputs of detectors as boxes: one file for each family."""

from atonc.insight.evaluating.decoders.boxes import Boxes, Decoder
from atonc.insight.evaluating.decoders.choose import decoder_for

__all__ = ["Boxes", "Decoder", "decoder_for"]
