/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include "prologue.h"

/* --- numbers in memory -------------------------------------------------------------------------------------------- */

#define AT(base, bytes) ((const uint8_t *)(base) + (bytes))

static uint32_t item_bytes(int32_t type)
{
  switch (type) {
  case ATONC_S8: case ATONC_U8: case ATONC_BOOL: return 1;
  case ATONC_S16: case ATONC_U16: return 2;
  case ATONC_S32: case ATONC_U32: case ATONC_F32: return 4;
  default: return 8;
  }
}

/* Integers of 64 bits by their halves: no core has instructions for them, and their library is not always there. */
static double from_wide(int64_t value)
{
  return (double)(int32_t)(value >> 32) * 4294967296.0 + (double)(uint32_t)value;
}

static double from_wide_unsigned(uint64_t value)
{
  return (double)(uint32_t)(value >> 32) * 4294967296.0 + (double)(uint32_t)value;
}

/* The bits of an integer that fits, with or without a sign. */
static uint64_t to_wide(double value)
{
  double high = ATONC_MATH(floor)(value / 4294967296.0);
  uint32_t top = high < 0 ? (uint32_t)(int32_t)high : (uint32_t)high;
  return (uint64_t)top << 32 | (uint32_t)(value - high * 4294967296.0);
}

static double load(const void *data, size_t i, int32_t type)
{
  switch (type) {
  case ATONC_S8: return ((const int8_t *)data)[i];
  case ATONC_U8: case ATONC_BOOL: return ((const uint8_t *)data)[i];
  case ATONC_S16: return ((const int16_t *)data)[i];
  case ATONC_U16: return ((const uint16_t *)data)[i];
  case ATONC_S32: return ((const int32_t *)data)[i];
  case ATONC_U32: return ((const uint32_t *)data)[i];
  case ATONC_S64: return from_wide(((const int64_t *)data)[i]);
  case ATONC_U64: return from_wide_unsigned(((const uint64_t *)data)[i]);
  case ATONC_F32: return ((const float *)data)[i];
  default: return ((const double *)data)[i];
  }
}

/* The value fits, except that 2^63 and 2^64 stand for the largest integers. */
static void store(void *data, size_t i, int32_t type, double value)
{
  switch (type) {
  case ATONC_S8: ((int8_t *)data)[i] = (int8_t)value; break;
  case ATONC_U8: case ATONC_BOOL: ((uint8_t *)data)[i] = (uint8_t)value; break;
  case ATONC_S16: ((int16_t *)data)[i] = (int16_t)value; break;
  case ATONC_U16: ((uint16_t *)data)[i] = (uint16_t)value; break;
  case ATONC_S32: ((int32_t *)data)[i] = (int32_t)value; break;
  case ATONC_U32: ((uint32_t *)data)[i] = (uint32_t)value; break;
  case ATONC_S64: ((int64_t *)data)[i] = value >= 9223372036854775808.0 ? INT64_MAX : (int64_t)to_wide(value); break;
  case ATONC_U64: ((uint64_t *)data)[i] = value >= 18446744073709551616.0 ? UINT64_MAX : to_wide(value); break;
  case ATONC_F32: ((float *)data)[i] = (float)value; break;
  default: ((double *)data)[i] = value; break;
  }
}

static double at_least(double value, double bound)
{
  return value > bound || value != value ? value : bound;
}

static double at_most(double value, double bound)
{
  return value < bound || value != value ? value : bound;
}

static double round_half_away(double value)
{
  double size = ATONC_MATH(floor)(ATONC_MATH(fabs)(value) + 0.5);
  return value < 0 ? -size : size;
}

static double real_at(const void *data, size_t i, const atonc_format *format)
{
  return (load(data, i, format->type) - format->zero) * format->scale;
}

static double in_single_at(const void *data, size_t i, const atonc_format *format)
{
  return (float)real_at(data, i, format);
}

typedef double (*reader)(const void *data, size_t i, const atonc_format *format);

/* Functions that jump see what is quantised in single precision: 20 codes of 0.05 are 1 to everybody who computes so.
 * A choice of functions, because some assemblers do not know the conditional conversion. */
static reader reader_for(int jumps, const atonc_format *format)
{
  return jumps && format->scale != 1.0 ? in_single_at : real_at;
}

static double power_of_two(int32_t exponent)
{
  union {
    uint64_t bits;
    double value;
  } number;
  number.bits = (uint64_t)(exponent + 1023) << 52;
  return number.value;
}

/* The code for types of at most 16 bits: rounded half away from the middle by cutting off, then in integers. */
static int32_t narrow_code(double value, const atonc_format *format, int32_t channel)
{
  int32_t code;
  if (format->first_bits) {
    double unit = power_of_two(format->first_bits[channel]);
    value = ATONC_MATH(floor)(value * unit + 0.5) / unit;
  }
  if (value != value) value = 0; /* what is not a number counts as zero */
  value = value - format->middle;
  value = value < 0 ? value - 0.5 : value + 0.5;
  if (value > 131072.0) {
    code = 131072; /* beyond all codes, whatever the zero point is */
  } else if (value < -131072.0) {
    code = -131072;
  } else {
    code = (int32_t)value;
  }
  code += format->middle + (int32_t)format->zero;
  if (code < (int32_t)format->low) return (int32_t)format->low;
  return code > (int32_t)format->high ? (int32_t)format->high : code;
}

/* The same for the other types, as a double that `store` takes. */
static double wide_code(double value, const atonc_format *format)
{
  if (format->type == ATONC_F32 || format->type == ATONC_F64) {
    return format->flags & ATONC_CLIP_FLOAT ? at_most(at_least(value, format->low), format->high) : value;
  }
  if (format->type == ATONC_BOOL) return value != 0;
  if (value != value) value = 0;
  return at_most(at_least(round_half_away(value) + format->zero, format->low), format->high);
}

/* A real value in units of the scale, as the source of the network divides. */
static double in_steps(double value, const atonc_format *format)
{
  if (format->flags & ATONC_IN_SINGLE) {
    float quotient = (float)value / (float)format->scale;
    return format->flags & ATONC_TO_EVEN ? ATONC_MATH(rintf)(quotient) : quotient;
  }
  return value / format->scale;
}

static void put_channel(void *data, size_t i, const atonc_format *format, int32_t channel, double value)
{
  if (format->flags & ATONC_HAS_LEAST) value = at_least(value, format->least);
  if (format->flags & ATONC_HAS_MOST) value = at_most(value, format->most);
  value = in_steps(value, format);
  switch (format->type) {
  case ATONC_S8: case ATONC_U8: ((uint8_t *)data)[i] = (uint8_t)narrow_code(value, format, channel); break;
  case ATONC_S16: case ATONC_U16: ((uint16_t *)data)[i] = (uint16_t)narrow_code(value, format, channel); break;
  default: store(data, i, format->type, wide_code(value, format)); break;
  }
}

static void put(void *data, size_t i, const atonc_format *format, double value)
{
  put_channel(data, i, format, 0, value);
}

