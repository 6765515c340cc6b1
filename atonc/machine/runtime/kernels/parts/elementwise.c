/* SPDX-License-Identifier: Apache-2.0 */
#include "functions.h"
#include "loops.h"
#include "vectors.h"

/* --- one value at a time (input and output may be the same memory if their elements have the same size) ----------- */

/* out[i] = table[in[i]], the byte taken as 0 to 255; the table holds the bytes of 256 entries. */
void atonc_lookup(void *out, const uint8_t *in, uint32_t count, const uint8_t *table, uint32_t item_bytes_)
{
  uint8_t *to = out;
  if (item_bytes_ == 1) {
    uint32_t done = 0;
#ifdef ATONC_VECTORS
    for (; count - done >= 16; done += 16) {
      vstrbq_u8(to + done, vldrbq_gather_offset_u8(table, vldrbq_u8(in + done)));
    }
#endif
    for (uint32_t i = done; i < count; i++) to[i] = table[in[i]];
    return;
  }
  for (uint32_t i = 0; i < count; i++) {
    const uint8_t *from = table + in[i] * item_bytes_;
    for (uint32_t k = 0; k < item_bytes_; k++) *to++ = from[k];
  }
}

/* A function of codes of 16 bits: a line for each run of 2^bits codes, in the order of codes without a sign. The table
 * has where all lines begin, then how far they go, more than -32768; of two runs the second goes back from its end, so
 * that the bit which tells them apart is the sign of the rest. Sums saturate. 1 to 14 bits. */
void atonc_curve(int16_t *out, const int16_t *in, uint32_t count, const int16_t *table, int32_t bits)
{
  const int16_t *steps = table + (65536 >> bits);
  uint32_t done = 0;
#ifdef ATONC_VECTORS
  int16x8_t down = vdupq_n_s16((int16_t)-bits), up = vdupq_n_s16((int16_t)(15 - bits)); /* in a register: no copy */
  for (; count - done >= 8; done += 8) {
    uint16x8_t place = vldrhq_u16((const uint16_t *)in + done), at = vshlq_u16(place, down);
    int16x8_t rest = vreinterpretq_s16_u16(vshlq_u16(place, up));
    int16x8_t risen = vqrdmulhq_s16(vldrhq_gather_shifted_offset_s16(steps, at), rest);
    vstrhq_s16(out + done, vqaddq_s16(vldrhq_gather_shifted_offset_s16(table, at), risen));
  }
#endif
  for (uint32_t i = done; i < count; i++) {
    int32_t place = (uint16_t)in[i], at = place >> bits, rest = place - ((at + (at & 1)) << bits);
    int32_t sum = table[at] + ((steps[at] * rest + (1 << (bits - 1))) >> bits);
    out[i] = (int16_t)(sum < -32768 ? -32768 : sum > 32767 ? 32767 : sum);
  }
}

/* The two conversions that most networks have at their ends. */

static void floats_to_bytes_plain(uint8_t *out, const atonc_format *format, const float *in, uint32_t count,
                                  float factor)
{
  int32_t zero = (int32_t)format->zero, low = (int32_t)format->low, high = (int32_t)format->high;
  for (uint32_t i = 0; i < count; i++) {
    float value = in[i] * factor;
    float whole = ATONC_MATH(floorf)(value + 0.5f);
    int32_t code;
    if (ATONC_MATH(fabsf)(value) < 1000.0f && ATONC_MATH(fabsf)(value - whole) < CERTAIN) {
      code = (int32_t)whole + zero;
      code = code < low ? low : code > high ? high : code;
    } else {
      code = narrow_code(in_steps(in[i], format), format, 0);
    }
    out[i] = (uint8_t)code;
  }
}

#ifdef ATONC_VECTORS
/* The next 16 floats. */
ATONC_INLINE uint8x16_t quantise_16(const float **in, float32x4_t factor, float offset, uint8_t lowest, uint8x16_t *rest)
{
  const float *from = *in;
  ATONC_LOAD_APART(from, a, b, c, d);
  *in = from;
  uint8x16_t codes = top_bytes(fixed_point(a, factor, offset), fixed_point(b, factor, offset),
                               fixed_point(c, factor, offset), fixed_point(d, factor, offset), rest);
  return lowest ? codes : veorq_u8(codes, vdupq_n_u8(0x80));
}

/* Of 16 codes some may be wrong: those are written again. */
static void quantise_near_halves(uint8_t *out, const atonc_format *format, const float *in, float32x4_t factor)
{
  float offset = (float)format->zero + 0.5f;
  uint32_t least = from_a_half(vldrwq_f32(in), factor, offset, ~0u);
  least = from_a_half(vldrwq_f32(in + 4), factor, offset, least);
  least = from_a_half(vldrwq_f32(in + 8), factor, offset, least);
  if (from_a_half(vldrwq_f32(in + 12), factor, offset, least) >= TIE_WINDOW) return;
  for (const float *end = in + 16; in < end; in += 4, out += 4) {
    if (from_a_half(vldrwq_f32(in), factor, offset, ~0u) < TIE_WINDOW) {
      floats_to_bytes_plain(out, format, in, 4, vgetq_lane_f32(factor, 0));
    }
  }
}

/* A multiple of 32. */
ATONC_INLINE void quantise_vectors(uint8_t *out, const atonc_format *format, const float *in, uint32_t count,
                                   float32x4_t factor, uint8_t lowest)
{
  float offset = (float)format->zero + 0.5f + RAISED - (lowest ? 0.0f : 128.0f);
  for (uint8_t *end = out + count; out < end;) {
    uint8x16_t first, rest;
    vstrbq_u8(out, quantise_16(&in, factor, offset, lowest, &first));
    out += 16;
    ATONC_STEPPED(out);
    vstrbq_u8(out, quantise_16(&in, factor, offset, lowest, &rest));
    out += 16;
    ATONC_STEPPED(out);
    if (vminvq_u8(255, vminq_u8(first, rest)) != 0) continue;
    if (undecided(vldrbq_u8(out - 32), first, lowest)) quantise_near_halves(out - 32, format, in - 32, factor);
    if (undecided(vldrbq_u8(out - 16), rest, lowest)) quantise_near_halves(out - 16, format, in - 16, factor);
  }
}
#endif

static void floats_to_bytes(uint8_t *out, const atonc_format *format, const float *in, uint32_t count)
{
  int usual = single_decides(format);
  float factor = usual ? (float)(1.0 / format->scale) : NAN;
  uint32_t done = 0;
#ifdef ATONC_VECTORS
  if (usual) {
    done = count & ~31u;
    if (format->type == ATONC_S8) {
      quantise_vectors(out, format, in, done, vdupq_n_f32(factor), 0x80);
    } else {
      quantise_vectors(out, format, in, done, vdupq_n_f32(factor), 0);
    }
    if (format->high - format->low < 255) clip_bytes(out, done, format);
  }
#endif
  floats_to_bytes_plain(out + done, format, in + done, count - done, factor);
}

#ifdef ATONC_VECTORS
/* The next eight codes. The bits of a half precision number below 2^-13 count units of 2^-24, so a code that is moved by
 * 1024 minus the zero point is one without being converted: (1024 + code - zero) / 2^24. Its conversion to single precision is
 * exact, and what follows rounds once, like the product of a code and a scale of 24 bits in double precision. */
ATONC_INLINE void dequantise_8(float **out, const uint8_t **in, uint16_t move, float32x4_t scale, float offset,
                               int is_signed)
{
  const uint8_t *from = *in;
  uint16x8_t codes = is_signed ? vreinterpretq_u16_s16(vldrbq_s16((const int8_t *)from)) : vldrbq_u16(from);
  ATONC_WIDEN_HALVES(vreinterpretq_f16_u16(vaddq_n_u16(codes, move)), even, odd);
  from += 8;
  ATONC_STEPPED(from);
  *in = from;
  ATONC_STORE_IN_TURN(*out, vfmasq_n_f32(even, scale, offset), vfmasq_n_f32(odd, scale, offset));
}

/* A multiple of 32. */
ATONC_INLINE void dequantise_vectors(float *out, const uint8_t *in, const atonc_format *format, uint32_t count,
                                     int is_signed)
{
  float offset = -1024.0f * (float)format->scale;
  float32x4_t scale = vdupq_n_f32(16777216.0f * (float)format->scale);
  uint16_t move = (uint16_t)(1024 - (int32_t)format->zero);
  for (uint32_t n = count / 32; n > 0; n--) {
    dequantise_8(&out, &in, move, scale, offset, is_signed);
    dequantise_8(&out, &in, move, scale, offset, is_signed);
    dequantise_8(&out, &in, move, scale, offset, is_signed);
    dequantise_8(&out, &in, move, scale, offset, is_signed);
  }
}

/* How many were written: none where the scale has more bits, or results would be too small for vectors. */
static uint32_t bytes_to_floats_vector(float *out, const uint8_t *in, const atonc_format *format, uint32_t count)
{
  float scale = (float)format->scale;
  int32_t zero = (int32_t)format->zero;
  if (scale != format->scale || !(scale > 1e-30f && scale < 1e30f)) return 0;
  if (zero != format->zero || zero < -256 || zero > 256) return 0;
  uint32_t done = count & ~31u;
  if (format->type == ATONC_S8) {
    dequantise_vectors(out, in, format, done, 1);
  } else {
    dequantise_vectors(out, in, format, done, 0);
  }
  return done;
}
#endif

/* By a table of all 256 results, 1 KB on the stack, where that pays. */
static void bytes_to_floats(float *out, const uint8_t *in, const atonc_format *format, uint32_t count)
{
  float table[256];
  int is_signed = format->type == ATONC_S8;
#ifdef ATONC_VECTORS
  uint32_t done = bytes_to_floats_vector(out, in, format, count);
  out += done;
  in += done;
  count -= done;
#endif
  if (count < 256) {
    for (uint32_t i = 0; i < count; i++) out[i] = (float)real_at(in, i, format);
    return;
  }
  for (int32_t byte = 0; byte < 256; byte++) {
    int32_t code = is_signed && byte > 127 ? byte - 256 : byte;
    table[byte] = (float)((code - format->zero) * format->scale);
  }
  for (uint32_t i = 0; i < count; i++) out[i] = table[in[i]];
}

#ifdef ATONC_VECTORS
/* Floats to codes of 16 bits. A quotient needs all its 24 bits to be rounded as the source of the network does: the product
 * with the reciprocal is at most two units in the last place off, a first correction leaves less than one, and from there
 * a second one gives the correctly rounded quotient (Markstein), since remainders are exact. How many were written: none
 * where a value is so far beyond all codes that a product may be infinite. */
ATONC_INLINE uint32_t quantise_words(int16_t *out, const atonc_format *format, const float *in, uint32_t count, int to_even)
{
  float scale = (float)format->scale, factor = 1.0f / scale;
  float32x4_t most = vdupq_n_f32(0.0f);
  int32x4_t low = vdupq_n_s32((int32_t)format->low), high = vdupq_n_s32((int32_t)format->high);
  uint32_t done = count & ~3u;
  for (int16_t *end = out + done; out < end; in += 4, out += 4) {
    float32x4_t value = vldrwq_f32(in), quotient = vmulq_n_f32(value, factor);
    most = vmaxnmq_f32(most, vabsq_f32(value));
    quotient = vfmaq_n_f32(quotient, vfmaq_n_f32(value, quotient, -scale), factor);
    quotient = vfmaq_n_f32(quotient, vfmaq_n_f32(value, quotient, -scale), factor);
    int32x4_t codes = to_even ? vcvtnq_s32_f32(quotient) : vcvtaq_s32_f32(quotient);
    vstrhq_s32(out, vmaxq_s32(vminq_s32(codes, high), low));
  }
  return vmaxnmvq_f32(0.0f, most) <= 131072.0f * scale ? done : 0;
}

static uint32_t floats_to_words_vector(int16_t *out, const atonc_format *format, const float *in, uint32_t count)
{
  int usual = format->flags & ATONC_IN_SINGLE && format->zero == 0.0 && format->middle == 0 && !format->first_bits;
  if (!usual || !(format->scale > 1e-20 && format->scale < 1e20)) return 0;
  if (format->flags & ATONC_TO_EVEN) return quantise_words(out, format, in, count, 1);
  return quantise_words(out, format, in, count, 0);
}

/* One rounding, as of the product in double precision: both factors together have fewer bits than that. */
static uint32_t words_to_floats_vector(float *out, const int16_t *in, const atonc_format *format, uint32_t count)
{
  float scale = (float)format->scale;
  if (scale != format->scale || format->zero != 0.0 || !(scale > 1e-30f && scale < 1e30f)) return 0;
  uint32_t done = count & ~3u;
  for (float *end = out + done; out < end; in += 4, out += 4) {
    vstrwq_f32(out, vmulq_n_f32(vcvtq_f32_s32(vldrhq_s32(in)), scale));
  }
  return done;
}
#endif

/* From one number format to another: quantise, dequantise, requantise, and what only clips. */
void atonc_convert(void *out, const atonc_format *out_format, const void *in, const atonc_format *in_format,
                   uint32_t count)
{
  int32_t from = in_format->type, to = out_format->type;
  int limits = out_format->flags & (ATONC_HAS_LEAST | ATONC_HAS_MOST | ATONC_CLIP_FLOAT);
  int plain = !limits && (from == ATONC_F32 ? in_format : out_format)->scale == 1.0;
  if (plain && from == ATONC_F32 && (to == ATONC_S8 || to == ATONC_U8)) {
    floats_to_bytes(out, out_format, in, count);
    return;
  }
  if (plain && (from == ATONC_S8 || from == ATONC_U8) && to == ATONC_F32) {
    bytes_to_floats(out, in, in_format, count);
    return;
  }
  uint32_t done = 0;
#ifdef ATONC_VECTORS
  if (plain && from == ATONC_F32 && to == ATONC_S16) done = floats_to_words_vector(out, out_format, in, count);
  if (plain && from == ATONC_S16 && to == ATONC_F32) done = words_to_floats_vector(out, in, in_format, count);
#endif
  for (uint32_t i = done; i < count; i++) put(out, i, out_format, real_at(in, i, in_format));
}

static int plain_floats(const atonc_format *format)
{
  return format->type == ATONC_F32 && format->flags == 0 && format->scale == 1.0 && format->zero == 0.0;
}

void atonc_unary(void *out, const atonc_format *out_format, const void *in, const atonc_format *in_format,
                 uint32_t count, int32_t function, double alpha, double beta)
{
  reader value_at = reader_for(function >= ATONC_FLOOR && function <= ATONC_ROUND, in_format);
  if (function == ATONC_SQUARE && plain_floats(out_format) && plain_floats(in_format)) {
    const float *from = in;
    for (float *to = out; count > 0; count--, from++) *to++ = *from * *from;
    return;
  }
  for (uint32_t i = 0; i < count; i++) {
    put(out, i, out_format, unary(function, value_at(in, i, in_format), alpha, beta));
  }
}

/* out = in * gain[c] + offset[c], c the position in the last dimension. */
void atonc_affine(void *out, const atonc_format *out_format, const void *in, const atonc_format *in_format,
                  uint32_t rows, uint32_t channels, const double *gain, const double *offset)
{
  size_t i = 0;
  for (uint32_t row = 0; row < rows; row++) {
    for (uint32_t c = 0; c < channels; c++, i++) {
      put(out, i, out_format, real_at(in, i, in_format) * gain[c] + offset[c]);
    }
  }
}

/* --- several values ------------------------------------------------------------------------------------------------ */

/* `result` of a left and a right value, along the innermost loop. */
#define ALONG(result)                                                                                                  \
  for (int32_t k = 0; k < inner[0]; k++, left += inner[1], right += inner[2]) *out++ = result;                         \
  break

/* One rounding to a float is what the double of two floats gives as well: it has more than twice their bits. */
static void binary_of_floats(float *out, const float *a, const float *b, int32_t rank, const int32_t *loops,
                             int32_t function)
{
  const int32_t *inner = loops + 3 * (rank - 1);
  walker w = start_walk();
  do {
    const float *left = a + w.at[0], *right = b + w.at[1];
    switch (function) {
    case ATONC_ADD: ALONG(*left + *right);
    case ATONC_SUB: ALONG(*left - *right);
    case ATONC_MUL: ALONG(*left * *right);
    default: ALONG(*left / *right);
    }
  } while (advance(&w, rank - 1, loops, 3));
}

/* ATONC_FLOOR_MOD has the sign of b, ATONC_FMOD that of a.
 * Broadcasting: nested loops, outermost first, rows {count, step of a, step of b} in elements. ATONC_PRELU_TWICE has a
 * multiplier for each side: the scale of a where a >= 0, the scale of b for products of codes elsewhere, both in units
 * of the output; `first_bits` has an entry for each side. */
void atonc_binary(void *out, const atonc_format *out_format, const void *a, const atonc_format *a_format,
                  const void *b, const atonc_format *b_format, int32_t rank, const int32_t *loops, int32_t function)
{
  walker w = start_walk();
  size_t i = 0;
  reader left_at = reader_for(jumps_between(function), a_format);
  reader right_at = reader_for(jumps_between(function), b_format);
  if (is_empty(rank, loops, 3)) return;
  if (rank > 0 && function <= ATONC_DIV && plain_floats(out_format) && plain_floats(a_format) && plain_floats(b_format)) {
    binary_of_floats(out, a, b, rank, loops, function);
    return;
  }
  do {
    double left = left_at(a, (size_t)w.at[0], a_format);
    double right = right_at(b, (size_t)w.at[1], b_format);
    int32_t side = function == ATONC_PRELU_TWICE && left < 0;
    if (side) left = left / a_format->scale; /* the code, exactly */
    put_channel(out, i++, out_format, side, binary(function, left, right));
  } while (advance(&w, rank, loops, 3));
}

/* out = condition ? a : b; rows {count, step of the condition, of a, of b}. */
void atonc_select(void *out, const atonc_format *out_format, const void *condition, int32_t condition_type,
                  const void *a, const atonc_format *a_format, const void *b, const atonc_format *b_format,
                  int32_t rank, const int32_t *loops)
{
  walker w = start_walk();
  size_t i = 0;
  if (is_empty(rank, loops, 4)) return;
  do {
    int first = load(condition, (size_t)w.at[0], condition_type) != 0;
    put(out, i++, out_format,
        first ? real_at(a, (size_t)w.at[1], a_format) : real_at(b, (size_t)w.at[2], b_format));
  } while (advance(&w, rank, loops, 4));
}

