/* SPDX-License-Identifier: Apache-2.0
 * Resize of codes, nearest or linear, by the coordinate rules of ONNX. Positions outside repeat the edge.
 */
#ifndef ATONC_EC_ONLY

#include "atonc_lib_tensor.h"

/* Forces the rounding of an intermediate result, which a fused multiply-add would skip. */
static float rounded(float value) {
    volatile float stored = value;
    return stored;
}

static int32_t floor_of(float value) {
    int32_t whole = (int32_t)value;
    return (float)whole > value ? whole - 1 : whole;
}

static int32_t clip_index(int32_t index, uint32_t size) {
    return index < 0 ? 0 : index > (int32_t)size - 1 ? (int32_t)size - 1 : index;
}

typedef struct {
    coord_transf_mode rule;
    float scale;
    uint32_t size, out_size;
} axis_t;

static bool position(const axis_t *axis, uint32_t index, float *result) {
    float x = (float)index;
    switch (axis->rule) {
    case PYTORCH_HALF_PIXEL:
        if (axis->out_size <= 1) {
            *result = 0.0f;
            return true;
        } /* fall through */
    case HALF_PIXEL: *result = rounded((x + 0.5f) / axis->scale) - 0.5f; return true;
    case ALIGN_CORNERS:
        *result = axis->out_size > 1 ? rounded(x * (float)(axis->size - 1u)) / (float)(axis->out_size - 1u) : 0.0f;
        return true;
    case ASYMMETRIC: *result = x / axis->scale; return true;
    case TF_HALF_PIXEL_FOR_NN: *result = (x + 0.5f) / axis->scale; return true;
    default: return false;
    }
}

static bool nearest(nearest_mode mode, float x, int32_t *result) {
    switch (mode) {
    case ROUND_PREFER_FLOOR: *result = -floor_of(-(x - 0.5f)); return true;
    case ROUND_PREFER_CEIL: *result = floor_of(x + 0.5f); return true;
    case FLOOR: *result = floor_of(x); return true;
    case CEIL: *result = -floor_of(-x); return true;
    }
    return false;
}

typedef struct {
    int32_t low, high;
    float weight;
} between_t;

static between_t between(float x, uint32_t size) {
    between_t result;
    float last = (float)(size - 1u);
    x = x < 0.0f ? 0.0f : x > last ? last : x;
    result.low = floor_of(x);
    result.high = clip_index(result.low + 1, size);
    result.weight = x - (float)result.low;
    return result;
}

static float mix(float a, float b, float weight) { return rounded(a * (1.0f - weight)) + rounded(b * weight); }

typedef struct {
    const Tensor_info *in;
    uint32_t b, c;
    bool is_signed;
} plane_t;

static float code_at(const plane_t *p, int32_t h, int32_t w) {
    return (float)atonc_code(atonc_at(p->in, p->b, (uint32_t)h, (uint32_t)w, p->c), p->is_signed);
}

static unsigned char linear_code(const plane_t *p, between_t row, between_t column) {
    float left = rounded(mix(code_at(p, row.low, column.low), code_at(p, row.high, column.low), row.weight));
    float right = rounded(mix(code_at(p, row.low, column.high), code_at(p, row.high, column.high), row.weight));
    return atonc_clip(atonc_round_half_away((double)rounded(mix(left, right, column.weight))), p->is_signed);
}

/* Codes are moved as they are: both sides must mean the same by them. One release fills the descriptions one place
 * too early. */
static bool same_formats(const Resize_integer_sw_info *info) {
    bool early = info->ozp.mem.start_offset == NULL && info->sizes.dim.num_elem == 1;
    const Tensor_info *parts[2][4] = {{&info->is, &info->izp, &info->os, &info->ozp},
                                      {&info->sizes, &info->is, &info->izp, &info->os}};
    const Tensor_info **p = parts[early];
    format_t before, after;
    for (unsigned i = 0; i < 4; i++) {
        if (p[i]->mem.start_offset == NULL) {
            return true;
        }
    }
    return atonc_format(&before, p[0], p[1], 1) && atonc_format(&after, p[2], p[3], 1) &&
           atonc_scale(&before, 0) == atonc_scale(&after, 0) && atonc_zero(&before, 0) == atonc_zero(&after, 0);
}

void ll_sw_forward_resize_integer(Resize_integer_sw_info *sw_info) {
    const Tensor_info *in = &sw_info->general.input, *out = &sw_info->general.output;
    sizes_t n = atonc_sizes(in), m = atonc_sizes(out);
    bool is_signed = in->format.is_signed, is_linear = sw_info->mode == RESIZE_LINEAR;
    const float *scales = (const float *)(const void *)sw_info->scales.mem.start_offset;
    ATONC_LAYER_NEEDS(n.b == m.b && n.c == m.c && is_signed == out->format.is_signed && same_formats(sw_info));
    ATONC_LAYER_NEEDS(is_linear || sw_info->mode == RESIZE_NEAREST);
    ATONC_LAYER_NEEDS(scales != NULL && sw_info->scales.dim.num_elem >= 4 && scales[2] > 0.0f && scales[3] > 0.0f);
    axis_t rows = {sw_info->coord_transf_mode, scales[2], n.h, m.h};
    axis_t columns = {sw_info->coord_transf_mode, scales[3], n.w, m.w};
    for (uint32_t h = 0; h < m.h; h++) {
        for (uint32_t w = 0; w < m.w; w++) {
            float y, x;
            int32_t row = 0, column = 0;
            ATONC_LAYER_NEEDS(position(&rows, h, &y) && position(&columns, w, &x));
            between_t ys = between(y, n.h), xs = between(x, n.w);
            ATONC_LAYER_NEEDS(nearest(sw_info->nearest_mode, y, &row) && nearest(sw_info->nearest_mode, x, &column));
            row = clip_index(row, n.h);
            column = clip_index(column, n.w);
            for (uint32_t b = 0; b < m.b; b++) {
                for (uint32_t c = 0; c < m.c; c++) {
                    plane_t plane = {in, b, c, is_signed};
                    *atonc_at(out, b, h, w, c) = is_linear ? linear_code(&plane, ys, xs)
                                                           : *atonc_at(in, b, (uint32_t)row, (uint32_t)column, c);
                }
            }
        }
    }
}

#endif
