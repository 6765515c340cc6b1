/* SPDX-License-Identifier: Apache-2.0 */
#include "functions.h"
#include "vectors.h"

/* --- shares of a whole --------------------------------------------------------------------------------------------- */

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

/* Codes of shares: in single precision where that decides, `scale` is not a number where it never does. */
typedef struct {
  const atonc_format *format;
  int32_t zero, low, high;
  float scale, factor;
  double total;
} share_maker;

static share_maker share_maker_of(const atonc_format *format)
{
  float scale = single_decides(format) ? (float)format->scale : NAN;
  share_maker maker = {format, (int32_t)format->zero, (int32_t)format->low, (int32_t)format->high, scale, 0.0f, 0.0};
  return maker;
}

static void set_total(share_maker *maker, double total)
{
  maker->total = total;
  maker->factor = 1.0f / ((float)total * maker->scale);
}

static void put_share(void *out, size_t i, const share_maker *maker, double part)
{
  float value = (float)part * maker->factor;
  float whole = ATONC_MATH(floorf)(value + 0.5f);
  if (value < 1000.0f && ATONC_MATH(fabsf)(value - whole) < CERTAIN) {
    int32_t code = (int32_t)whole + maker->zero;
    code = code < maker->low ? maker->low : code > maker->high ? maker->high : code;
    ((uint8_t *)out)[i] = (uint8_t)code;
  } else {
    put(out, i, maker->format, part / maker->total);
  }
}

/* Rows of two, as detectors with one class have, by the difference of their codes: the table has all pairs of shares. */
#define PAIRS_WORTH_A_TABLE 512

static void softmax_pairs(uint8_t *out, const atonc_format *format, const uint8_t *in, uint8_t flip, int32_t rows,
                          const double *exponentials)
{
  uint16_t pairs[511]; /* by the second code and what the first is below 255; bytes in the order of memory */
  uint8_t *shares = (uint8_t *)pairs;
  share_maker maker = share_maker_of(format);
  int32_t done = 0;
  for (int32_t d = 0; d < 256; d++) {
    size_t more = (size_t)(2 * (255 + d)), less = (size_t)(2 * (255 - d));
    set_total(&maker, 1.0 + exponentials[d]);
    put_share(shares, more + 1, &maker, 1.0);
    put_share(shares, more, &maker, exponentials[d]);
    shares[less] = shares[more + 1];
    shares[less + 1] = shares[more];
  }
#ifdef ATONC_VECTORS
  uint16x8_t flips = vdupq_n_u16((uint16_t)(flip << 8 | (flip ^ 0xFF)));
  for (; done + 8 <= rows; done += 8, in += 16, out += 16) {
    uint16x8_t codes = veorq_u16(vreinterpretq_u16_u8(vldrbq_u8(in)), flips);
    uint16x8_t places = vaddq_u16(vshrq_n_u16(codes, 8), vmovlbq_u8(vreinterpretq_u8_u16(codes)));
    vstrbq_u8(out, vreinterpretq_u8_u16(vldrhq_gather_shifted_offset_u16(pairs, places)));
  }
#endif
  for (; done < rows; done++, in += 2, out += 2) {
    const uint8_t *pair = shares + 2 * ((in[1] ^ flip) + 255 - (in[0] ^ flip));
    out[0] = pair[0];
    out[1] = pair[1];
  }
}

#ifdef ATONC_VECTORS
/* What rows of bytes need: exponentials in single precision, from the smallest to the largest, so that a byte is its
 * own place in the table; and how near to a tie a quotient may be, which depends on the errors that a sum collects. */
typedef struct {
  const atonc_format *format;
  const double *exact;
  float exponentials[256];
  uint32_t parts[256]; /* of long rows: the same in units of 2^-31 */
  uint8_t codes[256];  /* of their shares, for one row; those below `first` are nothing whatever the total is */
  int32_t first;
  float scale, offset, raised;
  uint32_t window;
  uint8_t flip, turn; /* of inputs, of outputs */
} softmax_rows;

/* Four by four, as floats that were loaded apart. */
typedef struct {
  float32x4_t a, b, c, d;
} sixteen_floats;

ATONC_INLINE sixteen_floats exponentials_of(uint8x16_t bytes, const float *place)
{
  uint16x8_t even = vmovlbq_u8(bytes), odd = vmovltq_u8(bytes);
  sixteen_floats e = {vldrwq_gather_shifted_offset_f32(place, vmovlbq_u16(even)),
                      vldrwq_gather_shifted_offset_f32(place, vmovlbq_u16(odd)),
                      vldrwq_gather_shifted_offset_f32(place, vmovltq_u16(even)),
                      vldrwq_gather_shifted_offset_f32(place, vmovltq_u16(odd))};
  return e;
}

ATONC_INLINE float32x4_t added(sixteen_floats e)
{
  return vaddq_f32(vaddq_f32(e.a, e.b), vaddq_f32(e.c, e.d));
}

/* Sixteen bytes that compare without sign; those that are none of the row's count as its largest. */
ATONC_INLINE uint8x16_t block_of(const uint8_t *row, mve_pred16_t lanes, uint8x16_t flips, uint8_t most)
{
  return vpselq_u8(veorq_u8(vldrbq_z_u8(row, lanes), flips), vdupq_n_u8(most), lanes);
}

ATONC_INLINE uint8x16_t whole_block_of(const uint8_t *row, uint8x16_t flips)
{
  return veorq_u8(vldrbq_u8(row), flips);
}

/* Signed codes; `rest` has the bytes behind their points. */
ATONC_INLINE uint8x16_t shares_of(sixteen_floats e, float32x4_t factor, float raised, uint8x16_t *rest)
{
  return top_bytes(fixed_point(e.a, factor, raised), fixed_point(e.b, factor, raised),
                   fixed_point(e.c, factor, raised), fixed_point(e.d, factor, raised), rest);
}

ATONC_INLINE int shares_near_halves(sixteen_floats e, float32x4_t factor, const softmax_rows *s)
{
  uint32_t least = from_a_half(e.a, factor, s->offset, ~0u);
  least = from_a_half(e.b, factor, s->offset, least);
  least = from_a_half(e.c, factor, s->offset, least);
  return from_a_half(e.d, factor, s->offset, least) < s->window;
}

/* Of a row of at most 16 whose largest code is `most`: shares that are near a tie are written again. */
static void settle_shares(uint8_t *out, const uint8_t *row, int32_t count, const softmax_rows *s, uint8_t most, float factor)
{
  const float *place = s->exponentials + (255 - most);
  uint8x16_t block = block_of(row, vctp8q((uint32_t)count), vdupq_n_u8(s->flip), most);
  if (!shares_near_halves(exponentials_of(block, place), vdupq_n_f32(factor), s)) return;
  float certain = 0.5f - (float)s->window * 2.3283064e-10f;
  double total = total_of_row(row, s->flip, most, count, 1, s->exact);
  for (int32_t k = 0; k < count; k++) {
    uint8_t code = row[k] ^ s->flip;
    float value = place[code] * factor;
    if (ATONC_MATH(fabsf)(value - ATONC_MATH(floorf)(value + 0.5f)) < certain) continue;
    put(out, (size_t)k, s->format, s->exact[most - code] / total);
    out[k] ^= s->turn;
  }
}

/* Rows of at most 16 bytes: their exponentials stay in registers. */
ATONC_INLINE void softmax_short_rows(uint8_t *out, const uint8_t *in, int32_t rows, int32_t count, const softmax_rows *s,
                                     int is_full)
{
  const float *table = s->exponentials + 255;
  uint8x16_t flips = vdupq_n_u8(s->flip), rest;
  float scale = s->scale, raised = s->raised, surplus = (float)(16 - count);
  for (; rows > 0; rows--, in += count, out += count) {
    mve_pred16_t lanes = vctp8q((uint32_t)count);
    uint8x16_t block = is_full ? whole_block_of(in, flips) : veorq_u8(vldrbq_z_u8(in, lanes), flips);
    uint8_t most = is_full ? vmaxvq_u8(0, block) : vmaxvq_p_u8(0, block, lanes);
    if (!is_full) block = vpselq_u8(block, vdupq_n_u8(most), lanes);
    sixteen_floats e = exponentials_of(block, table - most);
    float total = sum_of_lanes(added(e)) - (is_full ? 0.0f : surplus);
    float factor = 1.0f / (total * scale);
    uint8x16_t codes = shares_of(e, vdupq_n_f32(factor), raised, &rest);
    if (is_full) {
      vstrbq_u8(out, codes);
    } else {
      vstrbq_p_u8(out, codes, lanes);
    }
    if (vminvq_u8(255, rest) == 0) settle_shares(out, in, count, s, most, factor);
  }
}

/* Longer rows: totals of whole numbers, and a table with the share of each code, so that shares are worked out once for
 * all elements that have one code. */

static uint8_t largest_of_row(const uint8_t *row, int32_t count, uint8x16_t flips)
{
  uint8x16_t largest = vdupq_n_u8(0);
  int32_t whole = count & ~15;
  mve_pred16_t lanes = vctp8q((uint32_t)(count - whole));
  for (const uint8_t *at = row, *end = row + whole; at < end; at += 16) {
    largest = vmaxq_u8(largest, whole_block_of(at, flips));
  }
  return vmaxvq_u8(0, vmaxq_m_u8(largest, largest, veorq_u8(vldrbq_z_u8(row + whole, lanes), flips), lanes));
}

/* Four codes as they are, signed or not; `place` has the part of code zero. */
ATONC_INLINE uint64_t more_parts(uint64_t total, const uint8_t **row, const uint32_t *place, int is_signed)
{
  const uint8_t *from = *row;
  uint32x4_t codes = is_signed ? vreinterpretq_u32_s32(vldrbq_s32((const int8_t *)from)) : vldrbq_u32(from);
  from += 4;
  ATONC_STEPPED(from);
  *row = from;
  return vaddlvaq_u32(total, vldrwq_gather_shifted_offset_u32(place, codes));
}

ATONC_INLINE uint64_t total_of_parts(const uint8_t *row, int32_t count, const uint32_t *place, int is_signed)
{
  uint64_t total = 0;
  mve_pred16_t lanes = vctp32q((uint32_t)(count % 4));
  for (int32_t blocks = count / 16; blocks > 0; blocks--) {
    total = more_parts(total, &row, place, is_signed);
    total = more_parts(total, &row, place, is_signed);
    total = more_parts(total, &row, place, is_signed);
    total = more_parts(total, &row, place, is_signed);
  }
  for (int32_t fours = count / 4 % 4; fours > 0; fours--) total = more_parts(total, &row, place, is_signed);
  uint32x4_t last = vldrbq_z_u32(row, lanes);
  if (is_signed) last = vreinterpretq_u32_s32(vldrbq_z_s32((const int8_t *)row, lanes));
  return vaddlvaq_p_u32(total, vldrwq_gather_shifted_offset_z_u32(place, last, lanes), lanes);
}

/* Of 16 codes from `at` on, of a row whose largest is `most`: what is near a tie is written again. */
static void settle_codes(softmax_rows *s, int32_t at, const uint8_t *row, int32_t count, uint8_t most, float factor)
{
  float certain = 0.5f - (float)s->window * 2.3283064e-10f;
  double total = 0.0;
  for (int32_t k = at; k < at + 16; k++) {
    float value = s->exponentials[k] * factor;
    if (ATONC_MATH(fabsf)(value - ATONC_MATH(floorf)(value + 0.5f)) < certain) continue;
    if (total == 0.0) total = total_of_row(row, s->flip, most, count, 1, s->exact);
    put(s->codes, (size_t)k, s->format, s->exact[255 - k] / total);
    s->codes[k] ^= s->turn;
  }
}

static void make_codes(softmax_rows *s, const uint8_t *row, int32_t count, uint8_t most, float factor)
{
  const float *from = s->exponentials + s->first;
  float raised = s->raised;
  float32x4_t factors = vdupq_n_f32(factor);
  for (int32_t k = s->first; k < 256; k += 16) {
    uint8x16_t rest;
    ATONC_LOAD_APART(from, a, b, c, d);
    vstrbq_u8(s->codes + k, top_bytes(fixed_point(a, factors, raised), fixed_point(b, factors, raised),
                                      fixed_point(c, factors, raised), fixed_point(d, factors, raised), &rest));
    sixteen_floats e = {a, b, c, d};
    if (vminvq_u8(255, rest) == 0 && shares_near_halves(e, factors, s)) settle_codes(s, k, row, count, most, factor);
  }
  uint8_t *made = s->codes + s->first;
  if (s->turn) copy_forward(made, made, (uint32_t)(256 - s->first), s->turn);
  if (s->format->high - s->format->low < 255) clip_bytes(made, (uint32_t)(256 - s->first), s->format);
}

static void softmax_long_row(uint8_t *out, const uint8_t *row, int32_t count, softmax_rows *s)
{
  uint8x16_t flips = vdupq_n_u8(s->flip);
  uint8_t most = largest_of_row(row, count, flips);
  const uint32_t *place = s->parts + (255 - most);
  uint64_t parts = s->flip ? total_of_parts(row, count, place + 128, 1) : total_of_parts(row, count, place, 0);
  float total = (float)(uint32_t)(parts >> 32) * 2.0f + (float)(uint32_t)parts * 4.656612873e-10f;
  make_codes(s, row, count, most, 1.0f / (total * s->scale));
  const uint8_t *codes = s->codes + (255 - most);
  for (int32_t whole = count / 16; whole > 0; whole--, row += 16, out += 16) {
    vstrbq_u8(out, vldrbq_gather_offset_u8(codes, whole_block_of(row, flips)));
  }
  mve_pred16_t lanes = vctp8q((uint32_t)(count % 16));
  uint8x16_t last = veorq_u8(vldrbq_z_u8(row, lanes), flips);
  vstrbq_p_u8(out, vldrbq_gather_offset_z_u8(codes, last, lanes), lanes);
}

static void prepare_table(softmax_rows *s)
{
  s->first = 0;
  while (s->first < 240 && s->exponentials[s->first + 15] < 0.49f * s->scale) s->first += 16;
  put(s->codes, 0, s->format, 0.0);
  for (int32_t k = 0; k < s->first; k += 16) vstrbq_u8(s->codes + k, vdupq_n_u8(s->codes[0]));
  for (int32_t k = 0; k < 256; k += 4) vstrwq_u32(s->parts + k, vcvtq_n_u32_f32(vldrwq_f32(s->exponentials + k), 31));
}

/* 0 where vectors do not pay or do not decide. */
static int softmax_vectors(uint8_t *out, const atonc_format *out_format, const uint8_t *in, uint8_t flip, int32_t outer,
                           int32_t count, const double *exponentials)
{
  softmax_rows s;
  s.format = out_format;
  s.exact = exponentials;
  s.scale = (float)out_format->scale;
  s.flip = flip;
  s.turn = out_format->type == ATONC_S8 ? 0 : 0x80;
  s.offset = (float)out_format->zero + 0.5f - (float)s.turn;
  /* short rows: each addition, some more for the rest, and for bytes that are none of the row's; long ones: each part */
  float steps = count > 16 ? (float)count * 4.7e-10f : (float)(count < 16 ? 33 : 9) * 6.0e-8f;
  float error = steps / s.scale;
  if (!single_decides(out_format) || !(error < 0.0015f) || outer * count < 40) return 0;
  s.raised = s.offset + RAISED + error;
  s.window = TIE_WINDOW + (uint32_t)(error * 4294967296.0f);
  for (int32_t k = 0; k < 256; k++) s.exponentials[k] = (float)exponentials[255 - k];
  if (count > 16) {
    prepare_table(&s);
    for (int32_t o = 0; o < outer; o++) softmax_long_row(out + (size_t)o * count, in + (size_t)o * count, count, &s);
    return 1;
  }
  if (count == 16) {
    softmax_short_rows(out, in, outer, 16, &s, 1);
  } else {
    softmax_short_rows(out, in, outer, count, &s, 0);
  }
  uint32_t elements = (uint32_t)(outer * count);
  if (s.turn) copy_forward(out, out, elements, s.turn);
  if (out_format->high - out_format->low < 255) clip_bytes(out, elements, out_format);
  return 1;
}
#endif

/* in [outer][count][inner] of bytes, signed or not; `exponentials[d]` is exp(-d * scale * beta). */
void atonc_softmax_8(void *out, const atonc_format *out_format, const uint8_t *in, int32_t is_signed, int32_t outer,
                     int32_t count, int32_t inner, const double *exponentials)
{
  uint8_t flip = is_signed ? 0x80 : 0; /* signed bytes compare as unsigned ones with the top bit inverted */
  int is_byte = out_format->type == ATONC_S8 || out_format->type == ATONC_U8;
  if (inner == 1 && count == 2 && outer >= PAIRS_WORTH_A_TABLE && is_byte) {
    softmax_pairs(out, out_format, in, flip, outer, exponentials);
    return;
  }
#ifdef ATONC_VECTORS
  if (inner == 1 && softmax_vectors(out, out_format, in, flip, outer, count, exponentials)) return;
#endif
  share_maker maker = share_maker_of(out_format);
  for (int32_t o = 0; o < outer; o++) {
    for (int32_t k = 0; k < inner; k++) {
      size_t first = (size_t)o * count * inner + k;
      uint8_t most = largest_code(in + first, flip, count, inner);
      set_total(&maker, total_of_row(in + first, flip, most, count, inner, exponentials));
      for (int32_t c = 0; c < count; c++) {
        size_t i = first + (size_t)c * inner;
        put_share(out, i, &maker, exponentials[most - (in[i] ^ flip)]);
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
