"""Parts of buffers as nested steps, so that movement operators are pairs of views of equal shape."""

from __future__ import annotations

from dataclasses import replace

from atonc.machine.base.frozen import dataclass


@dataclass(frozen=True)
class StridedView:
    """Elements of one byte: `shape` of them, `strides` bytes apart, from `offset` of a buffer on."""

    buffer: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @staticmethod
    def whole(buffer: str, shape: tuple[int, ...], item_bytes: int = 1) -> StridedView:
        """All of a buffer in the order of its shape; wider elements get a last dimension of bytes."""
        dims = shape if item_bytes == 1 else (*shape, item_bytes)
        strides, step = [], 1
        for size in reversed(dims):
            strides.append(step)
            step *= size
        return StridedView(buffer, dims, tuple(reversed(strides)))

    @property
    def elements(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count

    def cut(self, axis: int, start: int, count: int, step: int = 1) -> StridedView:
        """`count` indices of one axis from `start` on, `step` apart (which may be negative)."""
        return self._changed(axis, ((count, self.strides[axis] * step),), start * self.strides[axis])

    def split(self, axis: int, *sizes: int) -> StridedView:
        """One axis as several, the last one the fastest."""
        parts, step = [], self.strides[axis]
        for size in reversed(sizes):
            parts.append((size, step))
            step *= size
        return self._changed(axis, tuple(reversed(parts)))

    def pick(self, axis: int, index: int) -> StridedView:
        """One index of an axis, which disappears."""
        return self._changed(axis, (), index * self.strides[axis])

    def repeat(self, axis: int, count: int) -> StridedView:
        """A new axis along which nothing changes."""
        return replace(
            self,
            shape=(*self.shape[:axis], count, *self.shape[axis:]),
            strides=(*self.strides[:axis], 0, *self.strides[axis:]),
        )

    def transpose(self, order: tuple[int, ...]) -> StridedView:
        rest = tuple(range(len(order), len(self.shape)))  # bytes of wide elements stay last
        axes = (*order, *rest)
        return replace(self, shape=tuple(self.shape[a] for a in axes), strides=tuple(self.strides[a] for a in axes))

    def _changed(self, axis: int, parts: tuple[tuple[int, int], ...], offset: int = 0) -> StridedView:
        sizes, steps = tuple(n for n, _ in parts), tuple(s for _, s in parts)
        return StridedView(
            self.buffer,
            (*self.shape[:axis], *sizes, *self.shape[axis + 1 :]),
            (*self.strides[:axis], *steps, *self.strides[axis + 1 :]),
            self.offset + offset,
        )
