/* SPDX-License-Identifier: Apache-2.0
 *
 * The layers of a network that run on the processor, written by atonc together with network.c.
 *
 * Plain C99 without allocation and without state. Every kernel reads codes, computes in IEEE double precision and
 * rounds at the end, half away from zero unless its format says otherwise; sums run in the order of memory. So the
 * results are the same bytes on every machine, and the same as those of `atonc run`. Compile without -ffast-math.
 * Where the compiler knows the vectors of a Cortex-M55 (-mcpu=cortex-m55), the busiest kernels use them, with the same
 * results; -DATONC_NO_VECTORS leaves them out.
 *
 * Tensors lie in memory without gaps, last dimension fastest, pictures as batch, height, width, channels. Input and
 * output of a kernel may be the same memory only where it says so.
 */
#ifndef ATONC_KERNELS_H
#define ATONC_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ATONC_KERNELS_VERSION 1

/* --- types and numbers ---------------------------------------------------------------------------------------------- */

/* Element types. */
enum {
  ATONC_S8 = 0, ATONC_U8 = 1, ATONC_S16 = 2, ATONC_U16 = 3, ATONC_S32 = 4, ATONC_U32 = 5,
  ATONC_S64 = 6, ATONC_U64 = 7, ATONC_F32 = 8, ATONC_F64 = 9, ATONC_BOOL = 10
};

/* What the limits of a format apply to; how real numbers become codes. */
enum { ATONC_HAS_LEAST = 1, ATONC_HAS_MOST = 2, ATONC_CLIP_FLOAT = 4, ATONC_IN_SINGLE = 8, ATONC_TO_EVEN = 16 };

/* How numbers lie in memory: real = (code - zero) * scale; plain numbers have scale 1 and zero 0. The limits are for
 * outputs: `least` and `most` bound the real value (a fused activation) where the flags say so, `low` and `high`
 * bound the code.
 *
 * How the source of a network rounds is for outputs of 8 and 16 bits: halves go away from `middle`, counted in codes
 * from the zero point. With `first_bits` results are rounded to so many bits behind the point before that, halves up;
 * convolutions have one entry for each output channel, all others a single one. In single precision the value is divided
 * by the scale as a float; halves of that go to even numbers where the flag says so. */
typedef struct {
  int32_t type;
  int32_t flags;
  double scale;
  double zero;
  double low;
  double high;
  double least;
  double most;
  const uint8_t *first_bits;
  int32_t middle;
} atonc_format;

/* Windows that slide over pictures; pools have groups 1 and out_c = in_c. */
typedef struct {
  int32_t batch, in_h, in_w, in_c;
  int32_t out_h, out_w, out_c;
  int32_t k_h, k_w;
  int32_t stride_y, stride_x;
  int32_t dilate_y, dilate_x;
  int32_t top, left; /* rows and columns of padding before the picture */
  int32_t groups;
} atonc_window;

/* Which function `atonc_unary` computes. */
enum {
  ATONC_LOGISTIC = 0, ATONC_TANH = 1, ATONC_HARD_SWISH = 2, ATONC_SILU = 3, ATONC_MISH = 4, ATONC_SOFTPLUS = 5,
  ATONC_EXP = 6, ATONC_LOG = 7, ATONC_SQRT = 8, ATONC_RSQRT = 9, ATONC_SQUARE = 10, ATONC_ABS = 11, ATONC_NEG = 12,
  ATONC_SIGN = 13, ATONC_FLOOR = 14, ATONC_CEIL = 15, ATONC_ROUND = 16, ATONC_RECIPROCAL = 17,
  ATONC_LOGICAL_NOT = 18, ATONC_LEAKY_RELU = 19, ATONC_ELU = 20, ATONC_HARD_SIGMOID = 21, ATONC_TRUNC = 22, ATONC_ERF = 23,
  ATONC_GELU = 24, ATONC_GELU_TANH = 25
};

/* The same for `atonc_binary`. */
enum {
  ATONC_ADD = 0, ATONC_SUB = 1, ATONC_MUL = 2, ATONC_DIV = 3, ATONC_DIV_TRUNC = 4, ATONC_MINIMUM = 5,
  ATONC_MAXIMUM = 6, ATONC_FLOOR_DIV = 7, ATONC_FLOOR_MOD = 8, ATONC_SQUARED_DIFFERENCE = 9, ATONC_LESS = 10,
  ATONC_LESS_EQUAL = 11, ATONC_GREATER = 12, ATONC_GREATER_EQUAL = 13, ATONC_EQUAL = 14, ATONC_NOT_EQUAL = 15,
  ATONC_LOGICAL_AND = 16, ATONC_LOGICAL_OR = 17, ATONC_PRELU = 18, ATONC_PRELU_TWICE = 19, ATONC_FMOD = 20,
  ATONC_POW = 21
};

/* And for `atonc_reduce`. */
enum { ATONC_SUM = 0, ATONC_MEAN = 1, ATONC_REDUCE_MAX = 2, ATONC_REDUCE_MIN = 3, ATONC_REDUCE_PROD = 4 };

/* And what kind of layer with a state `atonc_recurrent` is. */
enum { ATONC_GRU = 0, ATONC_GRU_AFTER = 1, ATONC_LSTM = 2 };

#define ATONC_MOST_CELLS 1024 /* of a layer with a state */

/* Prototypes: emit/c/kernels.py puts those of the functions in parts here, with the comments above them. */
#ifdef __cplusplus
}
#endif

#endif
