/* SPDX-License-Identifier: Apache-2.0
 * Integer softmax, with the fixed-point functions that TFLite's is made of. "Qm" is 32 bits with m integer bits.
 */
#ifndef ATONC_EC_ONLY

#include "atonc_lib_tensor.h"

#define SUM_BITS 12

static int64_t multiply_high(int64_t a, int64_t b) {
    int64_t product = a * b;
    int64_t nudged = product + (product >= 0 ? 1LL << 30 : 1 - (1LL << 30));
    int64_t result = nudged >= 0 ? nudged >> 31 : -(-nudged >> 31);
    return result > INT32_MAX ? INT32_MAX : result;
}

/* Ties away from zero. */
static int64_t divide_by_power_of_two(int64_t x, unsigned exponent) {
    int64_t mask = (1LL << exponent) - 1, threshold = (mask >> 1) + (x < 0);
    return (x >> exponent) + ((x & mask) > threshold);
}

static int64_t shift_left_saturated(int64_t x, unsigned exponent) {
    int64_t result = (int64_t)((uint64_t)x << exponent);
    return result > INT32_MAX ? INT32_MAX : result < INT32_MIN ? INT32_MIN : result;
}

/* exp(a) for a in [-1/4, 0), Q0: a series around -1/8. */
static int64_t exp_on_last_quarter(int64_t a) {
    const int64_t exp_of_minus_eighth = 1895147668, third = 715827883;
    int64_t x = a + (1LL << 28);
    int64_t x2 = multiply_high(x, x), x3 = multiply_high(x2, x);
    int64_t x4_over_4 = divide_by_power_of_two(multiply_high(x2, x2), 2);
    int64_t tail = divide_by_power_of_two(multiply_high(x4_over_4 + x3, third) + x2, 1);
    return exp_of_minus_eighth + multiply_high(exp_of_minus_eighth, x + tail);
}

/* exp(a) as Q0 for a <= 0 given as Q5. */
static int64_t exp_on_negative_values(int64_t a) {
    static const int32_t exp_of_bit[] = {1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242};
    const int64_t quarter = 1LL << 24;
    if (a == 0) {
        return INT32_MAX;
    }
    int64_t last_quarter = (a & (quarter - 1)) - quarter, remainder = last_quarter - a;
    int64_t result = exp_on_last_quarter(shift_left_saturated(last_quarter, 5));
    for (unsigned bit = 0; bit < sizeof exp_of_bit / sizeof exp_of_bit[0]; bit++) {
        if (remainder >> (24u + bit) & 1) {
            result = multiply_high(result, exp_of_bit[bit]);
        }
    }
    return result;
}

/* 1 / (1 + a) as Q0 for a in [0, 1) given as Q0: three Newton steps. */
static int64_t one_over_one_plus(int64_t a) {
    int64_t half_denominator = (a + INT32_MAX + 1) >> 1;
    int64_t x = 1515870810 + multiply_high(half_denominator, -1010580540); /* 48/17 - 32/17 d, Q2 */
    for (unsigned i = 0; i < 3; i++) {
        int64_t one_minus = (1LL << 29) - multiply_high(half_denominator, x);
        x += shift_left_saturated(multiply_high(x, one_minus), 2);
    }
    return shift_left_saturated(x, 1);
}

static int64_t exponential(const Softmax_integer_sw_info *info, int32_t difference) {
    if (difference < info->diff_min) {
        return 0;
    }
    int64_t shifted = (int64_t)difference * (1LL << info->left_shift);
    shifted = shifted < INT32_MIN ? INT32_MIN : shifted;
    return exp_on_negative_values(multiply_high(shifted, info->quantized_multiplier));
}

static void softmax_line(const line_t *line, const void *context) {
    const Softmax_integer_sw_info *info = context;
    bool is_signed = info->general.input.format.is_signed;
    int32_t highest = INT32_MIN;
    int64_t sum = 0;
    for (uint32_t i = 0; i < line->count; i++) {
        int32_t code = atonc_code(line->in + i * line->in_step, is_signed);
        highest = code > highest ? code : highest;
    }
    for (uint32_t i = 0; i < line->count; i++) {
        int32_t code = atonc_code(line->in + i * line->in_step, is_signed);
        sum += divide_by_power_of_two(exponential(info, code - highest), SUM_BITS);
    }
    ATONC_LAYER_NEEDS(sum > 0 && sum <= INT32_MAX);
    int zeros = __builtin_clz((unsigned)sum);
    int64_t scale = one_over_one_plus(((int64_t)sum << zeros) - (1LL << 31));
    unsigned shift = (unsigned)(SUM_BITS - zeros + 31 - 8);
    for (uint32_t i = 0; i < line->count; i++) {
        int64_t e = exponential(info, atonc_code(line->in + i * line->in_step, is_signed) - highest);
        int64_t value = e == 0 ? 0 : divide_by_power_of_two(multiply_high(scale, e), shift);
        line->out[i * line->out_step] = atonc_clip(value - (is_signed ? 128 : 0), is_signed);
    }
}

/* The arithmetic gives codes of 1/256, counted from the lowest one: the output must be described so. */
static bool has_plain_output(const Softmax_integer_sw_info *info, bool is_signed) {
    format_t format;
    if (info->os.mem.start_offset == NULL) {
        return true;
    }
    if (!atonc_format(&format, &info->os, &info->ozp, 1)) {
        return false;
    }
    float error = atonc_scale(&format, 0) * 256.0f - 1.0f;
    return error < 1e-4f && error > -1e-4f && atonc_zero(&format, 0) == (is_signed ? -128 : 0);
}

static bool numbers_make_sense(const Softmax_integer_sw_info *info) {
    return info->quantized_multiplier > 0 && info->left_shift >= 0 && info->left_shift <= 31 && info->diff_min <= 0;
}

void ll_sw_forward_softmax_integer(Softmax_integer_sw_info *sw_info) {
    const Tensor_info *in = &sw_info->general.input, *out = &sw_info->general.output;
    bool is_signed = in->format.is_signed;
    ATONC_LAYER_NEEDS(is_signed == out->format.is_signed && has_plain_output(sw_info, is_signed));
    ATONC_LAYER_NEEDS(numbers_make_sense(sw_info));
    ATONC_LAYER_NEEDS(atonc_for_each_line(in, out, sw_info->axis, softmax_line, sw_info));
}

#endif
