/* SPDX-License-Identifier: Apache-2.0
 * What the CPU layers share.
 */
#ifndef ATONC_EC_ONLY

#include "atonc_lib_tensor.h"

void atonc_layer_refused(unsigned line) { atonc_rt_fail(ATONC_ERR_UNSUPPORTED, line); }

bool atonc_format(format_t *format, const Tensor_info *scale, const Tensor_info *zero, uint32_t channels) {
    uint32_t scales = atonc_or_one(scale->dim.num_elem), zeros = atonc_or_one(zero->dim.num_elem);
    if (scale->mem.start_offset == NULL || zero->mem.start_offset == NULL || (scales != 1 && scales != channels) ||
        (zeros != 1 && zeros != channels)) {
        return false;
    }
    format->scale = (const float *)(const void *)scale->mem.start_offset;
    format->zero = zero->mem.start_offset;
    format->zero_signed = zero->format.is_signed;
    format->scale_per_channel = scales > 1;
    format->zero_per_channel = zeros > 1;
    for (uint32_t i = 0; i < scales; i++) {
        if (!(format->scale[i] > 0.0f)) {
            return false;
        }
    }
    return true;
}

bool atonc_sign_is_certain(const Tensor_info *scale, const Tensor_info *zero) {
    uint32_t zeros = atonc_or_one(zero->dim.num_elem);
    for (uint32_t i = 0; i < zeros && scale->format.is_signed != zero->format.is_signed; i++) {
        if (zero->mem.start_offset[i] > 127) {
            return false;
        }
    }
    return true;
}

int64_t atonc_round_half_away(double value) {
    const double limit = 4503599627370496.0; /* 2^52 */
    value = value > limit ? limit : value < -limit ? -limit : value;
    return value < 0 ? -(int64_t)(0.5 - value) : (int64_t)(value + 0.5);
}

bool atonc_for_each_line(const Tensor_info *in, const Tensor_info *out, int axis,
                         void (*work)(const line_t *line, const void *context), const void *context) {
    sizes_t n = atonc_sizes(in), lines = n;
    line_t line;
    if (!atonc_same_sizes(n, atonc_sizes(out))) {
        return false;
    }
    switch (axis) {
    case 0: line = (line_t){.count = n.b, .in_step = in->stride.b, .out_step = out->stride.b}; lines.b = 1; break;
    case 1: line = (line_t){.count = n.c, .in_step = in->stride.c, .out_step = out->stride.c}; lines.c = 1; break;
    case 2: line = (line_t){.count = n.h, .in_step = in->stride.h, .out_step = out->stride.h}; lines.h = 1; break;
    case 3: line = (line_t){.count = n.w, .in_step = in->stride.w, .out_step = out->stride.w}; lines.w = 1; break;
    default: return false;
    }
    for (uint32_t b = 0; b < lines.b; b++) {
        for (uint32_t h = 0; h < lines.h; h++) {
            for (uint32_t w = 0; w < lines.w; w++) {
                for (uint32_t c = 0; c < lines.c; c++) {
                    line.in = atonc_at(in, b, h, w, c);
                    line.out = atonc_at(out, b, h, w, c);
                    work(&line, context);
                }
            }
        }
    }
    return true;
}

#define CODES 256u

void atonc_map_codes(const Tensor_info *in, const Tensor_info *out, code_function_t function, const void *context) {
    sizes_t n = atonc_sizes(in);
    bool is_signed = in->format.is_signed, by_table = n.b * n.h * n.w > CODES;
    unsigned char table[CODES];
    for (uint32_t c = 0; c < n.c; c++) {
        for (unsigned i = 0; i < CODES && by_table; i++) {
            unsigned char byte = (unsigned char)i;
            table[i] = function(context, atonc_code(&byte, is_signed), c);
        }
        for (uint32_t b = 0; b < n.b; b++) {
            for (uint32_t h = 0; h < n.h; h++) {
                for (uint32_t w = 0; w < n.w; w++) {
                    const unsigned char *place = atonc_at(in, b, h, w, c);
                    *atonc_at(out, b, h, w, c) =
                        by_table ? table[*place] : function(context, atonc_code(place, is_signed), c);
                }
            }
        }
    }
}

#endif
