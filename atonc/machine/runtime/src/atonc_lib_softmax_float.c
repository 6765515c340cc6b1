/* SPDX-License-Identifier: Apache-2.0
 * Softmax of floats: in double precision, by operations that give the same bits everywhere, rounded once.
 */
#ifndef ATONC_EC_ONLY

#include "atonc_lib_tensor.h"

#define LOG2_E 1.4426950408889634
#define LN2_HIGH 0.6931471803691238
#define LN2_LOW 1.9082149292705877e-10
#define TOO_SMALL (-745.2)

static double floor_of(double value) {
    int32_t whole = (int32_t)value;
    return (double)whole > value ? (double)(whole - 1) : (double)whole;
}

static double power_of_two(int32_t exponent) {
    union {
        uint64_t bits;
        double value;
    } number = {.bits = (uint64_t)(exponent + 1023) << 52};
    return number.value;
}

/* exp(x) for x <= 0: a power of two times a series around 0. */
static double exponential(double x) {
    static const double factors[] = {
        1.6059043836821613e-10, 2.08767569878681e-09,  2.505210838544172e-08, 2.755731922398589e-07,
        2.7557319223985893e-06, 2.48015873015873e-05,  0.0001984126984126984, 0.001388888888888889,
        0.008333333333333333,   0.041666666666666664, 0.16666666666666666,   0.5,
        1.0,
    };
    if (!(x >= TOO_SMALL)) {
        return 0.0;
    }
    double k = floor_of(x * LOG2_E + 0.5), half = floor_of(k * 0.5);
    double r = (x - k * LN2_HIGH) - k * LN2_LOW, series = factors[0];
    for (unsigned i = 1; i < sizeof factors / sizeof factors[0]; i++) {
        series = series * r + factors[i];
    }
    return (1.0 + series * r) * power_of_two((int32_t)half) * power_of_two((int32_t)(k - half));
}

static double value_at(const unsigned char *place) { return (double)*(const float *)(const void *)place; }

static void softmax_line(const line_t *line, const void *context) {
    double highest = value_at(line->in), sum = 0.0;
    (void)context;
    for (uint32_t i = 1; i < line->count; i++) {
        double value = value_at(line->in + i * line->in_step);
        highest = value > highest ? value : highest;
    }
    for (uint32_t i = 0; i < line->count; i++) {
        sum = sum + exponential(value_at(line->in + i * line->in_step) - highest);
    }
    for (uint32_t i = 0; i < line->count; i++) {
        double e = exponential(value_at(line->in + i * line->in_step) - highest);
        *(float *)(void *)(line->out + i * line->out_step) = (float)(e / sum);
    }
}

void ll_sw_forward_softmax(Softmax_sw_info *sw_info) {
    const General *general = &sw_info->general;
    ATONC_LAYER_NEEDS(atonc_for_each_line(&general->input, &general->output, sw_info->axis, softmax_line, NULL));
}

#endif
