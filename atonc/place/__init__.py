"""Addresses for all buffers: lifetimes on steps, pools of the board, packing, and an independent check."""

from atonc.place.layout import place
from atonc.place.pools import BoardMemory, board, read_board
from atonc.place.types import Layout, Placed

__all__ = ["BoardMemory", "Layout", "Placed", "board", "place", "read_board"]
