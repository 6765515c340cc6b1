"""Addresses for all buffers: lifetimes on steps, pools of the board, packing, and an independent check."""

from atonc.compiler.place.layout import place
from atonc.compiler.place.pools import BoardMemory, board, read_board
from atonc.compiler.place.types import Layout, Placed

__all__ = ["BoardMemory", "Layout", "Placed", "board", "place", "read_board"]
