/* SPDX-License-Identifier: Apache-2.0 */
#include "numbers.h"
#include "loops.h"
#include "vectors.h"

/* --- memory -------------------------------------------------------------------------------------------------------- */

/* Copies bytes; the areas may overlap or be the same. */
void atonc_copy(void *out, const void *in, uint32_t bytes)
{
  uint8_t *to = out;
  const uint8_t *from = in;
  if (to == from) return;
  if ((uintptr_t)to < (uintptr_t)from) {
#ifdef ATONC_VECTORS
    copy_forward(to, from, bytes, 0);
    return;
#endif
    for (uint32_t i = 0; i < bytes; i++) to[i] = from[i];
  } else {
    for (uint32_t i = bytes; i > 0; i--) to[i - 1] = from[i - 1];
  }
}

/* Writes `count` times the same `item_bytes` bytes. */
void atonc_fill(void *out, const uint8_t *item, uint32_t item_bytes_, uint32_t count)
{
  uint8_t *to = out;
#ifdef ATONC_VECTORS
  if (item_bytes_ == 1) {
    for (uint32_t i = 0; i < count; i += 16) vstrbq_p_u8(to + i, vdupq_n_u8(item[0]), vctp8q(count - i));
    return;
  }
#endif
  for (uint32_t i = 0; i < count; i++) {
    for (uint32_t k = 0; k < item_bytes_; k++) *to++ = item[k];
  }
}

#ifdef ATONC_VECTORS
/* One row of loops over single bytes or words that end side by side, `step` bytes apart before: 0 where places do not
 * fit the lanes. Words are aligned, or nobody could read them. */
static int gather_items(uint8_t *to, const uint8_t *from, uint32_t item, int32_t count, int32_t step)
{
  int32_t k = 0;
  if (item == 4 && step % 4 == 0 && ((uintptr_t)to | (uintptr_t)from) % 4 == 0) {
    uint32x4_t places = vmulq_n_u32(vidupq_n_u32(0, 1), (uint32_t)step);
    for (; k < count; k += 4) {
      mve_pred16_t lanes = vctp32q((uint32_t)(count - k));
      const uint32_t *base = (const uint32_t *)(const void *)(from + (ptrdiff_t)k * step);
      vstrwq_p_u32((uint32_t *)(void *)(to + 4 * k), vldrwq_gather_offset_z_u32(base, places, lanes), lanes);
    }
    return 1;
  }
  if (item != 1 || step < 0 || step > 65535 / 8) return 0;
  uint16x8_t places = vmulq_n_u16(vidupq_n_u16(0, 1), (uint16_t)step);
  for (; k < count; k += 8) {
    mve_pred16_t lanes = vctp16q((uint32_t)(count - k));
    vstrbq_p_u16(to + k, vldrbq_gather_offset_z_u16(from + (ptrdiff_t)k * step, places, lanes), lanes);
  }
  return 1;
}

/* With the innermost loop at once: 0 where it is not of that kind. */
static int move_rows(void *out, const void *in, uint32_t item, int32_t rank, const int32_t *loops)
{
  const int32_t *inner = loops + 3 * (rank - 1);
  walker w = start_walk();
  if (rank < 1 || inner[0] < 4 || inner[1] != (int32_t)item) return 0;
  do {
    if (!gather_items((uint8_t *)out + w.at[0], AT(in, w.at[1]), item, inner[0], inner[2])) return 0;
  } while (advance(&w, rank - 1, loops, 3));
  return 1;
}
#endif

/* Runs of a few bytes are not worth a vector. */
static void copy_run(uint8_t *to, const uint8_t *from, uint32_t bytes)
{
#ifdef ATONC_VECTORS
  if (bytes >= 8) {
    copy_forward(to, from, bytes, 0);
    return;
  }
#endif
  for (uint32_t i = 0; i < bytes; i++) to[i] = from[i];
}

/* Nested loops, outermost first, each a row {count, out step, in step} in bytes, around runs of `run_bytes` bytes.
 * With a table every byte of a run goes through it. */
void atonc_move(void *out, const void *in, uint32_t run_bytes, int32_t rank, const int32_t *loops,
                const uint8_t *table)
{
  walker w = start_walk();
  if (is_empty(rank, loops, 3)) return;
#ifdef ATONC_VECTORS
  if (table == 0 && move_rows(out, in, run_bytes, rank, loops)) return;
#endif
  do {
    uint8_t *to = (uint8_t *)out + w.at[0];
    const uint8_t *from = (const uint8_t *)in + w.at[1];
    if (table == 0) {
      copy_run(to, from, run_bytes);
    } else {
      for (uint32_t i = 0; i < run_bytes; i++) to[i] = table[from[i]];
    }
  } while (advance(&w, rank, loops, 3));
}

/* Picks positions along two axes: in [outer][a_in][middle][b_in][run], out [outer][a_out][middle][b_out][run]. */
void atonc_take(void *out, const void *in, int32_t outer, int32_t a_in, int32_t a_out, int32_t middle, int32_t b_in,
                int32_t b_out, uint32_t run_bytes, const int32_t *a_index, const int32_t *b_index)
{
  uint8_t *to = out;
  for (int32_t o = 0; o < outer; o++) {
    for (int32_t a = 0; a < a_out; a++) {
      for (int32_t m = 0; m < middle; m++) {
        const uint8_t *row = AT(in, (((size_t)o * a_in + a_index[a]) * middle + m) * b_in * run_bytes);
        for (int32_t b = 0; b < b_out; b++) {
          const uint8_t *from = row + (size_t)b_index[b] * run_bytes;
          copy_run(to, from, run_bytes);
          to += run_bytes;
        }
      }
    }
  }
}

static int32_t inside(double index, int32_t size)
{
  if (index < 0) index = index + size;
  if (!(index > 0)) return 0;
  return index >= size ? size - 1 : (int32_t)index;
}

/* in [outer][size][run]: picks by indices that are data; negative ones count from the end, others are kept inside. */
void atonc_gather(void *out, const void *in, int32_t outer, int32_t size, uint32_t run_bytes, const void *indices,
                  int32_t index_type, int32_t count)
{
  uint8_t *to = out;
  for (int32_t o = 0; o < outer; o++) {
    for (int32_t k = 0; k < count; k++) {
      size_t place = (size_t)o * size + inside(load(indices, k, index_type), size);
      const uint8_t *from = AT(in, place * run_bytes);
      for (uint32_t i = 0; i < run_bytes; i++) *to++ = from[i];
    }
  }
}

/* Every tuple of `depth` indices picks a run; `axes` has rows {size, step in bytes}. */
void atonc_gather_nd(void *out, const void *in, uint32_t run_bytes, const void *indices, int32_t index_type,
                     int32_t tuples, int32_t depth, const int32_t *axes)
{
  uint8_t *to = out;
  for (int32_t t = 0; t < tuples; t++) {
    const uint8_t *from = in;
    for (int32_t k = 0; k < depth; k++) {
      int32_t index = inside(load(indices, (size_t)t * depth + k, index_type), axes[2 * k]);
      from += (size_t)index * axes[2 * k + 1];
    }
    for (uint32_t i = 0; i < run_bytes; i++) *to++ = from[i];
  }
}

#ifdef ATONC_VECTORS
/* Channels of up to eight kernels that lie side by side in the matrix, or one behind the other. */
static int pack_some(int8_t *to, const int8_t *from, ptrdiff_t across, ptrdiff_t along, int32_t some,
                     const int32_t *unit)
{
  int32_t count = unit[1];
  if (across == 1) {
    mve_pred16_t lanes = vctp16q((uint32_t)some);
    uint16x8_t mask = vdupq_n_u16((uint16_t)unit[2]), turned = vdupq_n_u16((uint16_t)unit[3]);
    for (int32_t c = 0; c < count; c++, from += along, to += some) {
      uint16x8_t codes = vldrbq_z_u16((const uint8_t *)from, lanes);
      vstrbq_p_u16((uint8_t *)to, veorq_u16(vandq_u16(codes, mask), turned), lanes);
    }
    return 1;
  }
  if (along != 1) return 0;
  uint8x16_t places = vmulq_n_u8(vidupq_n_u8(0, 1), (uint8_t)some);
  uint8x16_t mask = vdupq_n_u8((uint8_t)unit[2]), turned = vdupq_n_u8((uint8_t)unit[3]);
  for (int32_t k = 0; k < some; k++) {
    for (int32_t c = 0; c < count; c += 16) {
      mve_pred16_t lanes = vctp8q((uint32_t)(count - c));
      uint8x16_t codes = vldrbq_z_u8((const uint8_t *)from + k * across + c, lanes);
      codes = veorq_u8(vandq_u8(codes, mask), turned);
      vstrbq_scatter_offset_p_u8((uint8_t *)to + some * c + k, places, codes, lanes);
    }
  }
  return 1;
}
#endif

/* The kernels of one unit: eight at a time [channel][kernel], then the others; zeros up to a whole word. */
static int8_t *pack_unit(int8_t *to, const int8_t *from, ptrdiff_t across, ptrdiff_t along, int32_t kernels,
                         int32_t channels, const int32_t *unit)
{
  int8_t *end = to + ((size_t)kernels * (size_t)channels + 2) / 3 * 3;
  uint8_t value = (uint8_t)unit[3], zero = 0;
  from += unit[0] * along;
  for (int32_t k = 0; k < kernels; k += 8, from += 8 * across) {
    int32_t some = kernels - k < 8 ? kernels - k : 8, done = 0;
    if (unit[2] == 0) {
      atonc_fill(to, &value, 1, (uint32_t)(some * unit[1]));
      done = unit[1];
    }
#ifdef ATONC_VECTORS
    if (!done && pack_some(to, from, across, along, some, unit)) done = unit[1];
#endif
    for (int32_t c = done; c < unit[1]; c++) {
      for (int32_t j = 0; j < some; j++) {
        to[c * some + j] = (int8_t)((from[j * across + c * along] & unit[2]) ^ unit[3]);
      }
    }
    atonc_fill(to + unit[1] * some, &zero, 1, (uint32_t)((channels - unit[1]) * some));
    to += channels * some;
  }
  while (to < end) *to++ = 0;
  return end;
}

/* Matrices of bytes in the order in which convolvers read kernels: of every set of `kernels` columns those of each
 * unit, a row {first channel, channels, mask, value} of `table`: (code & mask) ^ value. `turned`: depth lies last.
 * All whole sets of a matrix, and one that is left over, take whole blocks of 16 bytes. */
void atonc_pack_kernels(int8_t *out, const int8_t *in, int32_t matrices, int32_t columns, int32_t depth,
                        int32_t turned, int32_t kernels, int32_t channels, int32_t units, const int32_t *table)
{
  ptrdiff_t across = turned ? depth : 1, along = turned ? 1 : columns;
  int8_t *first = out;
  for (int32_t m = 0; m < matrices; m++, in += (ptrdiff_t)columns * depth) {
    for (int32_t k = 0; k < columns; k += kernels) {
      int32_t some = columns - k < kernels ? columns - k : kernels;
      for (int32_t u = 0; u < units; u++) {
        out = pack_unit(out, in + k * across, across, along, some, channels, table + 4 * u);
      }
      while (columns - k - some < kernels && (out - first) % 16 != 0) *out++ = 0;
    }
  }
}
