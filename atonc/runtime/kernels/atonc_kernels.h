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

/* --- memory ------------------------------------------------------------------------------------------------------ */

/* Copies bytes; the areas may overlap or be the same. */
void atonc_copy(void *out, const void *in, uint32_t bytes);
/* Writes `count` times the same `item_bytes` bytes. */
void atonc_fill(void *out, const uint8_t *item, uint32_t item_bytes, uint32_t count);
/* Nested loops, outermost first, each a row {count, out step, in step} in bytes, around runs of `run_bytes` bytes.
 * With a table every byte of a run goes through it. */
void atonc_move(void *out, const void *in, uint32_t run_bytes, int32_t rank, const int32_t *loops,
                const uint8_t *table);
/* Picks positions along two axes: in [outer][a_in][middle][b_in][run], out [outer][a_out][middle][b_out][run]. */
void atonc_take(void *out, const void *in, int32_t outer, int32_t a_in, int32_t a_out, int32_t middle, int32_t b_in,
                int32_t b_out, uint32_t run_bytes, const int32_t *a_index, const int32_t *b_index);
/* in [outer][size][run]: picks by indices that are data; negative ones count from the end, others are kept inside. */
void atonc_gather(void *out, const void *in, int32_t outer, int32_t size, uint32_t run_bytes, const void *indices,
                  int32_t index_type, int32_t count);
/* Every tuple of `depth` indices picks a run; `axes` has rows {size, step in bytes}. */
void atonc_gather_nd(void *out, const void *in, uint32_t run_bytes, const void *indices, int32_t index_type,
                     int32_t tuples, int32_t depth, const int32_t *axes);

/* --- one value at a time (input and output may be the same memory if their elements have the same size) ----------- */

/* out[i] = table[in[i]], the byte taken as 0 to 255; the table holds the bytes of 256 entries. */
void atonc_lookup(void *out, const uint8_t *in, uint32_t count, const uint8_t *table, uint32_t item_bytes);
/* From one number format to another: quantise, dequantise, requantise, and what only clips. */
void atonc_convert(void *out, const atonc_format *out_format, const void *in, const atonc_format *in_format,
                   uint32_t count);

enum {
  ATONC_LOGISTIC = 0, ATONC_TANH = 1, ATONC_HARD_SWISH = 2, ATONC_SILU = 3, ATONC_MISH = 4, ATONC_SOFTPLUS = 5,
  ATONC_EXP = 6, ATONC_LOG = 7, ATONC_SQRT = 8, ATONC_RSQRT = 9, ATONC_SQUARE = 10, ATONC_ABS = 11, ATONC_NEG = 12,
  ATONC_SIGN = 13, ATONC_FLOOR = 14, ATONC_CEIL = 15, ATONC_ROUND = 16, ATONC_RECIPROCAL = 17,
  ATONC_LOGICAL_NOT = 18, ATONC_LEAKY_RELU = 19, ATONC_ELU = 20, ATONC_HARD_SIGMOID = 21, ATONC_TRUNC = 22, ATONC_ERF = 23,
  ATONC_GELU = 24, ATONC_GELU_TANH = 25
};
void atonc_unary(void *out, const atonc_format *out_format, const void *in, const atonc_format *in_format,
                 uint32_t count, int32_t function, double alpha, double beta);
/* out = in * gain[c] + offset[c], c the position in the last dimension. */
void atonc_affine(void *out, const atonc_format *out_format, const void *in, const atonc_format *in_format,
                  uint32_t rows, uint32_t channels, const double *gain, const double *offset);

/* --- several values ---------------------------------------------------------------------------------------------- */

enum {
  ATONC_ADD = 0, ATONC_SUB = 1, ATONC_MUL = 2, ATONC_DIV = 3, ATONC_DIV_TRUNC = 4, ATONC_MINIMUM = 5,
  ATONC_MAXIMUM = 6, ATONC_FLOOR_DIV = 7, ATONC_FLOOR_MOD = 8, ATONC_SQUARED_DIFFERENCE = 9, ATONC_LESS = 10,
  ATONC_LESS_EQUAL = 11, ATONC_GREATER = 12, ATONC_GREATER_EQUAL = 13, ATONC_EQUAL = 14, ATONC_NOT_EQUAL = 15,
  ATONC_LOGICAL_AND = 16, ATONC_LOGICAL_OR = 17, ATONC_PRELU = 18, ATONC_PRELU_TWICE = 19, ATONC_FMOD = 20,
  ATONC_POW = 21
};
/* ATONC_FLOOR_MOD has the sign of b, ATONC_FMOD that of a.
 * Broadcasting: nested loops, outermost first, rows {count, step of a, step of b} in elements. ATONC_PRELU_TWICE has a
 * multiplier for each side: the scale of a where a >= 0, the scale of b for products of codes elsewhere, both in units
 * of the output; `first_bits` has an entry for each side. */
void atonc_binary(void *out, const atonc_format *out_format, const void *a, const atonc_format *a_format,
                  const void *b, const atonc_format *b_format, int32_t rank, const int32_t *loops, int32_t function);
/* out = condition ? a : b; rows {count, step of the condition, of a, of b}. */
void atonc_select(void *out, const atonc_format *out_format, const void *condition, int32_t condition_type,
                  const void *a, const atonc_format *a_format, const void *b, const atonc_format *b_format,
                  int32_t rank, const int32_t *loops);

/* --- sums -------------------------------------------------------------------------------------------------------- */

/* Weights [out_c][k_h][k_w][in_c / groups] of type S8, S16, F32 or F64; out = sum * scales[o] + biases[o]. */
void atonc_conv(void *out, const atonc_format *out_format, const void *in, const atonc_format *in_format,
                const void *weights, int32_t weight_type, const double *scales, const double *biases,
                const atonc_window *window);
/* The same, transposed: out(y) collects in((y + top - ky * dilate) / stride) where that divides. */
void atonc_transpose_conv(void *out, const atonc_format *out_format, const void *in, const atonc_format *in_format,
                          const void *weights, int32_t weight_type, const double *scales, const double *biases,
                          const atonc_window *window);
/* Batches as nested loops {count, step of a, step of b} in elements; `steps` are those of a along rows and along the
 * sum, of b along the sum and along columns. */
void atonc_matmul(void *out, const atonc_format *out_format, const void *a, const atonc_format *a_format,
                  const void *b, const atonc_format *b_format, int32_t rank, const int32_t *loops, int32_t rows,
                  int32_t depth, int32_t columns, const int32_t *steps);

void atonc_max_pool(void *out, const atonc_format *out_format, const void *in, const atonc_format *in_format,
                    const atonc_window *window);
/* Padding counts as values if `count_padding`. */
void atonc_average_pool(void *out, const atonc_format *out_format, const void *in, const atonc_format *in_format,
                        const atonc_window *window, int32_t count_padding);

enum { ATONC_SUM = 0, ATONC_MEAN = 1, ATONC_REDUCE_MAX = 2, ATONC_REDUCE_MIN = 3, ATONC_REDUCE_PROD = 4 };
/* Nested loops over what stays and over what is reduced, rows {count, step} in elements of the input. */
void atonc_reduce(void *out, const atonc_format *out_format, const void *in, const atonc_format *in_format,
                  int32_t function, int32_t kept_rank, const int32_t *kept, int32_t reduced_rank,
                  const int32_t *reduced);
/* in [outer][count][inner]: position of the first largest (or smallest) code. */
void atonc_arg_extreme(void *out, int32_t out_type, const void *in, int32_t in_type, int32_t outer, int32_t count,
                       int32_t inner, int32_t smallest);

/* in [outer][count][inner] of bytes, signed or not; `exponentials[d]` is exp(-d * scale * beta). */
void atonc_softmax_8(void *out, const atonc_format *out_format, const uint8_t *in, int32_t is_signed, int32_t outer,
                     int32_t count, int32_t inner, const double *exponentials);
/* Any type; with `logarithm` the logarithm of the softmax. */
void atonc_softmax(void *out, const atonc_format *out_format, const void *in, const atonc_format *in_format,
                   int32_t outer, int32_t count, int32_t inner, double beta, int32_t logarithm);
/* Rows of `count` values divided by their length. */
void atonc_l2_norm(void *out, const atonc_format *out_format, const void *in, const atonc_format *in_format,
                   int32_t rows, int32_t count);
/* in [outer][a_in][middle][b_in][inner]: blends neighbours `low` and `low + 1` along a, then along b if `axes` is 2. */
void atonc_resize_linear(void *out, const atonc_format *out_format, const void *in, const atonc_format *in_format,
                         int32_t axes, int32_t outer, int32_t a_in, int32_t a_out, int32_t middle, int32_t b_in,
                         int32_t b_out, int32_t inner, const int32_t *a_low, const double *a_weight,
                         const int32_t *b_low, const double *b_weight);

/* --- states -------------------------------------------------------------------------------------------------------- */

#define ATONC_MOST_CELLS 1024
/* An LSTM of bytes with cells of 16 bits that starts from nothing: in [batch][steps][inputs], out [batch][steps][cells],
 * weights [gate][cells][inputs], recurrent [gate][cells][cells], gates: input, forget, cell, output. `biases` has rows
 * for the sums of inputs, then of states; `multipliers` pairs {31 bits, exponent} for these sums and for the result.
 * `cell_bits` are in front of the point of a cell, `cell_clip` bounds it unless it is 0; `zero` is the output's. */
void atonc_lstm(int8_t *out, const int8_t *in, int32_t batch, int32_t steps, int32_t inputs, int32_t cells,
                const int8_t *weights, const int8_t *recurrent, const int32_t *biases, const int32_t *multipliers,
                int32_t cell_bits, int32_t cell_clip, int32_t zero);

#ifdef __cplusplus
}
#endif

#endif
