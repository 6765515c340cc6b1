/* SPDX-License-Identifier: Apache-2.0
 * Layers that move data: concatenation, blocks and channels, transposition, slices. See ll_aton_lib.h.
 *
 * Every function checks what it relies on; what it cannot do is recorded as ATONC_ERR_UNSUPPORTED and moves nothing.
 */
#ifndef ATONC_EC_ONLY

#include <stddef.h>
#include <string.h>

#include "atonc_internal.h"
#include "ll_aton_lib.h"

#define MAX_RANK 8u
#define MIN_ENGINE_BYTES 40u /* smaller transposes were never left to the engines and are described otherwise */

static int unsupported(unsigned line) {
    atonc_rt_fail(ATONC_ERR_UNSUPPORTED, line);
    return LL_ATON_INVALID_PARAM;
}
#define REQUIRE(condition)                                                                                             \
    if (!(condition)) {                                                                                                \
        return unsupported(__LINE__);                                                                                  \
    }

static unsigned element_bytes(const LL_Buffer_InfoTypeDef *buffer) { return ((unsigned)buffer->nbits + 7u) / 8u; }

static uint32_t product(const uint32_t *sizes, unsigned first, unsigned end) {
    uint32_t result = 1;
    for (unsigned i = first; i < end; i++) {
        result *= sizes[i];
    }
    return result;
}

static bool has_shape(const LL_Buffer_InfoTypeDef *buffer) {
    return buffer->ndims >= 1 && buffer->ndims <= MAX_RANK && buffer->shape != NULL && buffer->nbits >= 8 &&
           buffer->nbits <= 32;
}

/* ---- the CPU stands in for engines: it must see what they wrote, and they what it writes ---- */

static bool is_external(uintptr_t address) { return address >= 0x60000000UL && address < 0xA0000000UL; }

static void before_reading(const LL_Buffer_InfoTypeDef *buffer) {
    uintptr_t start = (uintptr_t)LL_Buffer_addr_start(buffer);
    if (is_external(start)) {
        LL_ATON_Cache_NPU_Clean_Range(start, LL_Buffer_len(buffer));
    }
    LL_ATON_Cache_MCU_Clean_Invalidate_Range(start, LL_Buffer_len(buffer));
}

static void after_writing(const LL_Buffer_InfoTypeDef *buffer) {
    uintptr_t start = (uintptr_t)LL_Buffer_addr_start(buffer);
    LL_ATON_Cache_MCU_Clean_Range(start, LL_Buffer_len(buffer));
    if (is_external(start)) {
        LL_ATON_Cache_NPU_Clean_Invalidate_Range(start, LL_Buffer_len(buffer));
    }
}

/* ---- concatenation ---- */

/* The axis is counted ..., N, C, H, W; buffers are stored ..., N, H, W, C. */
static unsigned stored_axis(unsigned axis, unsigned rank) {
    static const uint8_t order[4] = {0, 3, 1, 2};
    return axis >= rank - 4u ? rank - 4u + order[axis - (rank - 4u)] : axis;
}

static bool is_canonical(const LL_Buffer_InfoTypeDef *buffer) { return buffer->batch == buffer->shape[buffer->ndims - 1]; }

static bool parts_fit(const LL_Buffer_InfoTypeDef *inputs, unsigned n, const LL_Buffer_InfoTypeDef *output,
                      unsigned along) {
    uint32_t sum = 0, bytes = 0;
    for (unsigned i = 0; i < n; i++) {
        const LL_Buffer_InfoTypeDef *part = &inputs[i];
        if (!has_shape(part) || part->ndims != output->ndims || part->nbits != output->nbits) {
            return false;
        }
        if (!(is_canonical(part) && is_canonical(&inputs[0])) && part->batch != inputs[0].batch) {
            return false;
        }
        for (unsigned k = 0; k < output->ndims; k++) {
            if (k != along && part->shape[k] != output->shape[k]) {
                return false;
            }
        }
        sum += part->shape[along];
        bytes += LL_Buffer_len(part);
    }
    return sum == output->shape[along] && bytes <= LL_Buffer_len(output);
}

static void join_flat(const LL_Buffer_InfoTypeDef *inputs, unsigned n, unsigned char *target) {
    for (unsigned i = 0; i < n; i++) {
        memmove(target, LL_Buffer_addr_start(&inputs[i]), LL_Buffer_len(&inputs[i]));
        target += LL_Buffer_len(&inputs[i]);
    }
}

/* Inputs stored [C/b][H][W][b] side by side into pixels of all channels. */
static int join_channels(const LL_Buffer_InfoTypeDef *inputs, unsigned n, const LL_Buffer_InfoTypeDef *output) {
    unsigned rank = output->ndims, bytes = element_bytes(output);
    uint32_t pixels = output->shape[rank - 3] * output->shape[rank - 2], channels = output->shape[rank - 1], first = 0;
    for (unsigned i = 0; i < n; i++) {
        const unsigned char *source = LL_Buffer_addr_start(&inputs[i]);
        uint32_t depth = inputs[i].shape[rank - 1], group = inputs[i].batch;
        REQUIRE(group > 0 && depth % group == 0 && LL_Buffer_len(&inputs[i]) >= pixels * depth * bytes);
        for (uint32_t start = 0; start < depth; start += group) {
            for (uint32_t pixel = 0; pixel < pixels; pixel++, source += group * bytes) {
                unsigned char *target = LL_Buffer_addr_start(output) + (pixel * channels + first + start) * bytes;
                memcpy(target, source, group * bytes);
            }
        }
        first += depth;
    }
    return LL_ATON_OK;
}

static int join_along(const LL_Buffer_InfoTypeDef *inputs, unsigned n, const LL_Buffer_InfoTypeDef *output,
                      unsigned along) {
    uint32_t inner = product(output->shape, along + 1, output->ndims) * element_bytes(output);
    uint32_t outer = product(output->shape, 0, along), row = output->shape[along] * inner, first = 0;
    for (unsigned i = 0; i < n; i++) {
        uint32_t part = inputs[i].shape[along] * inner;
        REQUIRE(LL_Buffer_len(&inputs[i]) >= outer * part);
        for (uint32_t k = 0; k < outer; k++) {
            memmove(LL_Buffer_addr_start(output) + k * row + first, LL_Buffer_addr_start(&inputs[i]) + k * part, part);
        }
        first += part;
    }
    return LL_ATON_OK;
}

static int join(const LL_Buffer_InfoTypeDef *inputs, unsigned n, const LL_Buffer_InfoTypeDef *output, unsigned axis) {
    unsigned rank = output->ndims, along = stored_axis(axis, rank), behind = rank - 1u - axis;
    bool alike = inputs[0].batch == output->batch;
    /* by definition: these sizes are looked at in stored order */
    bool leftmost = product(output->shape, 0, axis) == 1 && output->nbits <= 24;
    if (leftmost && behind == 2 && !alike) {
        return join_channels(inputs, n, output);
    }
    REQUIRE(leftmost ? alike : is_canonical(&inputs[0]) && is_canonical(output));
    if (!leftmost || behind == 0) {
        return join_along(inputs, n, output, along);
    }
    join_flat(inputs, n, LL_Buffer_addr_start(output));
    return LL_ATON_OK;
}

int LL_ATON_LIB_Concat(const LL_Buffer_InfoTypeDef *inputs, unsigned int ninputs, const LL_Buffer_InfoTypeDef *output,
                       unsigned int axis, ...) {
    REQUIRE(ninputs >= 1 && ninputs <= 256 && has_shape(output) && output->ndims >= 4 && axis < output->ndims);
    REQUIRE(output->nbits % 8 == 0 && parts_fit(inputs, ninputs, output, stored_axis(axis, output->ndims)));
    for (unsigned i = 0; i < ninputs; i++) {
        before_reading(&inputs[i]);
    }
    int result = join(inputs, ninputs, output, axis);
    after_writing(output);
    return result;
}

/* ---- blocks of pixels to channels and back ---- */

/* `image` is [N][H][W][C], `deep` is [N][H / bh][W / bw][bh][bw][C]; lines of a block lie together in both. */
static int move_blocks(const LL_Buffer_InfoTypeDef *image, const LL_Buffer_InfoTypeDef *deep, unsigned bh, unsigned bw,
                       bool to_image) {
    REQUIRE(has_shape(image) && has_shape(deep) && image->ndims == 4 && deep->ndims == 4 && image->nbits == deep->nbits);
    REQUIRE(bh > 0 && bw > 0 && bh < 0x10000 && bw < 0x10000);
    uint32_t n = image->shape[0], height = image->shape[1], width = image->shape[2], depth = image->shape[3];
    REQUIRE(height % bh == 0 && width % bw == 0 && deep->shape[0] == n && deep->shape[1] == height / bh &&
            deep->shape[2] == width / bw && deep->shape[3] == depth * bh * bw);
    uint32_t pixel = depth * element_bytes(image), line = width * pixel, run = bw * pixel;
    unsigned char *packed = LL_Buffer_addr_start(deep);
    before_reading(to_image ? deep : image);
    for (uint32_t row = 0; row < n * (height / bh); row++) {
        for (uint32_t column = 0; column < width / bw; column++) {
            for (unsigned y = 0; y < bh; y++, packed += run) {
                unsigned char *place = LL_Buffer_addr_start(image) + (row * bh + y) * line + column * run;
                memcpy(to_image ? place : packed, to_image ? packed : place, run);
            }
        }
    }
    after_writing(to_image ? image : deep);
    return LL_ATON_OK;
}

int LL_ATON_LIB_DMA_SpaceToDepth(const LL_Buffer_InfoTypeDef *inputs, unsigned int ninputs,
                                 const LL_Buffer_InfoTypeDef *output, unsigned int blocksize_h, unsigned int blocksize_w,
                                 ...) {
    REQUIRE(ninputs == 1);
    return move_blocks(inputs, output, blocksize_h, blocksize_w, false);
}

int LL_ATON_LIB_DMA_DepthToSpace(const LL_Buffer_InfoTypeDef *inputs, unsigned int ninputs,
                                 const LL_Buffer_InfoTypeDef *output, unsigned int blocksize_h, unsigned int blocksize_w,
                                 ...) {
    REQUIRE(ninputs == 1);
    return move_blocks(output, inputs, blocksize_h, blocksize_w, true);
}

/* ---- transposition and slices: one strided walk ---- */

typedef struct {
    unsigned rank, bytes;
    uint32_t sizes[MAX_RANK];
    int32_t from[MAX_RANK], to[MAX_RANK]; /* bytes per step */
    const unsigned char *source;
    unsigned char *target;
} walk_t;

static void walk(walk_t *w) {
    uint32_t index[MAX_RANK] = {0};
    unsigned last = w->rank - 1u;
    for (;;) {
        const unsigned char *source = w->source;
        unsigned char *target = w->target;
        for (unsigned k = 0; k < last; k++) {
            source += (int32_t)index[k] * w->from[k];
            target += (int32_t)index[k] * w->to[k];
        }
        for (uint32_t i = 0; i < w->sizes[last]; i++, source += w->from[last], target += w->to[last]) {
            if (w->bytes == 1) {
                *target = *source;
            } else {
                memcpy(target, source, w->bytes);
            }
        }
        unsigned axis = last;
        while (axis > 0 && ++index[axis - 1] == w->sizes[axis - 1]) {
            index[--axis] = 0;
        }
        if (axis == 0) {
            return;
        }
    }
}

static bool is_permutation(const uint8_t *numbers, unsigned rank) {
    unsigned seen = 0;
    for (unsigned i = 0; i < rank; i++) {
        seen |= numbers[i] < rank ? 1u << numbers[i] : 0;
    }
    return seen == (1u << rank) - 1u;
}

/* Input axis k goes to output axis `place[k]`. */
static int transpose(const LL_Buffer_InfoTypeDef *input, const LL_Buffer_InfoTypeDef *output, const uint8_t *place,
                     const uint32_t *in_offsets, const uint32_t *out_offsets) {
    unsigned rank = input->ndims;
    walk_t w = {.rank = rank, .bytes = element_bytes(input)};
    w.source = LL_Buffer_addr_start(input);
    w.target = LL_Buffer_addr_start(output);
    for (unsigned k = 0; k < rank; k++) {
        w.sizes[k] = input->shape[k];
        w.to[k] = (int32_t)out_offsets[place[k]];
        w.from[k] = (int32_t)(k == rank - 1u          ? w.bytes
                              : in_offsets != NULL ? in_offsets[k]
                                                   : product(input->shape, k + 1u, rank) * w.bytes);
    }
    before_reading(input);
    walk(&w);
    after_writing(output);
    return LL_ATON_OK;
}

static bool are_alike(const LL_Buffer_InfoTypeDef *input, const LL_Buffer_InfoTypeDef *output) {
    return has_shape(input) && has_shape(output) && input->ndims == output->ndims && input->nbits == output->nbits &&
           product(input->shape, 0, input->ndims) != 0;
}

int LL_ATON_LIB_Transpose(const LL_Buffer_InfoTypeDef *input, const uint32_t *input_axes_offsets,
                          const LL_Buffer_InfoTypeDef *output, const uint32_t *output_axes_offsets,
                          const uint8_t *perm) {
    uint8_t place[MAX_RANK];
    REQUIRE(are_alike(input, output) && is_permutation(perm, input->ndims));
    for (unsigned k = 0; k < input->ndims; k++) {
        place[perm[k]] = (uint8_t)k;
    }
    return transpose(input, output, place, input_axes_offsets, output_axes_offsets);
}

int LL_ATON_LIB_DMA_Transpose(const LL_Buffer_InfoTypeDef *input, const uint32_t *input_axes_offsets,
                              const LL_Buffer_InfoTypeDef *output, const uint32_t *output_axes_offsets,
                              const uint8_t *target_pos, const uint8_t *perm_to_use, ...) {
    if (LL_Buffer_len(output) < MIN_ENGINE_BYTES) {
        return LL_ATON_LIB_Transpose(input, input_axes_offsets, output, output_axes_offsets, perm_to_use);
    }
    REQUIRE(are_alike(input, output) && (input->ndims == 3 || input->ndims == 4));
    REQUIRE(is_permutation(target_pos, input->ndims));
    REQUIRE(product(input->shape, 0, input->ndims) * element_bytes(input) == LL_Buffer_len(input));
    return transpose(input, output, target_pos, NULL, output_axes_offsets);
}

int LL_ATON_LIB_Slice(const LL_Buffer_InfoTypeDef *input, const uint32_t *input_axes_offsets,
                      const LL_Buffer_InfoTypeDef *output, const uint32_t *output_axes_offsets, uint32_t slice_rank,
                      const int32_t *slice_starts, const int32_t *slice_ends, const int32_t *slice_steps) {
    REQUIRE(are_alike(input, output) && slice_rank == input->ndims);
    walk_t w = {.rank = slice_rank, .bytes = element_bytes(input)};
    w.source = LL_Buffer_addr_start(input);
    w.target = LL_Buffer_addr_start(output);
    for (unsigned k = 0; k < slice_rank; k++) {
        int32_t start = slice_starts[k], step = slice_steps[k], span = slice_ends[k] - start;
        REQUIRE(start >= 0 && step != 0 && (step > 0 ? span > 0 : span < 0));
        w.sizes[k] = (uint32_t)((span + (step > 0 ? step - 1 : step + 1)) / step);
        w.from[k] = (int32_t)input_axes_offsets[k] * step;
        w.to[k] = (int32_t)output_axes_offsets[k];
        w.source += start * (int32_t)input_axes_offsets[k];
    }
    before_reading(input);
    walk(&w);
    after_writing(output);
    return LL_ATON_OK;
}

/* `width` bytes out of every `line` bytes. */
int LL_ATON_LIB_DMA_Outputs_Slice_SplitLike(const LL_Buffer_InfoTypeDef *input, const LL_Buffer_InfoTypeDef *output,
                                            int32_t tot_out_size, int32_t width_in_bytes, int32_t fheight,
                                            int32_t line_offset, int n_bits, ...) {
    (void)n_bits;
    REQUIRE(width_in_bytes > 0 && fheight > 0 && line_offset > 0 && fheight * width_in_bytes == tot_out_size);
    unsigned char *target = LL_Buffer_addr_start(output);
    const unsigned char *source = LL_Buffer_addr_start(input);
    before_reading(input);
    for (int32_t i = 0; i < fheight; i++, source += line_offset, target += width_in_bytes) {
        memmove(target, source, (size_t)width_in_bytes);
    }
    after_writing(output);
    return LL_ATON_OK;
}

#endif
