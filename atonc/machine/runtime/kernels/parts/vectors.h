/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include "numbers.h"

/* --- vectors ------------------------------------------------------------------------------------------------------- */

/* Where single precision decides about codes of 8 bits: its error stays below 0.0002 for quotients below 1000, so that
 * only within 0.001 of a tie the exact quotient could round otherwise (a first rounding to 12 bits adds 0.00013). What
 * is larger ends at a limit either way, and what is not a number is zero either way. So every branch, with vectors or
 * without, gives the bytes of `put`, and takes the exact way near ties. */
#define CERTAIN 0.499f

static int single_decides(const atonc_format *format)
{
  int is_byte = format->type == ATONC_S8 || format->type == ATONC_U8;
  int fine = format->first_bits == 0 || format->first_bits[0] >= 12;
  int limits = format->flags & (ATONC_HAS_LEAST | ATONC_HAS_MOST);
  return is_byte && fine && !limits && format->scale > 1e-30 && format->scale < 1e30;
}

#ifdef ATONC_VECTORS
/* Vectors take the smallest floats for zero; all that are used here are either larger or end at the zero point. */

static inline int32x4_t nearest(float32x4_t value, float32x4_t *farthest)
{
  int32x4_t whole = vcvtnq_s32_f32(value);
  *farthest = vmaxnmq_f32(*farthest, vabdq_f32(value, vcvtq_f32_s32(whole)));
  return whole;
}

static inline int near_a_tie(float32x4_t farthest, float certain)
{
  return vcmpgeq_n_f32(farthest, certain) != 0;
}

typedef struct {
  int32_t zero;
  int32x4_t low, high;
} code_range;

static inline code_range code_range_of(const atonc_format *format)
{
  code_range range = {(int32_t)format->zero, vdupq_n_s32((int32_t)format->low), vdupq_n_s32((int32_t)format->high)};
  return range;
}

/* Floats to codes, sixteen at a time: value * factor + zero point + 1/2 with 24 bits behind the point. The conversion cuts
 * at the ends of a signed byte, so the top one is the code. Single precision decides unless a value is near a whole number
 * before that: its errors are below 0.0001, and 0.00013 come from a first rounding to 12 bits. All are raised by that much,
 * so that such values have 0 in the byte behind the point; and so has what is not a number. The second look, at 16 bits,
 * takes a little more: what was only raised over a tie is then written again. */
#define RAISED 0.00025f
#define TIE_WINDOW 0x150000u /* 0.00032 of 2^32 */

ATONC_INLINE uint32x4_t fixed_point(float32x4_t values, float32x4_t factor, float offset)
{
  return vreinterpretq_u32_s32(vcvtq_n_s32_f32(vfmasq_n_f32(values, factor, offset), 24));
}

/* Of floats that were loaded apart; `rest` gets the bytes behind the points. */
ATONC_INLINE uint8x16_t top_bytes(uint32x4_t a, uint32x4_t b, uint32x4_t c, uint32x4_t d, uint8x16_t *rest)
{
  uint16x8_t even = vreinterpretq_u16_u32(vsriq_n_u32(c, a, 16)), odd = vreinterpretq_u16_u32(vsriq_n_u32(d, b, 16));
  *rest = vmovntq_u16(vreinterpretq_u8_u16(even), odd);
  return vreinterpretq_u8_u16(vsriq_n_u16(odd, even, 8));
}

/* Codes that are to be looked at again: below the lowest there is nothing to decide. */
ATONC_INLINE int undecided(uint8x16_t codes, uint8x16_t rest, uint8_t lowest)
{
  return vcmpneq_m_n_u8(codes, lowest, vcmpeqq_n_u8(rest, 0)) != 0;
}

/* The second look, at four values: how near the nearest is, in units of 2^-32, and no more than `least`. */
ATONC_INLINE uint32_t from_a_half(float32x4_t values, float32x4_t factor, float offset, uint32_t least)
{
  int32x4_t fixed = vcvtq_n_s32_f32(vfmasq_n_f32(values, factor, offset), 16);
  return vminavq_s32(least, vshlq_n_s32(fixed, 16));
}

/* Codes of a type that the format does not use as a whole. */
static void clip_bytes(uint8_t *bytes, uint32_t count, const atonc_format *format)
{
  uint8_t flip = format->type == ATONC_S8 ? 0x80 : 0;
  uint8x16_t low = vdupq_n_u8((uint8_t)((int32_t)format->low ^ flip));
  uint8x16_t high = vdupq_n_u8((uint8_t)((int32_t)format->high ^ flip)), flips = vdupq_n_u8(flip);
  for (uint32_t i = 0; i < count; i += 16) {
    mve_pred16_t lanes = vctp8q(count - i);
    uint8x16_t clipped = vmaxq_u8(vminq_u8(veorq_u8(vldrbq_z_u8(bytes + i, lanes), flips), high), low);
    vstrbq_p_u8(bytes + i, veorq_u8(clipped, flips), lanes);
  }
}

/* Four codes, to be stored as bytes. */
static inline int32x4_t codes_of(int32x4_t whole, const code_range *range)
{
  return vmaxq_s32(vminq_s32(vqaddq_n_s32(whole, range->zero), range->high), range->low);
}

static inline float sum_of_lanes(float32x4_t x)
{
  return (vgetq_lane_f32(x, 0) + vgetq_lane_f32(x, 1)) + (vgetq_lane_f32(x, 2) + vgetq_lane_f32(x, 3));
}

/* Bytes in the order of memory, `flip` on each; the areas do not overlap, or the output begins before the input. */
static void copy_forward(uint8_t *to, const uint8_t *from, uint32_t bytes, uint8_t flip)
{
  for (uint32_t i = 0; i < bytes; i += 16) {
    mve_pred16_t rest = vctp8q(bytes - i);
    vstrbq_p_u8(to + i, veorq_u8(vldrbq_z_u8(from + i, rest), vdupq_n_u8(flip)), rest);
  }
}
#endif
