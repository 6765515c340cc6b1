/* SPDX-License-Identifier: Apache-2.0 */
#include "functions.h"
#include "vectors.h"

/* --- rows ---------------------------------------------------------------------------------------------------------- */

static uint8_t largest_code(const uint8_t *row, uint8_t flip, int32_t count, int32_t inner)
{
  uint8_t most = 0;
  for (int32_t c = 0; c < count; c++) {
    uint8_t code = row[(size_t)c * inner] ^ flip;
    if (code > most) most = code;
  }
  return most;
}

/* In the order of memory; `exponentials` begin at the one of the largest code. */
static double total_of_row(const uint8_t *row, uint8_t flip, uint8_t most, int32_t count, int32_t inner,
                           const double *exponentials)
{
  double total = 0.0;
  for (int32_t c = 0; c < count; c++) total = total + exponentials[most - (row[(size_t)c * inner] ^ flip)];
  return total;
}

#ifdef ATONC_VECTORS
/* What rows of bytes need: exponentials in single precision, from the smallest to the largest, so that a byte is its
 * own place in the table; and how near to a tie a quotient may be, which depends on the errors that a sum collects. */
typedef struct {
  const atonc_format *format;
  const double *exact;
  float exponentials[256];
  code_range range;
  float scale, certain;
  uint8_t flip;
} softmax_rows;

/* Of four bytes; in a group at the end of a row the others are zero. */
static inline float32x4_t exponentials_of(const uint8_t *from, const float *place, int is_signed)
{
  uint32x4_t bytes = is_signed ? vreinterpretq_u32_s32(vldrbq_s32((const int8_t *)from)) : vldrbq_u32(from);
  return vldrwq_gather_shifted_offset_f32(place, bytes);
}

static inline float32x4_t last_exponentials(const uint8_t *from, const float *place, int is_signed, mve_pred16_t lanes)
{
  uint32x4_t bytes =
      is_signed ? vreinterpretq_u32_s32(vldrbq_z_s32((const int8_t *)from, lanes)) : vldrbq_z_u32(from, lanes);
  return vldrwq_gather_shifted_offset_z_f32(place, bytes, lanes);
}

/* 0 where some quotient is too near to a tie: then it is to be written again. */
static inline int put_shares(uint8_t *out, const uint8_t *row, int32_t count, const softmax_rows *s, const float *place,
                             float factor, int is_signed)
{
  float32x4_t farthest = vdupq_n_f32(0.0f);
  code_range range = s->range;
  int32_t c = 0;
  for (; c + 4 <= count; c += 4) {
    float32x4_t values = vmulq_n_f32(exponentials_of(row + c, place, is_signed), factor);
    vstrbq_s32((int8_t *)out + c, codes_of(nearest(values, &farthest), &range));
  }
  if (c < count) {
    mve_pred16_t lanes = vctp32q((uint32_t)(count - c));
    float32x4_t values = vmulq_n_f32(last_exponentials(row + c, place, is_signed, lanes), factor);
    vstrbq_p_s32((int8_t *)out + c, codes_of(nearest(values, &farthest), &range), lanes);
  }
  return !near_a_tie(farthest, s->certain);
}

static inline void softmax_row(uint8_t *out, const uint8_t *row, int32_t count, const softmax_rows *s, int is_signed)
{
  uint8x16_t largest = vdupq_n_u8(0);
  float32x4_t sums = vdupq_n_f32(0.0f);
  for (int32_t c = 0; c < count; c += 16) {
    mve_pred16_t lanes = vctp8q((uint32_t)(count - c));
    largest = vmaxq_m_u8(largest, largest, veorq_u8(vldrbq_z_u8(row + c, lanes), vdupq_n_u8(s->flip)), lanes);
  }
  uint8_t most = vmaxvq_u8(0, largest);
  /* the largest byte is at the end of the table; places of signed bytes begin at its middle */
  const float *place = (const float *)((uintptr_t)s->exponentials + 4 * (255u - most + s->flip));
  int32_t at = 0;
  for (; at + 4 <= count; at += 4) sums = vaddq_f32(sums, exponentials_of(row + at, place, is_signed));
  if (at < count) {
    sums = vaddq_f32(sums, last_exponentials(row + at, place, is_signed, vctp32q((uint32_t)(count - at))));
  }
  float factor = 1.0f / (sum_of_lanes(sums) * s->scale);
  if (put_shares(out, row, count, s, place, factor, is_signed)) return;
  double total = total_of_row(row, s->flip, most, count, 1, s->exact);
  for (int32_t c = 0; c < count; c += 4) {
    int32_t some = count - c < 4 ? count - c : 4;
    if (put_shares(out + c, row + c, some, s, place, factor, is_signed)) continue;
    for (int32_t k = c; k < c + some; k++) put(out, k, s->format, s->exact[most - (row[k] ^ s->flip)] / total);
  }
}

/* A row of 16, as the boxes of detectors have: its exponentials stay in registers. Shares are at least 0 and below
 * 2^22, so adding this rounds them to a whole number, which is then in the low bits. */
#define WHOLE_BITS 12582912.0f

static inline int32x4_t share_codes(float32x4_t values, int32_t zero, int32x4_t high, float32x4_t *farthest)
{
  float32x4_t raised = vaddq_n_f32(values, WHOLE_BITS);
  *farthest = vmaxnmq_f32(*farthest, vabdq_f32(values, vsubq_n_f32(raised, WHOLE_BITS)));
  return vminq_s32(vaddq_n_s32(vreinterpretq_s32_f32(raised), zero), high);
}

static inline int softmax_16(uint8_t *out, const uint8_t *row, const softmax_rows *s, int is_signed)
{
  int32_t zero = s->range.zero - 0x4B400000;
  uint8_t most = vmaxvq_u8(0, veorq_u8(vldrbq_u8(row), vdupq_n_u8(s->flip)));
  const float *place = (const float *)((uintptr_t)s->exponentials + 4 * (255u - most + s->flip));
  float32x4_t a = exponentials_of(row, place, is_signed), b = exponentials_of(row + 4, place, is_signed);
  float32x4_t c = exponentials_of(row + 8, place, is_signed), d = exponentials_of(row + 12, place, is_signed);
  float factor = 1.0f / (sum_of_lanes(vaddq_f32(vaddq_f32(a, b), vaddq_f32(c, d))) * s->scale);
  float32x4_t farthest = vdupq_n_f32(0.0f);
  vstrbq_s32((int8_t *)out, share_codes(vmulq_n_f32(a, factor), zero, s->range.high, &farthest));
  vstrbq_s32((int8_t *)out + 4, share_codes(vmulq_n_f32(b, factor), zero, s->range.high, &farthest));
  vstrbq_s32((int8_t *)out + 8, share_codes(vmulq_n_f32(c, factor), zero, s->range.high, &farthest));
  vstrbq_s32((int8_t *)out + 12, share_codes(vmulq_n_f32(d, factor), zero, s->range.high, &farthest));
  return !near_a_tie(farthest, s->certain);
}

static inline void softmax_all(uint8_t *out, const uint8_t *in, int32_t outer, int32_t count, const softmax_rows *s,
                               int is_signed)
{
  int short_rows = count == 16 && s->format->zero >= s->format->low; /* no share is below the lowest code */
  for (int32_t o = 0; o < outer; o++, out += count, in += count) {
    if (short_rows && softmax_16(out, in, s, is_signed)) continue;
    softmax_row(out, in, count, s, is_signed);
  }
}

/* 0 where vectors do not pay or do not decide. */
static int softmax_vectors(uint8_t *out, const atonc_format *out_format, const uint8_t *in, uint8_t flip, int32_t outer,
                           int32_t count, const double *exponentials)
{
  softmax_rows s;
  s.format = out_format;
  s.exact = exponentials;
  s.range = code_range_of(out_format);
  s.scale = (float)out_format->scale;
  s.flip = flip;
  /* sums of a quarter of the row, each addition and each exponential half a unit off; some more for the rest */
  float error = (float)(count / 4 + 12) * 6.0e-8f / s.scale;
  if (!single_decides(out_format) || !(error < 0.05f) || outer * count < 256) return 0;
  s.certain = CERTAIN - error;
  for (int32_t k = 0; k < 256; k++) s.exponentials[k] = (float)exponentials[255 - k];
  if (flip) {
    softmax_all(out, in, outer, count, &s, 1);
  } else {
    softmax_all(out, in, outer, count, &s, 0);
  }
  return 1;
}
#endif

/* in [outer][count][inner] of bytes, signed or not; `exponentials[d]` is exp(-d * scale * beta). */
void atonc_softmax_8(void *out, const atonc_format *out_format, const uint8_t *in, int32_t is_signed, int32_t outer,
                     int32_t count, int32_t inner, const double *exponentials)
{
  uint8_t flip = is_signed ? 0x80 : 0; /* signed bytes compare as unsigned ones with the top bit inverted */
#ifdef ATONC_VECTORS
  if (inner == 1 && softmax_vectors(out, out_format, in, flip, outer, count, exponentials)) return;
#endif
  for (int32_t o = 0; o < outer; o++) {
    for (int32_t k = 0; k < inner; k++) {
      size_t first = (size_t)o * count * inner + k;
      uint8_t most = largest_code(in + first, flip, count, inner);
      double total = total_of_row(in + first, flip, most, count, inner, exponentials);
      for (int32_t c = 0; c < count; c++) {
        size_t i = first + (size_t)c * inner;
        put(out, i, out_format, exponentials[most - (in[i] ^ flip)] / total);
      }
    }
  }
}

/* Any type; with `logarithm` the logarithm of the softmax. */
void atonc_softmax(void *out, const atonc_format *out_format, const void *in, const atonc_format *in_format,
                   int32_t outer, int32_t count, int32_t inner, double beta, int32_t logarithm)
{
  double scale = in_format->scale * beta;
  for (int32_t o = 0; o < outer; o++) {
    for (int32_t k = 0; k < inner; k++) {
      size_t first = (size_t)o * count * inner + k;
      double most = -INFINITY, total = 0.0;
      for (int32_t c = 0; c < count; c++) {
        most = larger(most, load(in, first + (size_t)c * inner, in_format->type) - in_format->zero);
      }
      for (int32_t c = 0; c < count; c++) {
        double value = load(in, first + (size_t)c * inner, in_format->type) - in_format->zero;
        total = total + exponential((value - most) * scale);
      }
      double log_total = logarithm ? logarithm_of(total) : 0.0;
      for (int32_t c = 0; c < count; c++) {
        size_t i = first + (size_t)c * inner;
        double shifted = (load(in, i, in_format->type) - in_format->zero - most) * scale;
        put(out, i, out_format, logarithm ? shifted - log_total : exponential(shifted) / total);
      }
    }
  }
}

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

/* Of bytes that lie side by side: with `flip` the one that is asked for is the largest unsigned one. */
static int32_t extreme_byte(const uint8_t *in, int32_t count, uint32_t flip)
{
#ifdef ATONC_VECTORS
  uint8x16_t largest = vdupq_n_u8(0);
  for (int32_t c = 0; c < count; c += 16) {
    mve_pred16_t lanes = vctp8q((uint32_t)(count - c));
    largest = vmaxq_m_u8(largest, largest, veorq_u8(vldrbq_z_u8(in + c, lanes), vdupq_n_u8((uint8_t)flip)), lanes);
  }
  uint8_t wanted = vmaxvq_u8(0, largest) ^ (uint8_t)flip;
  for (int32_t c = 0;; c += 16) {
    mve_pred16_t lanes = vctp8q((uint32_t)(count - c));
    uint32_t found = vcmpeqq_m_n_u8(vldrbq_z_u8(in + c, lanes), wanted, lanes);
    if (found) return c + __builtin_ctz(found);
  }
#else
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
#endif
}

#ifdef ATONC_VECTORS
#define ROWS_AT_ONCE 8
#define SHORT_ROW 128 /* above it each row alone takes less */

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
    int together = count <= SHORT_ROW && (out_type == ATONC_S32 || out_type == ATONC_S64);
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
