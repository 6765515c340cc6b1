/* SPDX-License-Identifier: Apache-2.0
 * Softmax of floats, with the exponential of the C library: its last bit depends on that library.
 */
#ifndef ATONC_EC_ONLY

#include <math.h>

#include "atonc_lib_tensor.h"

static float value_at(const unsigned char *place) { return *(const float *)(const void *)place; }

static void softmax_line(const line_t *line, const void *context) {
    (void)context;
    float highest = value_at(line->in), sum = 0.0f;
    for (uint32_t i = 1; i < line->count; i++) {
        float value = value_at(line->in + i * line->in_step);
        highest = value > highest ? value : highest;
    }
    for (uint32_t i = 0; i < line->count; i++) {
        float e = expf(value_at(line->in + i * line->in_step) - highest);
        *(float *)(void *)(line->out + i * line->out_step) = e;
        sum += e;
    }
    for (uint32_t i = 0; i < line->count; i++) {
        *(float *)(void *)(line->out + i * line->out_step) /= sum;
    }
}

void ll_sw_forward_softmax(Softmax_sw_info *sw_info) {
    const General *general = &sw_info->general;
    ATONC_LAYER_NEEDS(atonc_for_each_line(&general->input, &general->output, sw_info->axis, softmax_line, NULL));
}

#endif
