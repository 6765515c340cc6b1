/* SPDX-License-Identifier: Apache-2.0 */
#include "functions.h"
#include "vectors.h"

/* --- rows ---------------------------------------------------------------------------------------------------------- */

/* Rows of `count` values divided by their length. */
void atonc_l2_norm(void *out, const atonc_format *out_format, const void *in, const atonc_format *in_format,
                   int32_t rows, int32_t count)
{
  for (int32_t row = 0; row < rows; row++) {
    size_t first = (size_t)row * count;
    double total = 0.0;
    for (int32_t c = 0; c < count; c++) {
      double value = real_at(in, first + c, in_format);
      total = total + value * value;
    }
    double length = ATONC_MATH(sqrt)(larger(total, 1e-12));
    for (int32_t c = 0; c < count; c++) put(out, first + c, out_format, real_at(in, first + c, in_format) / length);
  }
}

#define SUMMED_IN_32_BITS 32768 /* squares of bytes */
#define ROWS_TOGETHER 32        /* that share what is worked out for each column */
#define COLUMNS_TOGETHER 64

/* Sums of a row of bytes less their zero point, and of their squares: both exact. */
static void byte_sums(const uint8_t *in, int32_t count, const atonc_format *format, double *sum, double *squares)
{
  int is_signed = format->type == ATONC_S8;
  double total = 0.0, square = 0.0, zero = format->zero;
  for (int32_t done = 0; done < count;) {
    int32_t part = count - done < SUMMED_IN_32_BITS ? count - done : SUMMED_IN_32_BITS, low = 0, high = 0, i = 0;
#ifdef ATONC_VECTORS
    for (; part - i >= 16; i += 16) {
      uint8x16_t bytes = vldrbq_u8(in + done + i);
      int8x16_t codes = vreinterpretq_s8_u8(bytes);
      low = is_signed ? vaddvaq_s8(low, codes) : (int32_t)vaddvaq_u8((uint32_t)low, bytes);
      high = is_signed ? vmladavaq_s8(high, codes, codes) : (int32_t)vmladavaq_u8((uint32_t)high, bytes, bytes);
    }
#endif
    for (; i < part; i++) {
      int32_t code = is_signed ? (int8_t)in[done + i] : in[done + i];
      low += code;
      high += code * code;
    }
    total = total + low;
    square = square + high;
    done += part;
  }
  *squares = square - 2.0 * zero * total + count * zero * zero;
  *sum = total - count * zero;
}

/* Of a row: what is taken from its values, and the length that they are divided by, in codes of the input. */
typedef struct {
  double mean, length;
} row_statistics;

static row_statistics statistics_of(const void *in, size_t first, const atonc_format *format, int32_t count,
                                    int32_t centred, double epsilon)
{
  double mean = 0.0, total = 0.0;
  if (format->type == ATONC_S8 || format->type == ATONC_U8) {
    double sum, squares;
    byte_sums((const uint8_t *)in + first, count, format, &sum, &squares);
    mean = centred ? sum / count : 0.0;
    total = centred ? ((double)count * squares - sum * sum) / count : squares;
  } else {
    if (centred) {
      for (int32_t c = 0; c < count; c++) mean = mean + (load(in, first + c, format->type) - format->zero);
      mean = mean / count;
    }
    for (int32_t c = 0; c < count; c++) {
      double value = load(in, first + c, format->type) - format->zero - mean;
      total = total + value * value;
    }
  }
  row_statistics found = {mean, ATONC_MATH(sqrt)(total / count + epsilon / (format->scale * format->scale))};
  return found;
}

/* What the columns have in common. */
typedef struct {
  const void *gain, *offset; /* null for 1 and 0 */
  const atonc_format *gain_format, *offset_format, *in_format, *out_format;
} norm_columns;

static void norm_values(void *out, const void *in, size_t first, int32_t column, int32_t count, row_statistics row,
                        const norm_columns *columns)
{
  for (int32_t c = column; c < column + count; c++) {
    const atonc_format *in_format = columns->in_format;
    double value = (load(in, first + c, in_format->type) - in_format->zero - row.mean) / row.length;
    if (columns->gain) value = value * real_at(columns->gain, c, columns->gain_format);
    if (columns->offset) value = value + real_at(columns->offset, c, columns->offset_format);
    put(out, first + c, columns->out_format, value);
  }
}

#ifdef ATONC_VECTORS
/* Gains and offsets of some columns in codes of the output; 0 where single precision would not decide. */
static int columns_in_codes(float *gains, float *offsets, int32_t first, int32_t count, const norm_columns *columns)
{
  double factor = 1.0 / columns->out_format->scale;
  for (int32_t c = 0; c < count; c++) {
    double gain = columns->gain ? real_at(columns->gain, first + c, columns->gain_format) * factor : factor;
    double offset = columns->offset ? real_at(columns->offset, first + c, columns->offset_format) * factor : 0.0;
    if (!(ATONC_MATH(fabs)(offset) < 1000.0) || !(ATONC_MATH(fabs)(gain) < 1e30)) return 0;
    gains[c] = (float)gain;
    offsets[c] = (float)offset;
  }
  return 1;
}

/* Four values after the other, exact where single precision leaves open what is nearest. `times` x code + `plus` is a
 * whole number of 24 bits. */
ATONC_INLINE int32_t norm_vectors(uint8_t *out, const uint8_t *in, size_t first, int32_t column, int32_t count,
                                  row_statistics row, const norm_columns *columns, const float *gains,
                                  const float *offsets, float times, int is_signed)
{
  code_range range = code_range_of(columns->out_format);
  float factor = (float)(1.0 / (row.length * times));
  float32x4_t all = vdupq_n_f32(times);
  float plus = (float)-((columns->in_format->zero + row.mean) * times);
  const uint8_t *from = in + first + column, *end = from + (count & ~3);
  uint8_t *to = out + first + column;
  if (!(factor < 1e30f && factor > 1e-30f)) return 0;
  while (from < end) {
    int32x4_t codes = is_signed ? vldrbq_s32((const int8_t *)from) : vreinterpretq_s32_u32(vldrbq_u32(from));
    float32x4_t value = vmulq_n_f32(vfmasq_n_f32(vcvtq_f32_s32(codes), all, plus), factor);
    value = vaddq_f32(vmulq_f32(value, vldrwq_f32(gains)), vldrwq_f32(offsets));
    int32x4_t whole = vcvtnq_s32_f32(value);
    if (near_a_tie(vabdq_f32(value, vcvtq_f32_s32(whole)), CERTAIN)) {
      norm_values(out, in, first, (int32_t)(from - in - first), 4, row, columns);
    } else {
      vstrbq_s32((int8_t *)to, codes_of(whole, &range));
    }
    from += 4;
    to += 4;
    gains += 4;
    offsets += 4;
  }
  return count & ~3;
}
#endif

/* Rows of `count` values, if `centred` less their mean, divided by the root of the mean of their squares plus epsilon,
 * times `gain`, plus `offset`: of each column, null for 1 and 0. */
void atonc_norm(void *out, const atonc_format *out_format, const void *in, const atonc_format *in_format, int32_t rows,
                int32_t count, int32_t centred, double epsilon, const void *gain, const atonc_format *gain_format,
                const void *offset, const atonc_format *offset_format)
{
  norm_columns columns = {gain, offset, gain_format, offset_format, in_format, out_format};
  row_statistics known[ROWS_TOGETHER];
  for (int32_t row = 0; row < rows; row += ROWS_TOGETHER) {
    int32_t together = rows - row < ROWS_TOGETHER ? rows - row : ROWS_TOGETHER;
    for (int32_t r = 0; r < together; r++) {
      known[r] = statistics_of(in, (size_t)(row + r) * count, in_format, count, centred, epsilon);
    }
    for (int32_t column = 0; column < count; column += COLUMNS_TOGETHER) {
      int32_t wide = count - column < COLUMNS_TOGETHER ? count - column : COLUMNS_TOGETHER;
#ifdef ATONC_VECTORS
      float gains[COLUMNS_TOGETHER], offsets[COLUMNS_TOGETHER], times = centred ? (float)count : 1.0f;
      int usual = (in_format->type == ATONC_S8 || in_format->type == ATONC_U8) && single_decides(out_format) &&
                  count <= SUMMED_IN_32_BITS && columns_in_codes(gains, offsets, column, wide, &columns);
#endif
      for (int32_t r = 0; r < together; r++) {
        size_t first = (size_t)(row + r) * count;
        int32_t done = 0;
#ifdef ATONC_VECTORS
        if (usual && in_format->type == ATONC_S8) {
          done = norm_vectors(out, in, first, column, wide, known[r], &columns, gains, offsets, times, 1);
        } else if (usual) {
          done = norm_vectors(out, in, first, column, wide, known[r], &columns, gains, offsets, times, 0);
        }
#endif
        norm_values(out, in, first, column + done, wide - done, known[r], &columns);
      }
    }
  }
}

/* in [outer][a_in][middle][b_in][inner]: blends neighbours `low` and `low + 1` along a, then along b if `axes` is 2. */
void atonc_resize_linear(void *out, const atonc_format *out_format, const void *in, const atonc_format *in_format,
                         int32_t axes, int32_t outer, int32_t a_in, int32_t a_out, int32_t middle, int32_t b_in,
                         int32_t b_out, int32_t inner, const int32_t *a_low, const double *a_weight,
                         const int32_t *b_low, const double *b_weight)
{
  size_t i = 0;
  for (int32_t o = 0; o < outer; o++) {
    for (int32_t a = 0; a < a_out; a++) {
      int32_t a_high = a_low[a] + 1 < a_in ? a_low[a] + 1 : a_in - 1;
      for (int32_t m = 0; m < middle; m++) {
        size_t low_row = (((size_t)o * a_in + a_low[a]) * middle + m) * b_in;
        size_t high_row = (((size_t)o * a_in + a_high) * middle + m) * b_in;
        for (int32_t b = 0; b < b_out; b++) {
          int32_t b_high = b_low[b] + 1 < b_in ? b_low[b] + 1 : b_in - 1;
          for (int32_t c = 0; c < inner; c++) {
            size_t low = (low_row + b_low[b]) * inner + c, high = (high_row + b_low[b]) * inner + c;
            double value = real_at(in, low, in_format) * (1.0 - a_weight[a]) + real_at(in, high, in_format) * a_weight[a];
            if (axes == 2) {
              low = (low_row + b_high) * inner + c;
              high = (high_row + b_high) * inner + c;
              double next = real_at(in, low, in_format) * (1.0 - a_weight[a]) + real_at(in, high, in_format) * a_weight[a];
              value = value * (1.0 - b_weight[b]) + next * b_weight[b];
            }
            put(out, i++, out_format, value);
          }
        }
      }
    }
  }
}

#ifdef ATONC_VECTORS
/* In rows of 16 bytes and more the last sixteen may be some of those before them. */
static int32_t extreme_of_blocks(const uint8_t *in, int32_t count, uint8x16_t flips, uint8_t flip)
{
  const uint8_t *last = in + count - 16;
  uint8x16_t largest = veorq_u8(vldrbq_u8(last), flips);
  for (const uint8_t *at = in; at < last; at += 16) largest = vmaxq_u8(largest, veorq_u8(vldrbq_u8(at), flips));
  uint8_t wanted = vmaxvq_u8(0, largest) ^ flip;
  for (const uint8_t *at = in; at < last; at += 16) {
    uint32_t found = vcmpeqq_n_u8(vldrbq_u8(at), wanted);
    if (found) return (int32_t)(at - in) + __builtin_ctz(found);
  }
  return count - 16 + __builtin_ctz(vcmpeqq_n_u8(vldrbq_u8(last), wanted));
}

/* The same for at most 32, without a branch. */
ATONC_INLINE int32_t extreme_of_two_blocks(const uint8_t *in, int32_t count, uint8x16_t flips)
{
  uint8x16_t first = veorq_u8(vldrbq_u8(in), flips), last = veorq_u8(vldrbq_u8(in + count - 16), flips);
  uint8_t most = vmaxvq_u8(0, vmaxq_u8(first, last));
  return __builtin_ctz(vcmpeqq_n_u8(first, most) | (uint32_t)vcmpeqq_n_u8(last, most) << (count - 16));
}

static void put_place(void *out, size_t i, int32_t out_type, int32_t place)
{
  if (out_type == ATONC_S32) {
    ((int32_t *)out)[i] = place;
  } else if (out_type == ATONC_S64) {
    ((int64_t *)out)[i] = place;
  } else {
    store(out, i, out_type, place);
  }
}

/* Rows of 16 bytes and more. */
static void extremes_of_long_rows(void *out, int32_t out_type, const uint8_t *in, int32_t rows, int32_t count,
                                  uint8_t flip)
{
  uint8x16_t flips = vdupq_n_u8(flip);
  size_t i = 0;
  if (count <= 32) {
    for (; rows > 0; rows--, in += count) put_place(out, i++, out_type, extreme_of_two_blocks(in, count, flips));
  } else {
    for (; rows > 0; rows--, in += count) put_place(out, i++, out_type, extreme_of_blocks(in, count, flips, flip));
  }
}
#endif

/* Of bytes that lie side by side: with `flip` the one that is asked for is the largest unsigned one. */
static int32_t extreme_byte(const uint8_t *in, int32_t count, uint32_t flip)
{
  uint32_t best = *in++ ^ flip;
  int32_t left = count; /* bytes from the one that was found to the end */
  for (int32_t rest = count - 1; rest > 0; rest--) {
    uint32_t value = *in++ ^ flip;
    if (value > best) {
      best = value;
      left = rest;
    }
  }
  return count - left;
}

#ifdef ATONC_VECTORS
#define ROWS_AT_ONCE 8

/* Of eight short rows: a byte and what is left of 255 behind its place make a number of 16 bits, so that the largest
 * one is the largest byte, and the first of equal ones. The byte with `flip` is the byte times 1 or -1 plus `flip`.
 * Places are written as numbers of 32 or 64 bits. */
static void extremes_of_rows(void *out, size_t first, int32_t out_type, const uint8_t *in, int32_t count, uint32_t flip)
{
  uint16_t places[ROWS_AT_ONCE];
  uint16x8_t rows = vmulq_n_u16(vidupq_n_u16(0, 1), (uint16_t)count);
  uint16x8_t factor = vdupq_n_u16(flip & 1 ? 0xFF00 : 0x0100), largest = vdupq_n_u16(0);
  uint32_t behind = (flip << 8) + 255;
  for (const uint8_t *end = in + count; in < end; in++) {
    largest = vmaxq_u16(largest, vmlasq_n_u16(vldrbq_gather_offset_u16(in, rows), factor, (uint16_t)behind--));
  }
  vstrhq_u16(places, vbicq_n_u16(vmvnq_u16(largest), 0xFF00));
  if (out_type == ATONC_S32) {
    vstrwq_u32((uint32_t *)out + first, vldrhq_u32(places));
    vstrwq_u32((uint32_t *)out + first + 4, vldrhq_u32(places + 4));
  } else {
    uint32x4x2_t low = {{vldrhq_u32(places), vdupq_n_u32(0)}}, high = {{vldrhq_u32(places + 4), vdupq_n_u32(0)}};
    vst2q_u32((uint32_t *)out + 2 * first, low);
    vst2q_u32((uint32_t *)out + 2 * first + 8, high);
  }
}
#endif

/* in [outer][count][inner]: position of the first largest (or smallest) code. */
void atonc_arg_extreme(void *out, int32_t out_type, const void *in, int32_t in_type, int32_t outer, int32_t count,
                       int32_t inner, int32_t smallest)
{
  size_t i = 0;
  if ((in_type == ATONC_S8 || in_type == ATONC_U8) && inner == 1 && count > 0) {
    uint32_t flip = (in_type == ATONC_S8 ? 0x80 : 0) ^ (smallest ? 0xFF : 0);
    int32_t o = 0;
#ifdef ATONC_VECTORS
    if (count >= 16) {
      extremes_of_long_rows(out, out_type, in, outer, count, (uint8_t)flip);
      return;
    }
    int together = out_type == ATONC_S32 || out_type == ATONC_S64;
    for (; together && o + ROWS_AT_ONCE <= outer; o += ROWS_AT_ONCE, i += ROWS_AT_ONCE) {
      extremes_of_rows(out, i, out_type, AT(in, (size_t)o * count), count, flip);
    }
#endif
    for (; o < outer; o++) store(out, i++, out_type, extreme_byte(AT(in, (size_t)o * count), count, flip));
    return;
  }
  for (int32_t o = 0; o < outer; o++) {
    for (int32_t k = 0; k < inner; k++) {
      size_t first = (size_t)o * count * inner + k;
      double best = load(in, first, in_type);
      int32_t found = 0;
      for (int32_t c = 1; c < count && best == best; c++) {
        double value = load(in, first + (size_t)c * inner, in_type);
        if ((smallest ? value < best : value > best) || value != value) {
          best = value;
          found = c;
        }
      }
      store(out, i++, out_type, found);
    }
  }
}
