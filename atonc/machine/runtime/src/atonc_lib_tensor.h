/* SPDX-License-Identifier: Apache-2.0
 * Tensors, scales and codes of the CPU layers (ll_sw.h).
 */
#ifndef ATONC_LIB_TENSOR_H
#define ATONC_LIB_TENSOR_H

#include <stddef.h>
#include <stdint.h>

#include "atonc_internal.h"
#include "ll_sw.h"

/* A fused multiply-add would round once where the emulator rounds twice. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif

typedef struct {
    uint32_t b, h, w, c;
} sizes_t;

static inline uint32_t atonc_or_one(uint32_t size) { return size == 0 ? 1u : size; }

static inline sizes_t atonc_sizes(const Tensor_info *t) {
    return (sizes_t){atonc_or_one(t->dim.tensor_b), atonc_or_one(t->dim.tensor_h), atonc_or_one(t->dim.tensor_w),
                     atonc_or_one(t->dim.tensor_c)};
}

static inline bool atonc_same_sizes(sizes_t a, sizes_t b) {
    return a.b == b.b && a.h == b.h && a.w == b.w && a.c == b.c;
}

static inline unsigned char *atonc_at(const Tensor_info *t, uint32_t b, uint32_t h, uint32_t w, uint32_t c) {
    return t->mem.start_offset + b * t->stride.b + h * t->stride.h + w * t->stride.w + c * t->stride.c;
}

static inline int32_t atonc_code(const unsigned char *place, bool is_signed) {
    return is_signed ? *(const int8_t *)place : *place;
}

static inline unsigned char atonc_clip(int64_t code, bool is_signed) {
    int64_t low = is_signed ? -128 : 0, high = is_signed ? 127 : 255;
    return (unsigned char)(code < low ? low : code > high ? high : code);
}

/* One scale and zero point, or one pair per channel. */
typedef struct {
    const float *scale;
    const unsigned char *zero;
    bool zero_signed, scale_per_channel, zero_per_channel;
} format_t;

/* The sign of a zero point is its own. False if the description makes no sense. */
bool atonc_format(format_t *format, const Tensor_info *scale, const Tensor_info *zero, uint32_t channels);

/* Some layers take the zero point's sign from the scale: false where the two descriptions differ and it matters. */
bool atonc_sign_is_certain(const Tensor_info *scale, const Tensor_info *zero);

static inline float atonc_scale(const format_t *f, uint32_t channel) { return f->scale[f->scale_per_channel ? channel : 0]; }
static inline int32_t atonc_zero(const format_t *f, uint32_t channel) {
    return atonc_code(f->zero + (f->zero_per_channel ? channel : 0), f->zero_signed);
}

/* Nearest integer, ties away from zero. */
int64_t atonc_round_half_away(double value);

/* The elements along one axis, for one place on the others. */
typedef struct {
    const unsigned char *in;
    unsigned char *out;
    uint32_t count, in_step, out_step;
} line_t;

/* Calls `work` for every line along an axis (counted N, C, H, W). False if there is no such axis or the tensors differ
 * in size. */
bool atonc_for_each_line(const Tensor_info *in, const Tensor_info *out, int axis,
                         void (*work)(const line_t *line, const void *context), const void *context);

/* Maps codes to codes by a function of the code and its channel, which is called once per value where that is less. */
typedef unsigned char (*code_function_t)(const void *context, int32_t code, uint32_t channel);
void atonc_map_codes(const Tensor_info *in, const Tensor_info *out, code_function_t function, const void *context);

void atonc_layer_refused(unsigned line);
#define ATONC_LAYER_NEEDS(condition)                                                                                   \
    if (!(condition)) {                                                                                                \
        atonc_layer_refused(__LINE__);                                                                                 \
        return;                                                                                                        \
    }

#endif
