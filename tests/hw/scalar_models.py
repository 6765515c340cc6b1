"""Slow, obvious models of the NPU's units, written from the description of the hardware: plain integers, plain loops.

A stream is a list of words of 24 bits (three lanes of 8, lane 0 lowest). A consumer takes the low bytes of a word and
extends the sign unless it reads unsigned; a producer's result is sign-extended to 24 bits on the link.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

WORD = 0xFFFFFF


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >= 1 << (bits - 1) else value


def take(word: int, nbytes: int, unsigned: bool) -> int:
    """What a consumer sees of a word."""
    low = word & ((1 << 8 * nbytes) - 1)
    return low if unsigned else signed(low, 8 * nbytes)


def shift(value: int, by: int, rounded: bool) -> int:
    """Right shift: half away from zero, or towards minus infinity without rounding."""
    if not rounded or by == 0:
        return value >> by
    magnitude = (abs(value) + (1 << (by - 1))) >> by
    return magnitude if value >= 0 else -magnitude


def saturate(value: int, nbytes: int, unsigned: bool = False) -> int:
    low, high = (0, (1 << 8 * nbytes) - 1) if unsigned else (-(1 << (8 * nbytes - 1)), (1 << (8 * nbytes - 1)) - 1)
    return max(low, min(high, value))


def output(value: int, by: int, nbytes: int, rounded: bool, saturated: bool) -> int:
    value = shift(value, by, rounded)
    return saturate(value, nbytes) if saturated else signed(value, 8 * nbytes)


def rows_of(values: Sequence[int], height: int, width: int, batch: int, step: int) -> list[list[list[int]]]:
    """Values as [row][column][channel]; `step` values per pixel, of which the first `batch` count."""
    return [[[values[(y * width + x) * step + k] for k in range(batch)] for x in range(width)] for y in range(height)]


# stream engines


def engine_addresses(e) -> Iterator[int]:
    """Address of every element, in stream order."""
    size = sum(1 for bits in (e.size0, e.size1, e.size2) if bits)
    for k in range(e.frames):
        if e.raw:
            elements = e.fsize_high * 65536 + e.fsize_low
            frame_bytes = elements * size
        if e.raw and e.continuous:
            frame = e.address + k * frame_bytes
        elif e.frame_repeat > 0:
            frame = e.address + (k % e.frame_repeat) * e.frame_offset + (k // e.frame_repeat) * e.repeat_offset
        else:
            frame = e.address + k * e.frame_offset
        if e.raw:
            for n in range(elements):
                yield frame + n * size
        else:
            line_offset = signed(e.line_offset_high * 65536 + e.line_offset_low, 32)
            pixel_offset = e.pixel_offset_high * 65536 + e.pixel_offset_low
            for line in range(e.fsize_high):
                for pixel in range(e.fsize_low):
                    for n in range(e.depth):
                        yield frame + line * line_offset + pixel * pixel_offset + n * size


def engine_read(e, memory: bytes, base: int) -> list[int]:
    size = sum(1 for bits in (e.size0, e.size1, e.size2) if bits)
    words = []
    for address in engine_addresses(e):
        word = sum(memory[address - base + lane] << 8 * lane for lane in range(size))
        if e.align_right and e.sign_extend:
            word = signed(word, 8 * size) & WORD
        words.append(word)
    return words


def engine_write(e, words: Sequence[int], memory: bytearray, base: int) -> None:
    size = sum(1 for bits in (e.size0, e.size1, e.size2) if bits)
    for address, word in zip(engine_addresses(e), words, strict=False):
        for lane in range(size):
            memory[address - base + lane] = word >> 8 * lane & 0xFF


def passed_frames(enabled0: bool, frames0: int, enabled1: bool, frames1: int, frames: int) -> list[int]:
    """Numbers of the frames that a link with two alternating contexts lets through."""
    kept, context, left = [], 0, frames0
    for number in range(frames):
        if frames0 == frames1 == 0:
            context = 0
        else:
            while left == 0:
                context = 1 - context
                left = frames1 if context else frames0
            left -= 1
        if enabled1 if context else enabled0:
            kept.append(number)
    return kept


# CONVACC


def conv_frame_words(c) -> int:
    """Words of one feature frame."""
    width = c.line_elements // c.batch
    if c.deep or c.dss2:
        lanes = 3 if c.deep else 2
        if c.feature_bytes == 1:  # packed per pixel
            return c.height * width * -(-c.batch // lanes)
        return -(-c.height * width * c.batch // lanes)
    return c.height * width * c.batch


def conv_features(c, words: Sequence[int]) -> list[list[list[int]]]:
    """One feature frame as [row][column][channel]."""
    width = c.line_elements // c.batch
    unsigned = bool(c.features_unsigned)
    if c.deep or c.dss2:
        lanes = 3 if c.deep else 2
        per_pixel = -(-c.batch // lanes)
        taken = [take(word >> 8 * lane, 1, unsigned) for word in words for lane in range(lanes)]
        if c.feature_bytes == 1:
            step = per_pixel * lanes
            return rows_of(taken, c.height, width, c.batch, step)
    else:
        taken = [take(word, c.feature_bytes, unsigned) for word in words]
    return rows_of(taken, c.height, width, c.batch, c.batch)


def conv_set_bytes(c) -> int:
    """Bytes that the kernel stream carries for one output frame."""
    each = c.kernel_height * c.kernel_width * c.batch * (2 if c.simd == 0 else 1)
    kernels = max(c.kernels, c.kernels_per_round)
    if not c.deep:
        return kernels * each
    return -(-c.kernels * each // 3) * 3 * (kernels // c.kernels)


def conv_kernels(c, raw: bytes) -> list[list[list[list[int]]]]:
    """The kernels that the unit keeps of one round, as [kernel][row][column][channel]."""
    unsigned = bool(c.kernels_unsigned)
    if c.deep:
        return _deep_kernels(c, raw, unsigned)
    size = 2 if c.simd == 0 else 1
    position, kernels = 0, []
    for _ in range(max(c.kernels, c.kernels_per_round)):
        kernel = [[[0] * c.batch for _ in range(c.kernel_width)] for _ in range(c.kernel_height)]
        for y in range(c.kernel_height):
            for x in range(c.kernel_width):
                for k in range(c.batch):
                    kernel[y][x][k] = take(int.from_bytes(raw[position : position + size], "little"), size, unsigned)
                    position += size
        kernels.append(kernel)
    return kernels[c.kernel_first : c.kernel_last + 1] if c.kernels_per_round > c.kernels else kernels


def _deep_kernels(c, raw: bytes, unsigned: bool) -> list[list[list[list[int]]]]:
    """Blocks of NR kernels, each block in chunks of eight: for every channel, for every kernel of the chunk."""
    block = -(-c.kernels * c.batch // 3) * 3
    start = c.kernel_first // c.kernels * block if c.kernels_per_round > c.kernels else 0
    kernels = [[[[0] * c.batch]] for _ in range(c.kernels)]
    position = start
    for first in range(0, c.kernels, 8):
        for k in range(c.batch):
            for kernel in range(first, min(first + 8, c.kernels)):
                kernels[kernel][0][0][k] = take(raw[position], 1, unsigned)
                position += 1
    return kernels


def conv_padded(c, frame: list[list[list[int]]]) -> list[list[list[int]]]:
    """Crop, take the zero point off, put the constant frame around it, then the window padding of zeros."""
    width = c.line_elements // c.batch
    left, right = c.crop_left // c.batch, min(width - 1, c.crop_right // c.batch)
    rows = [row[left : right + 1] for row in frame[c.crop_top : c.crop_bottom + 1]]
    rows = [[[value - c.feature_offset for value in pixel] for pixel in row] for row in rows]
    horizontal = (c.frame_left // c.batch, c.frame_right // c.batch)
    rows = _surround(rows, (c.frame_top, c.frame_bottom), horizontal, [c.frame_value] * c.batch)
    return _surround(rows, (c.pad_top, c.pad_bottom), (c.pad_left, c.pad_right), [0] * c.batch)


def _surround(rows, vertical: tuple[int, int], horizontal: tuple[int, int], pixel: list[int]):
    rows = [[pixel] * horizontal[0] + row + [pixel] * horizontal[1] for row in rows]
    empty = [pixel] * len(rows[0])
    return [empty] * vertical[0] + rows + [empty] * vertical[1]


def conv_sums(c, frame: list[list[list[int]]], kernels: list[list[list[list[int]]]]) -> list[int]:
    """Sums of one output frame, row by row, column by column, kernel fastest."""
    padded = conv_padded(c, frame)
    height = (len(padded) - c.kernel_height) // c.stride_y + 1
    width = (len(padded[0]) - c.kernel_width) // c.stride_x + 1
    sums = []
    for y in range(height):
        for x in range(width):
            for kernel in kernels:
                total = 0
                for i in range(c.kernel_height):
                    for j in range(c.kernel_width):
                        pixel = padded[y * c.stride_y + i][x * c.stride_x + j]
                        total += sum(f * k for f, k in zip(pixel, kernel[i][j], strict=True))
                sums.append(total)
    return sums


def conv_all(c, words: Sequence[int], raw: bytes) -> list[list[int]]:
    """Sums of all output frames that features and kernels suffice for."""
    size, set_size = conv_frame_words(c), conv_set_bytes(c)
    repeat = c.stationary_sets if c.feature_stationary else 1
    frames = []
    for number in range(min(len(words) // size * repeat, len(raw) // set_size)):
        loaded = number // repeat
        features = conv_features(c, words[loaded * size : (loaded + 1) * size])
        kernels = conv_kernels(c, raw[number * set_size : (number + 1) * set_size])
        frames.append(conv_sums(c, features, kernels))
    return frames


def conv_output(c, total: int) -> int:
    unsigned = bool(c.features_unsigned and c.kernels_unsigned)
    return saturate(shift(total, c.out_shift, bool(c.rounded)), c.out_bytes, unsigned)


# ARITH


def arith_rows(c, elements: int) -> list[int]:
    """Coefficient row of each element."""
    rows, row = [], c.start_row
    first = (c.count1, c.reset1_every, c.offset1)
    second = (c.count2, c.reset2_every, c.offset2)
    third = (c.count3, c.reset3_every, c.offset3)
    for n in range(elements):
        rows.append(row)
        step = c.step if (n + 1) % (c.step_every + 1) == 0 else 0
        for enabled, every, offset in (first, second, third):
            if enabled and (n + 1) % (every + 1) == 0:
                step = offset
        row = (row + step) % 512
    return rows


def arith(c, xs: Sequence[int], ys: Sequence[int] | None, table: Sequence[tuple[int, int, int]]) -> list[int]:
    """Results for words x and, with a second input, y."""
    count = len(xs) if ys is None else min(len(xs), len(ys))
    rows = arith_rows(c, count)
    results = []
    for n in range(count):
        x = take(xs[n], c.bytes_x, False)
        y = None if ys is None else take(ys[n], c.bytes_y, False)
        a = table[rows[n]][0] if c.vector_a else c.a
        b = table[rows[n]][1] if c.vector_b else c.b
        k = table[rows[n]][2] if c.vector_c else c.c
        result = _arith_operation(c, x, y, a, b, k)
        result = output(result, c.shift_out, c.out_bytes, bool(c.rounded), bool(c.saturated))
        if c.clip_out:
            result = signed(max(c.clip_min, min(c.clip_max, result)), 8 * c.out_bytes)
        results.append(result)
    return results


def _arith_operation(c, x: int, y: int | None, a: int, b: int, k: int) -> int:
    if c.operation == 7:
        return x * y
    if c.operation == 1:
        return min(x, y)
    if c.operation == 2:
        return max(x, y)
    if c.operation == 0x37:
        return max(a, min(k, x))
    total = shift(a * x, c.shift_a, bool(c.rounded))
    if c.combine_bc:
        return total + signed((b & 0xFFFF) << 16 | k & 0xFFFF, 32)
    if y is not None:
        total += shift(b * y, c.shift_b, bool(c.rounded))
    return total + (k << c.shift_c)


# ACTIV


def activ(c, word: int, rom0: Sequence[int], rom1: Sequence[tuple[int, int, int]]) -> int:
    x = take(word, 1, False)
    if c.type == 2:
        return x if x > c.parameter else c.parameter2
    bits = format(x + 128, "08b")
    selector = rom0[int("0" + bits[: c.index_bits], 2)]
    inner, base = selector >> 6, selector & 63
    following = bits[c.index_bits : c.index_bits + inner]
    a, b, k = rom1[(base + int("0" + following, 2)) % 64]
    total = a * x * x + (b << c.shift_b) * x + (k << c.shift_c)
    return output(total, c.out_shift, 1, bool(c.rounded), bool(c.saturated))


# POOL


def pool_frame(c, words: Sequence[int]) -> list[int]:
    """Results of one frame."""
    width, batch = c.line_elements // c.batch, c.batch
    values = [take(word, c.feature_bytes, False) for word in words]
    rows = rows_of(values, c.height, width, batch, batch)
    if c.crop_enable:
        rows = [row[c.crop_left // batch : c.crop_right // batch + 1] for row in rows[c.crop_top : c.crop_bottom + 1]]
    if c.type == 10:
        totals = [sum(pixel[k] for row in rows for pixel in row) for k in range(batch)]
        return [_scaled(c, total) for total in totals]
    results = []
    for y in range(c.out_height):
        for x in range(c.out_width):
            window = [
                rows[y * c.stride_y + i][x * c.stride_x + j] for i in range(c.window_y) for j in range(c.window_x)
            ]
            for k in range(batch):
                inside = [pixel[k] for pixel in window]
                results.append(max(inside) if c.type == 0 else _scaled(c, sum(inside)))
    return results


def _scaled(c, total: int) -> int:
    return output(total * c.multiplier, c.out_shift, c.out_bytes, bool(c.rounded), bool(c.saturated))
