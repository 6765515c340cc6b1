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
ATONC_INLINE uint8x16_t quantise_16(uint8_t *out, const float *in, const byte_grid *grid, int is_signed)
{
  uint8x16_t rest;
  ATONC_LOAD_APART(in, a, b, c, d);
  vstrbq_u8(out, top_bytes(fixed_point(a, grid, is_signed), fixed_point(b, grid, is_signed),
                           fixed_point(c, grid, is_signed), fixed_point(d, grid, is_signed), &rest));
  return rest;
}

/* Of 32 codes some may be wrong: those are written again. */
static void quantise_near_halves(uint8_t *out, const atonc_format *format, const float *in, const byte_grid *grid)
{
  for (uint32_t i = 0; i < 32; i += 4) {
    if (near_a_half(vldrwq_f32(in + i), grid)) {
      floats_to_bytes_plain(out + i, format, in + i, 4, vgetq_lane_f32(grid->factor, 0));
    }
  }
}

ATONC_INLINE uint32_t quantise_vectors(uint8_t *out, const atonc_format *format, const float *in, uint32_t count,
                                       int is_signed)
{
  const byte_grid grid = byte_grid_of(format);
  uint32_t done = 0;
  for (; count - done >= 32; done += 32, in += 32, out += 32) {
    uint8_t least = vminvq_u8(255, quantise_16(out, in, &grid, is_signed));
    if (vminvq_u8(least, quantise_16(out + 16, in + 16, &grid, is_signed)) == 0) {
      quantise_near_halves(out, format, in, &grid);
    }
  }
  return done;
}

/* Codes of a type that the format does not use as a whole. */
static void clip_bytes(uint8_t *bytes, uint32_t count, const atonc_format *format)
{
  uint8_t flip = format->type == ATONC_S8 ? 0x80 : 0;
  uint8x16_t low = vdupq_n_u8((uint8_t)((int32_t)format->low ^ flip));
  uint8x16_t high = vdupq_n_u8((uint8_t)((int32_t)format->high ^ flip)), flips = vdupq_n_u8(flip);
  for (uint32_t i = 0; i < count; i += 16) {
    uint8x16_t clipped = vmaxq_u8(vminq_u8(veorq_u8(vldrbq_u8(bytes + i), flips), high), low);
    vstrbq_u8(bytes + i, veorq_u8(clipped, flips));
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
    done = format->type == ATONC_S8 ? quantise_vectors(out, format, in, count, 1)
                                    : quantise_vectors(out, format, in, count, 0);
    if (format->high - format->low < 255) clip_bytes(out, done, format);
  }
#endif
  floats_to_bytes_plain(out + done, format, in + done, count - done, factor);
}

#ifdef ATONC_VECTORS
/* Products of a code and a scale of 24 bits are exact in double precision, so both round once. */
ATONC_INLINE uint32_t dequantise_vectors(float *out, const uint8_t *in, const atonc_format *format, uint32_t count,
                                         int is_signed, int fuses)
{
  float scale = (float)format->scale, offset = (float)(-format->zero * format->scale);
  int32_t zero = (int32_t)format->zero;
  float32x4_t factor = vdupq_n_f32(scale);
  uint32_t done = 0;
  for (; count - done >= 16; done += 16, in += 16, out += 16) {
    for (int k = 0; k < 16; k += 4) {
      int32x4_t codes = is_signed ? vldrbq_s32((const int8_t *)in + k) : vreinterpretq_s32_u32(vldrbq_u32(in + k));
      vstrwq_f32(out + k, fuses ? vfmasq_n_f32(vcvtq_f32_s32(codes), factor, offset)
                                : vmulq_n_f32(vcvtq_f32_s32(vsubq_n_s32(codes, zero)), scale));
    }
  }
  return done;
}

/* How many were written: none where the scale has more bits, or results would be too small for vectors. */
static uint32_t bytes_to_floats_vector(float *out, const uint8_t *in, const atonc_format *format, uint32_t count)
{
  float scale = (float)format->scale;
  int32_t zero = (int32_t)format->zero;
  double offset = -format->zero * format->scale;
  if (scale != format->scale || !(scale > 1e-30f && scale < 1e30f)) return 0;
  if (zero != format->zero || zero < -256 || zero > 256) return 0;
  int fuses = (float)offset == offset; /* then a product and a sum at once round the same exact number */
  if (format->type == ATONC_S8) {
    return fuses ? dequantise_vectors(out, in, format, count, 1, 1) : dequantise_vectors(out, in, format, count, 1, 0);
  }
  return fuses ? dequantise_vectors(out, in, format, count, 0, 1) : dequantise_vectors(out, in, format, count, 0, 0);
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
  for (uint32_t i = 0; i < count; i++) put(out, i, out_format, real_at(in, i, in_format));
}

void atonc_unary(void *out, const atonc_format *out_format, const void *in, const atonc_format *in_format,
                 uint32_t count, int32_t function, double alpha, double beta)
{
  reader value_at = reader_for(function >= ATONC_FLOOR && function <= ATONC_ROUND, in_format);
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

