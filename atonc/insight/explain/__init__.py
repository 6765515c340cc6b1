"""What a compiled network does and why, as plain data that every view reads: text, JSON, HTML, traces."""

from atonc.insight.explain.types import BufferView, Decision, LayerView, NetworkView, PoolView, RemedyPrice, StepView

__all__ = ["BufferView", "Decision", "LayerView", "NetworkView", "PoolView", "RemedyPrice", "StepView"]
