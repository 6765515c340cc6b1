/* SPDX-License-Identifier: Apache-2.0
 * Activations of codes: in real numbers, rounded once.
 */
#ifndef ATONC_EC_ONLY

#include "atonc_lib_tensor.h"

/* Slopes of a PReLU: codes with a scale of their own, or floats; each of their sizes is that of the tensor, or 1. */
typedef struct {
    const Tensor_info *tensor;
    sizes_t sizes;
    uint32_t first; /* floats may be preceded by the number of channels */
    bool is_float;
    format_t format;
} slopes_t;

static bool fits(uint32_t size, uint32_t of) { return size == 1 || size == of; }

static bool find_slopes(slopes_t *s, const Activ_integer_sw_info *info, sizes_t n) {
    s->tensor = &info->operand;
    s->sizes = atonc_sizes(s->tensor);
    s->is_float = info->operand_s.mem.start_offset == NULL;
    s->first = 0;
    if (s->tensor->mem.start_offset == NULL) {
        return false;
    }
    if (!s->is_float && !atonc_format(&s->format, &info->operand_s, &info->operand_zp, s->sizes.c)) {
        return false;
    }
    const void *start = s->tensor->mem.start_offset;
    if (s->is_float && s->sizes.c == n.c + 1u && *(const float *)start == (float)n.c) {
        s->first = 1;
        s->sizes.c = n.c;
    }
    return fits(s->sizes.b, n.b) && fits(s->sizes.h, n.h) && fits(s->sizes.w, n.w) && fits(s->sizes.c, n.c);
}

static double slope_at(const slopes_t *s, uint32_t b, uint32_t h, uint32_t w, uint32_t c) {
    uint32_t channel = s->sizes.c == 1 ? 0 : c;
    const unsigned char *place = atonc_at(s->tensor, s->sizes.b == 1 ? 0 : b, s->sizes.h == 1 ? 0 : h,
                                          s->sizes.w == 1 ? 0 : w, channel + s->first);
    if (s->is_float) {
        return (double)*(const float *)(const void *)place;
    }
    int32_t code = atonc_code(place, s->tensor->format.is_signed) - atonc_zero(&s->format, channel);
    return (double)code * (double)atonc_scale(&s->format, channel);
}

typedef struct {
    format_t from, to;
    slopes_t slopes;
    bool is_prelu, is_signed;
    uint32_t b, h, w; /* where slopes differ from place to place */
} activation_t;

static unsigned char activated(const void *context, int32_t code, uint32_t channel) {
    const activation_t *by = context;
    int32_t steps = code - atonc_zero(&by->from, channel);
    double value = (double)steps * (double)atonc_scale(&by->from, channel);
    if (steps <= 0) {
        value = by->is_prelu ? value * slope_at(&by->slopes, by->b, by->h, by->w, channel) : 0.0;
    }
    int64_t result = atonc_round_half_away(value / (double)atonc_scale(&by->to, channel));
    return atonc_clip(result + atonc_zero(&by->to, channel), by->is_signed);
}

static bool same_slopes_everywhere(const activation_t *by) {
    return !by->is_prelu || (by->slopes.sizes.b == 1 && by->slopes.sizes.h == 1 && by->slopes.sizes.w == 1);
}

void ll_sw_forward_activ_integer(Activ_integer_sw_info *sw_info) {
    const Tensor_info *in = &sw_info->general.input, *out = &sw_info->general.output;
    sizes_t n = atonc_sizes(in);
    activation_t by = {.is_prelu = sw_info->general.type == LL_SW_PRELU, .is_signed = out->format.is_signed};
    ATONC_LAYER_NEEDS(atonc_same_sizes(n, atonc_sizes(out)) && (by.is_prelu || sw_info->general.type == LL_SW_RELU));
    ATONC_LAYER_NEEDS(atonc_format(&by.from, &sw_info->is, &sw_info->izp, n.c) &&
                      atonc_format(&by.to, &sw_info->os, &sw_info->ozp, n.c));
    ATONC_LAYER_NEEDS(!by.is_prelu || find_slopes(&by.slopes, sw_info, n));
    if (same_slopes_everywhere(&by)) {
        atonc_map_codes(in, out, activated, &by);
        return;
    }
    for (by.b = 0; by.b < n.b; by.b++) {
        for (by.h = 0; by.h < n.h; by.h++) {
            for (by.w = 0; by.w < n.w; by.w++) {
                for (uint32_t c = 0; c < n.c; c++) {
                    int32_t code = atonc_code(atonc_at(in, by.b, by.h, by.w, c), in->format.is_signed);
                    *atonc_at(out, by.b, by.h, by.w, c) = activated(&by, code, c);
                }
            }
        }
    }
}

#endif
