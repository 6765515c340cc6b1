/* SPDX-License-Identifier: Apache-2.0
 *
 * See atonc_kernels.h. Each product and each sum below is rounded by itself: fused multiply-add would change results,
 * and the pragmas keep compilers from it whatever the command line says.
 */
#include "atonc_kernels.h"

#include <math.h>

#ifdef __FAST_MATH__
#error "atonc_kernels.c needs IEEE arithmetic: compile it without -ffast-math"
#endif
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=off")
#else
#pragma STDC FP_CONTRACT OFF
#endif

#define MAX_RANK 8
#define AT(base, bytes) ((const uint8_t *)(base) + (bytes))

/* --- numbers in memory -------------------------------------------------------------------------------------------- */

static uint32_t item_bytes(int32_t type)
{
  switch (type) {
  case ATONC_S8: case ATONC_U8: case ATONC_BOOL: return 1;
  case ATONC_S16: case ATONC_U16: return 2;
  case ATONC_S32: case ATONC_U32: case ATONC_F32: return 4;
  default: return 8;
  }
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
  case ATONC_S64: return (double)((const int64_t *)data)[i];
  case ATONC_U64: return (double)((const uint64_t *)data)[i];
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
  case ATONC_S64: ((int64_t *)data)[i] = value >= 9223372036854775808.0 ? INT64_MAX : (int64_t)value; break;
  case ATONC_U64: ((uint64_t *)data)[i] = value >= 18446744073709551616.0 ? UINT64_MAX : (uint64_t)value; break;
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
  double size = floor(fabs(value) + 0.5);
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
    value = floor(value * unit + 0.5) / unit;
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

static void put_channel(void *data, size_t i, const atonc_format *format, int32_t channel, double value)
{
  if (format->flags & ATONC_HAS_LEAST) value = at_least(value, format->least);
  if (format->flags & ATONC_HAS_MOST) value = at_most(value, format->most);
  value = value / format->scale;
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

/* --- functions, the same on every machine -------------------------------------------------------------------------- */

#define LOG2_E 1.4426950408889634
#define LN2_HIGH 0.6931471803691238
#define LN2_LOW 1.9082149292705877e-10
#define SQRT_HALF 0.7071067811865476

/* (exp(r) - 1) / r for |r| <= 0.36 */
static double exp_series(double r)
{
  static const double factors[] = {
    1.6059043836821613e-10, 2.08767569878681e-09, 2.505210838544172e-08, 2.755731922398589e-07,
    2.7557319223985893e-06, 2.48015873015873e-05, 0.0001984126984126984, 0.001388888888888889,
    0.008333333333333333, 0.041666666666666664, 0.16666666666666666, 0.5, 1.0
  };
  double sum = factors[0];
  for (int k = 1; k < 13; k++) sum = sum * r + factors[k];
  return sum;
}

static double exponential(double x)
{
  if (x != x) return x;
  if (x > 709.782712893384) return INFINITY;
  if (x < -745.2) return 0.0;
  double k = floor(x * LOG2_E + 0.5);
  double r = (x - k * LN2_HIGH) - k * LN2_LOW;
  double half = floor(k * 0.5);
  double value = 1.0 + exp_series(r) * r;
  return value * power_of_two((int32_t)half) * power_of_two((int32_t)(k - half));
}

static double exponential_minus_one(double x)
{
  return fabs(x) < 0.34 ? exp_series(x) * x : exponential(x) - 1.0;
}

/* log(1 + f) = 2 atanh(f / (2 + f)) for f in [sqrt(1/2) - 1, sqrt(2) - 1] */
static double log_series(double f)
{
  double s = f / (2.0 + f);
  double square = s * s;
  double sum = 1.0 / 21.0;
  for (int k = 19; k > 0; k -= 2) sum = sum * square + 1.0 / k;
  return 2.0 * s * sum;
}

static double logarithm_of(double x)
{
  int exponent;
  if (x != x || x < 0) return NAN;
  if (x == 0) return -INFINITY;
  if (x > 1.7976931348623157e308) return x;
  double fraction = frexp(x, &exponent);
  if (fraction < SQRT_HALF) {
    fraction = fraction * 2.0;
    exponent = exponent - 1;
  }
  return exponent * LN2_HIGH + (log_series(fraction - 1.0) + exponent * LN2_LOW);
}

static double logistic(double x)
{
  double small = exponential(-fabs(x));
  return (x >= 0 ? 1.0 : small) / (1.0 + small);
}

static double hyperbolic_tangent(double x)
{
  double e = exponential_minus_one(-2.0 * fabs(x));
  double size = -e / (2.0 + e);
  return x < 0 ? -size : size;
}

static double softplus(double x)
{
  double small = exponential(-fabs(x));
  double tail = small < 0.4 ? log_series(small) : logarithm_of(1.0 + small);
  return (x > 0 || x != x ? x : 0.0) + tail;
}

/* 2 x / sqrt(pi) exp(-x^2) (1 + a/3 (1 + a/5 (1 + a/7 ...))) with a = 2 x^2 */
static double error_function(double x)
{
  if (!(fabs(x) < 6.0)) return x > 0 ? 1.0 : x < 0 ? -1.0 : x;
  double square = x * x;
  double a = 2.0 * square, sum = 1.0;
  for (int k = 100; k > 0; k--) sum = 1.0 + sum * a / (2.0 * k + 1.0);
  return 1.1283791670955126 * x * exponential(-square) * sum;
}

static double unary(int32_t function, double x, double alpha, double beta)
{
  switch (function) {
  case ATONC_LOGISTIC: return logistic(x);
  case ATONC_TANH: return hyperbolic_tangent(x);
  case ATONC_HARD_SWISH: return x * at_most(at_least(x + 3.0, 0.0), 6.0) / 6.0;
  case ATONC_SILU: return x * logistic(x);
  case ATONC_MISH: return x * hyperbolic_tangent(softplus(x));
  case ATONC_SOFTPLUS: return softplus(x);
  case ATONC_EXP: return exponential(x);
  case ATONC_LOG: return logarithm_of(x);
  case ATONC_SQRT: return sqrt(x);
  case ATONC_RSQRT: return 1.0 / sqrt(x);
  case ATONC_SQUARE: return x * x;
  case ATONC_ABS: return fabs(x);
  case ATONC_NEG: return -x;
  case ATONC_SIGN: return x > 0 ? 1.0 : x < 0 ? -1.0 : x != x ? x : 0.0;
  case ATONC_FLOOR: return floor(x);
  case ATONC_CEIL: return ceil(x);
  case ATONC_ROUND: return rint(x);
  case ATONC_RECIPROCAL: return 1.0 / x;
  case ATONC_LOGICAL_NOT: return x == 0;
  case ATONC_LEAKY_RELU: return x >= 0 ? x : x * alpha;
  case ATONC_ELU: return x >= 0 ? x : alpha * exponential_minus_one(x);
  case ATONC_HARD_SIGMOID: return at_most(at_least(x * alpha + beta, 0.0), 1.0);
  case ATONC_ERF: return error_function(x);
  case ATONC_GELU: return 0.5 * x * (1.0 + error_function(x / 1.4142135623730951));
  case ATONC_GELU_TANH:
    return 0.5 * x * (1.0 + hyperbolic_tangent(0.7978845608028654 * (x + 0.044715 * (x * x * x))));
  default: return trunc(x);
  }
}

static double larger(double a, double b)
{
  return a >= b || a != a ? a : b;
}

static double smaller(double a, double b)
{
  return a <= b || a != a ? a : b;
}

/* The remainder has the sign of b. */
static double floor_mod(double a, double b)
{
  double rest = fmod(a, b);
  if (b == 0) return rest;
  if (rest == 0) return copysign(0.0, b);
  return (b < 0) != (rest < 0) ? rest + b : rest;
}

static double floor_div(double a, double b)
{
  if (b == 0) return a / b;
  double rest = fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient = quotient - 1.0;
  if (quotient == 0) return copysign(0.0, a / b);
  double whole = floor(quotient);
  return quotient - whole > 0.5 ? whole + 1.0 : whole;
}

/* By logarithms; negative numbers have whole powers only. */
static double power(double a, double b)
{
  if (b == 0 || a == 1.0) return 1.0;
  if (a < 0 && b != floor(b)) return NAN;
  double size = fabs(a) == 1.0 ? 1.0 : exponential(b * logarithm_of(fabs(a)));
  return signbit(a) && fabs(fmod(b, 2.0)) == 1.0 ? -size : size;
}

static double binary(int32_t function, double a, double b)
{
  switch (function) {
  case ATONC_ADD: return a + b;
  case ATONC_SUB: return a - b;
  case ATONC_MUL: return a * b;
  case ATONC_DIV: return a / b;
  case ATONC_DIV_TRUNC: return trunc(a / b);
  case ATONC_MINIMUM: return smaller(a, b);
  case ATONC_MAXIMUM: return larger(a, b);
  case ATONC_FLOOR_DIV: return floor_div(a, b);
  case ATONC_FLOOR_MOD: return floor_mod(a, b);
  case ATONC_SQUARED_DIFFERENCE: return (a - b) * (a - b);
  case ATONC_LESS: return a < b;
  case ATONC_LESS_EQUAL: return a <= b;
  case ATONC_GREATER: return a > b;
  case ATONC_GREATER_EQUAL: return a >= b;
  case ATONC_EQUAL: return a == b;
  case ATONC_NOT_EQUAL: return a != b;
  case ATONC_LOGICAL_AND: return a != 0 && b != 0;
  case ATONC_LOGICAL_OR: return a != 0 || b != 0;
  case ATONC_FMOD: return fmod(a, b);
  case ATONC_POW: return power(a, b);
  default: return a >= 0 ? a : a * b; /* both kinds of PReLU */
  }
}

static int jumps_between(int32_t function)
{
  return function == ATONC_FLOOR_DIV || function == ATONC_FLOOR_MOD || function == ATONC_FMOD ||
         (function >= ATONC_LESS && function <= ATONC_NOT_EQUAL);
}

/* --- nested loops -------------------------------------------------------------------------------------------------- */

/* Rows of `width` numbers: a count and up to three steps. `at` follows the steps. */
typedef struct {
  int32_t index[MAX_RANK];
  ptrdiff_t at[3];
} walker;

static walker start_walk(void)
{
  walker w = {{0}, {0}};
  return w;
}

static int is_empty(int32_t rank, const int32_t *rows, int32_t width)
{
  for (int32_t k = 0; k < rank; k++) {
    if (rows[k * width] <= 0) return 1;
  }
  return 0;
}

/* The next position; 0 when the loops are through. */
static int advance(walker *w, int32_t rank, const int32_t *rows, int32_t width)
{
  for (int32_t k = rank - 1; k >= 0; k--) {
    const int32_t *row = rows + k * width;
    w->index[k]++;
    for (int32_t s = 1; s < width; s++) w->at[s - 1] += row[s];
    if (w->index[k] < row[0]) return 1;
    for (int32_t s = 1; s < width; s++) w->at[s - 1] -= (ptrdiff_t)row[s] * row[0];
    w->index[k] = 0;
  }
  return 0;
}

/* --- memory -------------------------------------------------------------------------------------------------------- */

void atonc_copy(void *out, const void *in, uint32_t bytes)
{
  uint8_t *to = out;
  const uint8_t *from = in;
  if (to == from) return;
  if ((uintptr_t)to < (uintptr_t)from) {
    for (uint32_t i = 0; i < bytes; i++) to[i] = from[i];
  } else {
    for (uint32_t i = bytes; i > 0; i--) to[i - 1] = from[i - 1];
  }
}

void atonc_fill(void *out, const uint8_t *item, uint32_t item_bytes_, uint32_t count)
{
  uint8_t *to = out;
  for (uint32_t i = 0; i < count; i++) {
    for (uint32_t k = 0; k < item_bytes_; k++) *to++ = item[k];
  }
}

void atonc_move(void *out, const void *in, uint32_t run_bytes, int32_t rank, const int32_t *loops,
                const uint8_t *table)
{
  walker w = start_walk();
  if (is_empty(rank, loops, 3)) return;
  do {
    uint8_t *to = (uint8_t *)out + w.at[0];
    const uint8_t *from = (const uint8_t *)in + w.at[1];
    if (table == 0) {
      for (uint32_t i = 0; i < run_bytes; i++) to[i] = from[i];
    } else {
      for (uint32_t i = 0; i < run_bytes; i++) to[i] = table[from[i]];
    }
  } while (advance(&w, rank, loops, 3));
}

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
          for (uint32_t i = 0; i < run_bytes; i++) *to++ = from[i];
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

/* --- one value at a time ------------------------------------------------------------------------------------------- */

void atonc_lookup(void *out, const uint8_t *in, uint32_t count, const uint8_t *table, uint32_t item_bytes_)
{
  uint8_t *to = out;
  if (item_bytes_ == 1) {
    for (uint32_t i = 0; i < count; i++) to[i] = table[in[i]];
    return;
  }
  for (uint32_t i = 0; i < count; i++) {
    const uint8_t *from = table + in[i] * item_bytes_;
    for (uint32_t k = 0; k < item_bytes_; k++) *to++ = from[k];
  }
}

/* The two conversions that most networks have at their ends. */

/* Single precision decides where it can: below 1000 its errors stay below 0.0002, and only within 0.001 of a tie could
 * the exact quotient round otherwise. Everything else, and what is not a number, goes the exact way. */
static void floats_to_bytes(uint8_t *out, const atonc_format *format, const float *in, uint32_t count)
{
  int usual = format->scale > 1e-30 && format->scale < 1e30 && !format->first_bits && !format->middle;
  float factor = usual ? (float)(1.0 / format->scale) : NAN;
  int32_t zero = (int32_t)format->zero, low = (int32_t)format->low, high = (int32_t)format->high;
  for (uint32_t i = 0; i < count; i++) {
    float value = in[i] * factor;
    float whole = floorf(value + 0.5f);
    int32_t code;
    if (fabsf(value) < 1000.0f && fabsf(value - whole) < 0.499f) {
      code = (int32_t)whole + zero;
      code = code < low ? low : code > high ? high : code;
    } else {
      code = narrow_code((double)in[i] / format->scale, format, 0);
    }
    out[i] = (uint8_t)code;
  }
}

/* By a table of all 256 results, 1 KB on the stack, where that pays. */
static void bytes_to_floats(float *out, const uint8_t *in, const atonc_format *format, uint32_t count)
{
  float table[256];
  int is_signed = format->type == ATONC_S8;
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

void atonc_convert(void *out, const atonc_format *out_format, const void *in, const atonc_format *in_format,
                   uint32_t count)
{
  int32_t from = in_format->type, to = out_format->type;
  int plain = out_format->flags == 0 && (from == ATONC_F32 ? in_format : out_format)->scale == 1.0;
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

/* --- sums ---------------------------------------------------------------------------------------------------------- */

/* A run of products that is added to a sum. Integers are exact: in 32 bits within a run of bytes (the caller saw to
 * that), in 64 bits over all runs. Floats are added one after the other. */
typedef struct {
  const void *x;
  const void *weights;
  size_t x_step, weight_step, count;
  double zero;
  int32_t x_type, weight_type;
  int64_t integers; /* the sum of integers */
  double sum;       /* the sum of floats */
} products;

typedef void (*adder)(products *p);

static void add_s8(products *p)
{
  const int8_t *x = p->x, *w = p->weights;
  int32_t part = 0, zero = (int32_t)p->zero;
  for (size_t i = 0; i < p->count; i++) part += (x[i * p->x_step] - zero) * w[i * p->weight_step];
  p->integers += part;
}

static void add_u8(products *p)
{
  const uint8_t *x = p->x;
  const int8_t *w = p->weights;
  int32_t part = 0, zero = (int32_t)p->zero;
  for (size_t i = 0; i < p->count; i++) part += (x[i * p->x_step] - zero) * w[i * p->weight_step];
  p->integers += part;
}

static void add_s16(products *p)
{
  const int16_t *x = p->x;
  const int8_t *w = p->weights;
  int64_t part = 0;
  int32_t zero = (int32_t)p->zero;
  for (size_t i = 0; i < p->count; i++) part += (int64_t)(x[i * p->x_step] - zero) * w[i * p->weight_step];
  p->integers += part;
}

static void add_f32_s8(products *p)
{
  const float *x = p->x;
  const int8_t *w = p->weights;
  double sum = p->sum;
  for (size_t i = 0; i < p->count; i++) sum = sum + (double)x[i * p->x_step] * w[i * p->weight_step];
  p->sum = sum;
}

static void add_f32(products *p)
{
  const float *x = p->x, *w = p->weights;
  double sum = p->sum;
  for (size_t i = 0; i < p->count; i++) sum = sum + (double)x[i * p->x_step] * w[i * p->weight_step];
  p->sum = sum;
}

static void add_f32_f64(products *p)
{
  const float *x = p->x;
  const double *w = p->weights;
  double sum = p->sum;
  for (size_t i = 0; i < p->count; i++) sum = sum + x[i * p->x_step] * w[i * p->weight_step];
  p->sum = sum;
}

static void add_any(products *p)
{
  for (size_t i = 0; i < p->count; i++) {
    double x = load(p->x, i * p->x_step, p->x_type) - p->zero;
    p->sum = p->sum + x * load(p->weights, i * p->weight_step, p->weight_type);
  }
}

static adder adder_for(int32_t x_type, int32_t weight_type)
{
  if (weight_type == ATONC_S8) {
    if (x_type == ATONC_S8) return add_s8;
    if (x_type == ATONC_U8) return add_u8;
    if (x_type == ATONC_S16) return add_s16;
    if (x_type == ATONC_F32) return add_f32_s8;
  }
  if (x_type == ATONC_F32 && weight_type == ATONC_F32) return add_f32;
  return x_type == ATONC_F32 && weight_type == ATONC_F64 ? add_f32_f64 : add_any;
}

/* The taps first <= k < last of a window whose first tap lies at `origin` meet a picture of `size`. */
static void meeting_taps(int32_t origin, int32_t taps, int32_t dilate, int32_t size, int32_t *first, int32_t *last)
{
  int32_t from = 0, to = taps;
  while (from < to && origin + from * dilate < 0) from++;
  while (to > from && origin + (to - 1) * dilate >= size) to--;
  *first = from;
  *last = to;
}

/* One output of a convolution: all taps, row by row, channels fastest. */
static void add_window(const void *in, const void *weights, const atonc_window *g, const int32_t at[3], int32_t o,
                       products *p, adder add)
{
  int32_t depth = g->in_c / g->groups, group = o / (g->out_c / g->groups);
  uint32_t x_bytes = item_bytes(p->x_type), w_bytes = item_bytes(p->weight_type);
  int32_t y0 = at[1] * g->stride_y - g->top, x0 = at[2] * g->stride_x - g->left;
  int32_t ky_from, ky_to, kx_from, kx_to;
  meeting_taps(y0, g->k_h, g->dilate_y, g->in_h, &ky_from, &ky_to);
  meeting_taps(x0, g->k_w, g->dilate_x, g->in_w, &kx_from, &kx_to);
  /* one run per row of taps where memory allows it, else one per tap */
  int32_t whole_row = depth == 1 || (g->groups == 1 && g->dilate_x == 1);
  int32_t runs = whole_row ? (kx_from < kx_to) : kx_to - kx_from;
  p->x_step = depth == 1 ? (size_t)g->dilate_x * g->in_c : 1;
  p->weight_step = 1;
  p->count = whole_row ? (size_t)(kx_to - kx_from) * depth : (size_t)depth;
  for (int32_t ky = ky_from; ky < ky_to; ky++) {
    size_t row = ((size_t)at[0] * g->in_h + y0 + ky * g->dilate_y) * g->in_w;
    for (int32_t kx = kx_from; kx < kx_from + runs; kx++) {
      size_t pixel = (row + x0 + kx * g->dilate_x) * g->in_c + (size_t)group * depth;
      p->x = AT(in, pixel * x_bytes);
      p->weights = AT(weights, (((size_t)o * g->k_h + ky) * g->k_w + kx) * depth * w_bytes);
      add(p);
    }
  }
}

/* One output of a transposed convolution, taps in the same order. */
static void add_collected(const void *in, const void *weights, const atonc_window *g, const int32_t at[3], int32_t o,
                          products *p, adder add)
{
  int32_t depth = g->in_c / g->groups, group = o / (g->out_c / g->groups);
  uint32_t x_bytes = item_bytes(p->x_type), w_bytes = item_bytes(p->weight_type);
  p->x_step = p->weight_step = 1;
  p->count = (size_t)depth;
  for (int32_t ky = 0; ky < g->k_h; ky++) {
    int32_t y = at[1] + g->top - ky * g->dilate_y;
    if (y < 0 || y % g->stride_y || y / g->stride_y >= g->in_h) continue;
    for (int32_t kx = 0; kx < g->k_w; kx++) {
      int32_t x = at[2] + g->left - kx * g->dilate_x;
      if (x < 0 || x % g->stride_x || x / g->stride_x >= g->in_w) continue;
      size_t pixel = ((size_t)at[0] * g->in_h + y / g->stride_y) * g->in_w + x / g->stride_x;
      p->x = AT(in, (pixel * g->in_c + (size_t)group * depth) * x_bytes);
      p->weights = AT(weights, (((size_t)o * g->k_h + ky) * g->k_w + kx) * depth * w_bytes);
      add(p);
    }
  }
}

typedef void (*collector)(const void *in, const void *weights, const atonc_window *g, const int32_t at[3], int32_t o,
                          products *p, adder add);

static void convolve(collector collect, void *out, const atonc_format *out_format, const void *in,
                     const atonc_format *in_format, const void *weights, int32_t weight_type, const double *scales,
                     const double *biases, const atonc_window *g)
{
  adder add = adder_for(in_format->type, weight_type);
  products p = {0, 0, 1, 1, 0, in_format->zero, in_format->type, weight_type, 0, 0.0};
  int floats = add != add_s8 && add != add_u8 && add != add_s16;
  int32_t at[3];
  size_t i = 0;
  for (at[0] = 0; at[0] < g->batch; at[0]++) {
    for (at[1] = 0; at[1] < g->out_h; at[1]++) {
      for (at[2] = 0; at[2] < g->out_w; at[2]++) {
        for (int32_t o = 0; o < g->out_c; o++) {
          p.integers = 0;
          p.sum = 0.0;
          collect(in, weights, g, at, o, &p, add);
          put_channel(out, i++, out_format, o, (floats ? p.sum : (double)p.integers) * scales[o] + biases[o]);
        }
      }
    }
  }
}

void atonc_conv(void *out, const atonc_format *out_format, const void *in, const atonc_format *in_format,
                const void *weights, int32_t weight_type, const double *scales, const double *biases,
                const atonc_window *window)
{
  convolve(add_window, out, out_format, in, in_format, weights, weight_type, scales, biases, window);
}

void atonc_transpose_conv(void *out, const atonc_format *out_format, const void *in, const atonc_format *in_format,
                          const void *weights, int32_t weight_type, const double *scales, const double *biases,
                          const atonc_window *window)
{
  convolve(add_collected, out, out_format, in, in_format, weights, weight_type, scales, biases, window);
}

void atonc_matmul(void *out, const atonc_format *out_format, const void *a, const atonc_format *a_format,
                  const void *b, const atonc_format *b_format, int32_t rank, const int32_t *loops, int32_t rows,
                  int32_t depth, int32_t columns, const int32_t *steps)
{
  walker w = start_walk();
  size_t i = 0;
  if (is_empty(rank, loops, 3)) return;
  do {
    for (int32_t row = 0; row < rows; row++) {
      for (int32_t column = 0; column < columns; column++) {
        double sum = 0.0;
        for (int32_t k = 0; k < depth; k++) {
          size_t from_a = (size_t)(w.at[0] + (ptrdiff_t)row * steps[0] + (ptrdiff_t)k * steps[1]);
          size_t from_b = (size_t)(w.at[1] + (ptrdiff_t)k * steps[2] + (ptrdiff_t)column * steps[3]);
          double left = load(a, from_a, a_format->type) - a_format->zero;
          sum = sum + left * (load(b, from_b, b_format->type) - b_format->zero);
        }
        put(out, i++, out_format, sum * a_format->scale * b_format->scale);
      }
    }
  } while (advance(&w, rank, loops, 3));
}

/* --- pools and reductions ------------------------------------------------------------------------------------------ */

static void pool(void *out, const atonc_format *out_format, const void *in, const atonc_format *in_format,
                 const atonc_window *g, int32_t is_max, int32_t count_padding)
{
  size_t i = 0;
  for (int32_t n = 0; n < g->batch; n++) {
    for (int32_t y = 0; y < g->out_h; y++) {
      for (int32_t x = 0; x < g->out_w; x++) {
        int32_t y0 = y * g->stride_y - g->top, x0 = x * g->stride_x - g->left;
        int32_t ky_from, ky_to, kx_from, kx_to;
        meeting_taps(y0, g->k_h, g->dilate_y, g->in_h, &ky_from, &ky_to);
        meeting_taps(x0, g->k_w, g->dilate_x, g->in_w, &kx_from, &kx_to);
        double count = count_padding ? (double)g->k_h * g->k_w : (double)(ky_to - ky_from) * (kx_to - kx_from);
        for (int32_t c = 0; c < g->in_c; c++) {
          double most = -INFINITY, sum = 0.0;
          for (int32_t ky = ky_from; ky < ky_to; ky++) {
            for (int32_t kx = kx_from; kx < kx_to; kx++) {
              size_t row = (size_t)n * g->in_h + y0 + ky * g->dilate_y;
              size_t from = (row * g->in_w + x0 + kx * g->dilate_x) * g->in_c + c;
              double value = load(in, from, in_format->type) - in_format->zero;
              most = is_max ? larger(most, value) : most;
              sum = sum + value;
            }
          }
          put(out, i++, out_format, (is_max ? most : sum / count) * in_format->scale);
        }
      }
    }
  }
}

void atonc_max_pool(void *out, const atonc_format *out_format, const void *in, const atonc_format *in_format,
                    const atonc_window *window)
{
  pool(out, out_format, in, in_format, window, 1, 0);
}

void atonc_average_pool(void *out, const atonc_format *out_format, const void *in, const atonc_format *in_format,
                        const atonc_window *window, int32_t count_padding)
{
  pool(out, out_format, in, in_format, window, 0, count_padding);
}

static double reduced_with(int32_t function, double so_far, double value)
{
  switch (function) {
  case ATONC_REDUCE_MAX: return larger(so_far, value);
  case ATONC_REDUCE_MIN: return smaller(so_far, value);
  case ATONC_REDUCE_PROD: return so_far * value;
  default: return so_far + value;
  }
}

void atonc_reduce(void *out, const atonc_format *out_format, const void *in, const atonc_format *in_format,
                  int32_t function, int32_t kept_rank, const int32_t *kept, int32_t reduced_rank,
                  const int32_t *reduced)
{
  static const double starts[] = {0.0, 0.0, -INFINITY, INFINITY, 1.0};
  int32_t is_sum = function == ATONC_SUM || function == ATONC_MEAN;
  /* sums are of codes and scaled at the end, the others compare and multiply real values */
  double scale = is_sum ? 1.0 : in_format->scale;
  double count = 1.0;
  walker outer = start_walk();
  size_t i = 0;
  if (is_empty(kept_rank, kept, 2) || is_empty(reduced_rank, reduced, 2)) return;
  for (int32_t k = 0; k < reduced_rank; k++) count = count * reduced[2 * k];
  do {
    walker inner = start_walk();
    double value = starts[function];
    do {
      size_t from = (size_t)(outer.at[0] + inner.at[0]);
      value = reduced_with(function, value, (load(in, from, in_format->type) - in_format->zero) * scale);
    } while (advance(&inner, reduced_rank, reduced, 2));
    if (is_sum) value = value * in_format->scale;
    put(out, i++, out_format, function == ATONC_MEAN ? value / count : value);
  } while (advance(&outer, kept_rank, kept, 2));
}

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

void atonc_arg_extreme(void *out, int32_t out_type, const void *in, int32_t in_type, int32_t outer, int32_t count,
                       int32_t inner, int32_t smallest)
{
  size_t i = 0;
  if ((in_type == ATONC_S8 || in_type == ATONC_U8) && inner == 1 && count > 0) {
    uint32_t flip = (in_type == ATONC_S8 ? 0x80 : 0) ^ (smallest ? 0xFF : 0);
    for (int32_t o = 0; o < outer; o++) {
      store(out, i++, out_type, extreme_byte(AT(in, (size_t)o * count), count, flip));
    }
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

/* --- rows ---------------------------------------------------------------------------------------------------------- */

void atonc_softmax_8(void *out, const atonc_format *out_format, const uint8_t *in, int32_t is_signed, int32_t outer,
                     int32_t count, int32_t inner, const double *exponentials)
{
  uint8_t flip = is_signed ? 0x80 : 0; /* signed bytes compare as unsigned ones with the top bit inverted */
  for (int32_t o = 0; o < outer; o++) {
    for (int32_t k = 0; k < inner; k++) {
      size_t first = (size_t)o * count * inner + k;
      const uint8_t *row = in + first;
      uint8_t most = 0;
      double total = 0.0;
      for (int32_t c = 0; c < count; c++) {
        uint8_t code = row[(size_t)c * inner] ^ flip;
        if (code > most) most = code;
      }
      for (int32_t c = 0; c < count; c++) total = total + exponentials[most - (row[(size_t)c * inner] ^ flip)];
      for (int32_t c = 0; c < count; c++) {
        double value = exponentials[most - (row[(size_t)c * inner] ^ flip)];
        put(out, first + (size_t)c * inner, out_format, value / total);
      }
    }
  }
}

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
    double length = sqrt(larger(total, 1e-12));
    for (int32_t c = 0; c < count; c++) put(out, first + c, out_format, real_at(in, first + c, in_format) / length);
  }
}

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

/* --- states -------------------------------------------------------------------------------------------------------- */

/* Numbers of 16 bits, m of them in front of the point ("Qm"), in the fixed point of gemmlowp. */

static int32_t clip_16(int64_t value) { return (int32_t)(value > 32767 ? 32767 : value < -32768 ? -32768 : value); }

/* The high half of a doubled product, halves away from zero. */
static int32_t high_16(int32_t a, int32_t b)
{
  int32_t product = a * b;
  if (a == -32768 && b == -32768) return 32767;
  return (product + (product >= 0 ? 1 << 14 : 1 - (1 << 14))) / (1 << 15);
}

static int32_t shift_down(int32_t value, int32_t bits)
{
  int32_t mask = (int32_t)((1u << bits) - 1);
  int32_t threshold = (mask >> 1) + (value < 0);
  return (value >> bits) + ((value & mask) > threshold);
}

static int32_t shift_up_16(int32_t value, int32_t bits) { return clip_16((int64_t)value * (1 << bits)); }

/* value * multiplier * 2^(exponent - 31), rounded twice. */
static int32_t scaled_sum(int32_t value, const int32_t *multiplier)
{
  int32_t exponent = multiplier[1];
  int64_t product = (int64_t)value * (exponent > 0 ? (int64_t)1 << exponent : 1) * multiplier[0];
  int32_t high = (int32_t)((product + (product >= 0 ? 1 << 30 : 1 - (1 << 30))) / ((int64_t)1 << 31));
  return shift_down(high, exponent < 0 ? -exponent : 0);
}

static int32_t exp_of_last_quarter(int32_t a)
{
  int32_t x = a + (1 << 12);
  int32_t square = high_16(x, x);
  int32_t cube = high_16(square, x);
  int32_t fourth = shift_down(high_16(square, square), 2);
  int32_t tail = shift_down(high_16(fourth + cube, 10923) + square, 1);
  return clip_16(28918 + high_16(28918, x + tail));
}

static int32_t exp_below_zero(int32_t a, int32_t bits)
{
  static const int16_t powers[7] = {25520, 19875, 12055, 4435, 600, 11, 0};
  int32_t behind = 15 - bits, quarter = 1 << (behind - 2);
  int32_t part = (a & (quarter - 1)) - quarter;
  int32_t result = exp_of_last_quarter(shift_up_16(part, bits));
  int32_t rest = part - a;
  if (a == 0) return 32767;
  if (bits > 5 && a < -(32 << behind)) return 0;
  for (int32_t k = -2; k < bits && k < 5; k++) {
    if (rest & (1 << (behind + k))) result = high_16(result, powers[k + 2]);
  }
  return result;
}

/* 2 / (1 + a) as Q2. */
static int32_t reciprocal_16(int32_t a)
{
  int32_t half = (a + 32767 + 1) >> 1;
  int32_t x = 23130 + high_16(half, -15420);
  for (int k = 0; k < 3; k++) x = x + shift_up_16(high_16(x, (1 << 13) - high_16(half, x)), 2);
  return x;
}

static int32_t logistic_16(int32_t a)
{
  int32_t positive = shift_up_16(reciprocal_16(exp_below_zero(a < 0 ? a : -a, 3)), 1);
  return a == 0 ? 1 << 14 : a > 0 ? positive : 32767 - positive;
}

static int32_t tanh_16(int32_t a, int32_t bits)
{
  int32_t size = shift_up_16(reciprocal_16(exp_below_zero(a < 0 ? a : -a, bits + 1)) - (1 << 13), 2);
  return a == 0 ? 0 : a < 0 ? -size : size;
}

static int32_t sum_of_bytes(const int8_t *x, const int8_t *weights, int32_t count, int32_t sum)
{
  for (int32_t i = 0; i < count; i++) sum += x[i] * weights[i];
  return sum;
}

void atonc_lstm(int8_t *out, const int8_t *in, int32_t batch, int32_t steps, int32_t inputs, int32_t cells,
                const int8_t *weights, const int8_t *recurrent, const int32_t *biases, const int32_t *multipliers,
                int32_t cell_bits, int32_t cell_clip, int32_t zero)
{
  int16_t state[ATONC_MOST_CELLS];
  for (int32_t row = 0; row < batch * steps; row++, in += inputs, out += cells) {
    int first = row % steps == 0;
    for (int32_t c = 0; c < cells; c++) {
      int32_t gates[4], cell, shown;
      for (int32_t g = 0; g < 4; g++) {
        size_t at = (size_t)g * cells + c;
        int32_t sum = sum_of_bytes(in, weights + at * inputs, inputs, biases[at]);
        int32_t kept = biases[4 * cells + at];
        int32_t total = clip_16(scaled_sum(sum, multipliers + 2 * g));
        if (first) {
          for (int32_t i = 0; i < cells; i++) kept += zero * recurrent[at * cells + i];
        } else {
          kept = sum_of_bytes(out - cells, recurrent + at * cells, cells, kept);
        }
        total = clip_16((int64_t)total + scaled_sum(kept, multipliers + 8 + 2 * g));
        gates[g] = g == 2 ? tanh_16(total, 3) : logistic_16(total);
      }
      cell = first ? 0 : shift_down(gates[1] * state[c], 15);
      cell = clip_16(cell + shift_down(gates[0] * gates[2], 15 + cell_bits));
      if (cell_clip) cell = cell > cell_clip ? cell_clip : cell < -cell_clip ? -cell_clip : cell;
      state[c] = (int16_t)cell;
      shown = scaled_sum(gates[3] * tanh_16(cell, cell_bits), multipliers + 16) + zero;
      out[c] = (int8_t)(shown > 127 ? 127 : shown < -128 ? -128 : shown);
    }
  }
}
