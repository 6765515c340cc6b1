/* SPDX-License-Identifier: Apache-2.0
 * CPU layers between floats and codes.
 */
#ifndef ATONC_EC_ONLY

#include "atonc_lib_tensor.h"

/* Adds half, cuts, then mends ties to even; all in float. */
static int32_t round_to_even(float value) {
    const float huge = 1073741824.0f; /* 2^30: far beyond any code */
    if (value != value) {
        value = 0.0f;
    }
    value = value > huge ? huge : value < -huge ? -huge : value;
    float moved = value >= 0.0f ? value + 0.5f : value - 0.5f;
    int32_t whole = (int32_t)moved;
    if ((float)whole == moved && (whole & 1) != 0) {
        whole -= whole < 0 ? -1 : 1;
    }
    return whole;
}

static bool find_format(format_t *format, const Tensor_info *scale, const Tensor_info *zero, uint32_t channels) {
    return atonc_format(format, scale, zero, channels) && atonc_sign_is_certain(scale, zero);
}

/* Loops run upwards where elements shrink and downwards where they grow, so that layers may work in place. */
void ll_sw_forward_quantizelinear(Quantizelinear_sw_info *sw_info) {
    const Tensor_info *in = &sw_info->general.input, *out = &sw_info->general.output;
    sizes_t n = atonc_sizes(out);
    format_t format;
    ATONC_LAYER_NEEDS(atonc_same_sizes(atonc_sizes(in), n) && find_format(&format, &sw_info->os, &sw_info->ozp, n.c));
    for (uint32_t b = 0; b < n.b; b++) {
        for (uint32_t h = 0; h < n.h; h++) {
            for (uint32_t w = 0; w < n.w; w++) {
                for (uint32_t c = 0; c < n.c; c++) {
                    float value = *(const float *)(const void *)atonc_at(in, b, h, w, c);
                    int64_t code = round_to_even(value / atonc_scale(&format, c)) + (int64_t)atonc_zero(&format, c);
                    *atonc_at(out, b, h, w, c) = atonc_clip(code, out->format.is_signed);
                }
            }
        }
    }
}

void ll_sw_forward_dequantizelinear(Dequantizelinear_sw_info *sw_info) {
    const Tensor_info *in = &sw_info->general.input, *out = &sw_info->general.output;
    sizes_t n = atonc_sizes(in);
    format_t format;
    ATONC_LAYER_NEEDS(atonc_same_sizes(atonc_sizes(out), n) && find_format(&format, &sw_info->is, &sw_info->izp, n.c));
    for (uint32_t b = n.b; b-- > 0;) {
        for (uint32_t h = n.h; h-- > 0;) {
            for (uint32_t w = n.w; w-- > 0;) {
                for (uint32_t c = n.c; c-- > 0;) {
                    int32_t code = atonc_code(atonc_at(in, b, h, w, c), in->format.is_signed);
                    float value = (float)(code - atonc_zero(&format, c)) * atonc_scale(&format, c);
                    *(float *)(void *)atonc_at(out, b, h, w, c) = value;
                }
            }
        }
    }
}

typedef struct {
    format_t from, to;
    bool is_signed;
} change_t;

static unsigned char changed(const void *context, int32_t code, uint32_t channel) {
    const change_t *by = context;
    double value = (double)(code - atonc_zero(&by->from, channel)) * (double)atonc_scale(&by->from, channel);
    int64_t result = atonc_round_half_away(value / (double)atonc_scale(&by->to, channel));
    return atonc_clip(result + atonc_zero(&by->to, channel), by->is_signed);
}

void ll_sw_forward_requantizelinear(Requantizelinear_sw_info *sw_info) {
    const Tensor_info *in = &sw_info->general.input, *out = &sw_info->general.output;
    sizes_t n = atonc_sizes(in);
    change_t by = {.is_signed = out->format.is_signed};
    ATONC_LAYER_NEEDS(atonc_same_sizes(atonc_sizes(out), n));
    ATONC_LAYER_NEEDS(find_format(&by.from, &sw_info->is, &sw_info->izp, n.c) &&
                      find_format(&by.to, &sw_info->os, &sw_info->ozp, n.c));
    atonc_map_codes(in, out, changed, &by);
}

#endif
