/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include "numbers.h"

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
  double k = ATONC_MATH(floor)(x * LOG2_E + 0.5);
  double r = (x - k * LN2_HIGH) - k * LN2_LOW;
  double half = ATONC_MATH(floor)(k * 0.5);
  double value = 1.0 + exp_series(r) * r;
  return value * power_of_two((int32_t)half) * power_of_two((int32_t)(k - half));
}

static double exponential_minus_one(double x)
{
  return ATONC_MATH(fabs)(x) < 0.34 ? exp_series(x) * x : exponential(x) - 1.0;
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

/* x > 0 as a number from 1/2 to 1 and a power of two. */
static double fraction_of(double x, int *exponent)
{
  union {
    double value;
    uint64_t bits;
  } number;
  int is_small = x < 2.2250738585072014e-308;
  number.value = is_small ? x * 18014398509481984.0 : x;
  *exponent = (int)(number.bits >> 52) - 1022 - (is_small ? 54 : 0);
  number.bits = (number.bits & 0xFFFFFFFFFFFFFull) | 0x3FE0000000000000ull;
  return number.value;
}

static double logarithm_of(double x)
{
  int exponent;
  if (x != x || x < 0) return NAN;
  if (x == 0) return -INFINITY;
  if (x > 1.7976931348623157e308) return x;
  double fraction = fraction_of(x, &exponent);
  if (fraction < SQRT_HALF) {
    fraction = fraction * 2.0;
    exponent = exponent - 1;
  }
  return exponent * LN2_HIGH + (log_series(fraction - 1.0) + exponent * LN2_LOW);
}

static double logistic(double x)
{
  double small = exponential(-ATONC_MATH(fabs)(x));
  return (x >= 0 ? 1.0 : small) / (1.0 + small);
}

static double hyperbolic_tangent(double x)
{
  double e = exponential_minus_one(-2.0 * ATONC_MATH(fabs)(x));
  double size = -e / (2.0 + e);
  return x < 0 ? -size : size;
}

static double softplus(double x)
{
  double small = exponential(-ATONC_MATH(fabs)(x));
  double tail = small < 0.4 ? log_series(small) : logarithm_of(1.0 + small);
  return (x > 0 || x != x ? x : 0.0) + tail;
}

/* 2 x / sqrt(pi) exp(-x^2) (1 + a/3 (1 + a/5 (1 + a/7 ...))) with a = 2 x^2 */
static double error_function(double x)
{
  if (!(ATONC_MATH(fabs)(x) < 6.0)) return x > 0 ? 1.0 : x < 0 ? -1.0 : x;
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
  case ATONC_SQRT: return ATONC_MATH(sqrt)(x);
  case ATONC_RSQRT: return 1.0 / ATONC_MATH(sqrt)(x);
  case ATONC_SQUARE: return x * x;
  case ATONC_ABS: return ATONC_MATH(fabs)(x);
  case ATONC_NEG: return -x;
  case ATONC_SIGN: return x > 0 ? 1.0 : x < 0 ? -1.0 : x != x ? x : 0.0;
  case ATONC_FLOOR: return ATONC_MATH(floor)(x);
  case ATONC_CEIL: return ATONC_MATH(ceil)(x);
  case ATONC_ROUND: return ATONC_MATH(rint)(x);
  case ATONC_RECIPROCAL: return 1.0 / x;
  case ATONC_LOGICAL_NOT: return x == 0;
  case ATONC_LEAKY_RELU: return x >= 0 ? x : x * alpha;
  case ATONC_ELU: return x >= 0 ? x : alpha * exponential_minus_one(x);
  case ATONC_HARD_SIGMOID: return at_most(at_least(x * alpha + beta, 0.0), 1.0);
  case ATONC_ERF: return error_function(x);
  case ATONC_GELU: return 0.5 * x * (1.0 + error_function(x / 1.4142135623730951));
  case ATONC_GELU_TANH:
    return 0.5 * x * (1.0 + hyperbolic_tangent(0.7978845608028654 * (x + 0.044715 * (x * x * x))));
  default: return ATONC_MATH(trunc)(x);
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

/* a - b * trunc(a / b), exactly; the sign of a. */
static double remainder_of(double a, double b)
{
  double rest = ATONC_MATH(fabs)(a), size = ATONC_MATH(fabs)(b);
  if (a != a || b != b || size == 0 || rest > 1.7976931348623157e308) return NAN;
  while (rest >= size) {
    int above, below;
    fraction_of(rest, &above);
    fraction_of(size, &below);
    double part = size;
    int shift = above - below > 1 ? above - below - 1 : 0;
    for (; shift > 1000; shift -= 1000) part = part * power_of_two(1000);
    part = part * power_of_two(shift);
    rest = rest - (part + part <= rest ? part + part : part); /* more than half of it: exact */
  }
  return ATONC_MATH(copysign)(rest, a);
}

/* The remainder has the sign of b. */
static double floor_mod(double a, double b)
{
  double rest = remainder_of(a, b);
  if (b == 0) return rest;
  if (rest == 0) return ATONC_MATH(copysign)(0.0, b);
  return (b < 0) != (rest < 0) ? rest + b : rest;
}

static double floor_div(double a, double b)
{
  if (b == 0) return a / b;
  double rest = remainder_of(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient = quotient - 1.0;
  if (quotient == 0) return ATONC_MATH(copysign)(0.0, a / b);
  double whole = ATONC_MATH(floor)(quotient);
  return quotient - whole > 0.5 ? whole + 1.0 : whole;
}

/* By logarithms; negative numbers have whole powers only. */
static double power(double a, double b)
{
  if (b == 0 || a == 1.0) return 1.0;
  if (a < 0 && b != ATONC_MATH(floor)(b)) return NAN;
  double size = ATONC_MATH(fabs)(a) == 1.0 ? 1.0 : exponential(b * logarithm_of(ATONC_MATH(fabs)(a)));
  return signbit(a) && ATONC_MATH(fabs)(remainder_of(b, 2.0)) == 1.0 ? -size : size;
}

static double binary(int32_t function, double a, double b)
{
  switch (function) {
  case ATONC_ADD: return a + b;
  case ATONC_SUB: return a - b;
  case ATONC_MUL: return a * b;
  case ATONC_DIV: return a / b;
  case ATONC_DIV_TRUNC: return ATONC_MATH(trunc)(a / b);
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
  case ATONC_FMOD: return remainder_of(a, b);
  case ATONC_POW: return power(a, b);
  default: return a >= 0 ? a : a * b; /* both kinds of PReLU */
  }
}

static int jumps_between(int32_t function)
{
  return function == ATONC_FLOOR_DIV || function == ATONC_FLOOR_MOD || function == ATONC_FMOD ||
         (function >= ATONC_LESS && function <= ATONC_NOT_EQUAL);
}

