/* SPDX-License-Identifier: Apache-2.0 */
#include "functions.h"
#include "loops.h"
#include "vectors.h"

/* --- sums ---------------------------------------------------------------------------------------------------------- */

/* A run of products that is added to a sum. Integers are exact: in 32 bits within a run of bytes (the caller saw to
 * that), in 64 bits over all runs. Floats are added one after the other. */
typedef struct {
  const void *x;
  const void *weights;
  size_t x_step, weight_step, count;
  double zero;
  int32_t x_type, weight_type;
  int64_t integers; /* the sum of integers */
  double sum;       /* the sum of floats */
} products;

typedef void (*adder)(products *p);

#ifdef ATONC_VECTORS
/* The sum of (x - zero) * w over bytes side by side, x signed after `flip`; modulo 2^32, as all parts of it. */
static int32_t dot_bytes(const uint8_t *x, const int8_t *w, uint32_t count, uint8_t flip, int32_t zero)
{
  uint32_t sum = 0, weights = 0;
  for (uint32_t i = 0; i < count; i += 16) {
    mve_pred16_t lanes = vctp8q(count - i);
    int8x16_t taps = vldrbq_z_s8(w + i, lanes); /* zeros behind the end */
    int8x16_t values = vreinterpretq_s8_u8(veorq_u8(vldrbq_z_u8(x + i, lanes), vdupq_n_u8(flip)));
    sum = (uint32_t)vmladavaq_s8((int32_t)sum, values, taps);
    weights = (uint32_t)vaddvaq_s8((int32_t)weights, taps);
  }
  return (int32_t)(sum - (uint32_t)zero * weights);
}
#endif

static void add_s8(products *p)
{
  const int8_t *x = p->x, *w = p->weights;
  int32_t part = 0, zero = (int32_t)p->zero;
#ifdef ATONC_VECTORS
  if (p->x_step == 1 && p->count >= 8) {
    p->integers += dot_bytes(p->x, w, (uint32_t)p->count, 0, zero);
    return;
  }
#endif
  for (size_t i = 0; i < p->count; i++) part += (x[i * p->x_step] - zero) * w[i * p->weight_step];
  p->integers += part;
}

static void add_u8(products *p)
{
  const uint8_t *x = p->x;
  const int8_t *w = p->weights;
  int32_t part = 0, zero = (int32_t)p->zero;
#ifdef ATONC_VECTORS
  if (p->x_step == 1 && p->count >= 8) {
    p->integers += dot_bytes(x, w, (uint32_t)p->count, 0x80, zero - 128);
    return;
  }
#endif
  for (size_t i = 0; i < p->count; i++) part += (x[i * p->x_step] - zero) * w[i * p->weight_step];
  p->integers += part;
}

static void add_s16(products *p)
{
  const int16_t *x = p->x;
  const int8_t *w = p->weights;
  int64_t part = 0;
  int32_t zero = (int32_t)p->zero;
  for (size_t i = 0; i < p->count; i++) part += (int64_t)(x[i * p->x_step] - zero) * w[i * p->weight_step];
  p->integers += part;
}

static void add_f32_s8(products *p)
{
  const float *x = p->x;
  const int8_t *w = p->weights;
  double sum = p->sum;
  for (size_t i = 0; i < p->count; i++) sum = sum + (double)x[i * p->x_step] * w[i * p->weight_step];
  p->sum = sum;
}

static void add_f32(products *p)
{
  const float *x = p->x, *w = p->weights;
  double sum = p->sum;
  for (size_t i = 0; i < p->count; i++) sum = sum + (double)x[i * p->x_step] * w[i * p->weight_step];
  p->sum = sum;
}

static void add_f32_f64(products *p)
{
  const float *x = p->x;
  const double *w = p->weights;
  double sum = p->sum;
  for (size_t i = 0; i < p->count; i++) sum = sum + x[i * p->x_step] * w[i * p->weight_step];
  p->sum = sum;
}

static void add_any(products *p)
{
  for (size_t i = 0; i < p->count; i++) {
    double x = load(p->x, i * p->x_step, p->x_type) - p->zero;
    p->sum = p->sum + x * load(p->weights, i * p->weight_step, p->weight_type);
  }
}

static adder adder_for(int32_t x_type, int32_t weight_type)
{
  if (weight_type == ATONC_S8) {
    if (x_type == ATONC_S8) return add_s8;
    if (x_type == ATONC_U8) return add_u8;
    if (x_type == ATONC_S16) return add_s16;
    if (x_type == ATONC_F32) return add_f32_s8;
  }
  if (x_type == ATONC_F32 && weight_type == ATONC_F32) return add_f32;
  return x_type == ATONC_F32 && weight_type == ATONC_F64 ? add_f32_f64 : add_any;
}

/* The taps first <= k < last of a window whose first tap lies at `origin` meet a picture of `size`. */
static void meeting_taps(int32_t origin, int32_t taps, int32_t dilate, int32_t size, int32_t *first, int32_t *last)
{
  int32_t from = 0, to = taps;
  while (from < to && origin + from * dilate < 0) from++;
  while (to > from && origin + (to - 1) * dilate >= size) to--;
  *first = from;
  *last = to;
}

/* One output of a convolution: all taps, row by row, channels fastest. */
static void add_window(const void *in, const void *weights, const atonc_window *g, const int32_t at[3], int32_t o,
                       products *p, adder add)
{
  int32_t depth = g->in_c / g->groups, group = o / (g->out_c / g->groups);
  uint32_t x_bytes = item_bytes(p->x_type), w_bytes = item_bytes(p->weight_type);
  int32_t y0 = at[1] * g->stride_y - g->top, x0 = at[2] * g->stride_x - g->left;
  int32_t ky_from, ky_to, kx_from, kx_to;
  meeting_taps(y0, g->k_h, g->dilate_y, g->in_h, &ky_from, &ky_to);
  meeting_taps(x0, g->k_w, g->dilate_x, g->in_w, &kx_from, &kx_to);
  /* one run per row of taps where memory allows it, else one per tap */
  int32_t whole_row = depth == 1 || (g->groups == 1 && g->dilate_x == 1);
  int32_t runs = whole_row ? (kx_from < kx_to) : kx_to - kx_from;
  p->x_step = depth == 1 ? (size_t)g->dilate_x * g->in_c : 1;
  p->weight_step = 1;
  p->count = whole_row ? (size_t)(kx_to - kx_from) * depth : (size_t)depth;
  for (int32_t ky = ky_from; ky < ky_to; ky++) {
    size_t row = ((size_t)at[0] * g->in_h + y0 + ky * g->dilate_y) * g->in_w;
    for (int32_t kx = kx_from; kx < kx_from + runs; kx++) {
      size_t pixel = (row + x0 + kx * g->dilate_x) * g->in_c + (size_t)group * depth;
      p->x = AT(in, pixel * x_bytes);
      p->weights = AT(weights, (((size_t)o * g->k_h + ky) * g->k_w + kx) * depth * w_bytes);
      add(p);
    }
  }
}

/* One output of a transposed convolution, taps in the same order. */
static void add_collected(const void *in, const void *weights, const atonc_window *g, const int32_t at[3], int32_t o,
                          products *p, adder add)
{
  int32_t depth = g->in_c / g->groups, group = o / (g->out_c / g->groups);
  uint32_t x_bytes = item_bytes(p->x_type), w_bytes = item_bytes(p->weight_type);
  p->x_step = p->weight_step = 1;
  p->count = (size_t)depth;
  for (int32_t ky = 0; ky < g->k_h; ky++) {
    int32_t y = at[1] + g->top - ky * g->dilate_y;
    if (y < 0 || y % g->stride_y || y / g->stride_y >= g->in_h) continue;
    for (int32_t kx = 0; kx < g->k_w; kx++) {
      int32_t x = at[2] + g->left - kx * g->dilate_x;
      if (x < 0 || x % g->stride_x || x / g->stride_x >= g->in_w) continue;
      size_t pixel = ((size_t)at[0] * g->in_h + y / g->stride_y) * g->in_w + x / g->stride_x;
      p->x = AT(in, (pixel * g->in_c + (size_t)group * depth) * x_bytes);
      p->weights = AT(weights, (((size_t)o * g->k_h + ky) * g->k_w + kx) * depth * w_bytes);
      add(p);
    }
  }
}

typedef void (*collector)(const void *in, const void *weights, const atonc_window *g, const int32_t at[3], int32_t o,
                          products *p, adder add);

static void convolve(collector collect, void *out, const atonc_format *out_format, const void *in,
                     const atonc_format *in_format, const void *weights, int32_t weight_type, const double *scales,
                     const double *biases, const atonc_window *g)
{
  adder add = adder_for(in_format->type, weight_type);
  products p = {0, 0, 1, 1, 0, in_format->zero, in_format->type, weight_type, 0, 0.0};
  int floats = add != add_s8 && add != add_u8 && add != add_s16;
  int32_t at[3];
  size_t i = 0;
  for (at[0] = 0; at[0] < g->batch; at[0]++) {
    for (at[1] = 0; at[1] < g->out_h; at[1]++) {
      for (at[2] = 0; at[2] < g->out_w; at[2]++) {
        for (int32_t o = 0; o < g->out_c; o++) {
          p.integers = 0;
          p.sum = 0.0;
          collect(in, weights, g, at, o, &p, add);
          put_channel(out, i++, out_format, o, (floats ? p.sum : from_wide(p.integers)) * scales[o] + biases[o]);
        }
      }
    }
  }
}

/* Weights [out_c][k_h][k_w][in_c / groups] of type S8, S16, F32 or F64; out = sum * scales[o] + biases[o]. */
void atonc_conv(void *out, const atonc_format *out_format, const void *in, const atonc_format *in_format,
                const void *weights, int32_t weight_type, const double *scales, const double *biases,
                const atonc_window *window)
{
  convolve(add_window, out, out_format, in, in_format, weights, weight_type, scales, biases, window);
}

/* The same, transposed: out(y) collects in((y + top - ky * dilate) / stride) where that divides. */
void atonc_transpose_conv(void *out, const atonc_format *out_format, const void *in, const atonc_format *in_format,
                          const void *weights, int32_t weight_type, const double *scales, const double *biases,
                          const atonc_window *window)
{
  convolve(add_collected, out, out_format, in, in_format, weights, weight_type, scales, biases, window);
}

/* --- pools and reductions ------------------------------------------------------------------------------------------ */

static void pool(void *out, const atonc_format *out_format, const void *in, const atonc_format *in_format,
                 const atonc_window *g, int32_t is_max, int32_t count_padding)
{
  size_t i = 0;
  for (int32_t n = 0; n < g->batch; n++) {
    for (int32_t y = 0; y < g->out_h; y++) {
      for (int32_t x = 0; x < g->out_w; x++) {
        int32_t y0 = y * g->stride_y - g->top, x0 = x * g->stride_x - g->left;
        int32_t ky_from, ky_to, kx_from, kx_to;
        meeting_taps(y0, g->k_h, g->dilate_y, g->in_h, &ky_from, &ky_to);
        meeting_taps(x0, g->k_w, g->dilate_x, g->in_w, &kx_from, &kx_to);
        double count = count_padding ? (double)g->k_h * g->k_w : (double)(ky_to - ky_from) * (kx_to - kx_from);
        for (int32_t c = 0; c < g->in_c; c++) {
          double most = -INFINITY, sum = 0.0;
          for (int32_t ky = ky_from; ky < ky_to; ky++) {
            for (int32_t kx = kx_from; kx < kx_to; kx++) {
              size_t row = (size_t)n * g->in_h + y0 + ky * g->dilate_y;
              size_t from = (row * g->in_w + x0 + kx * g->dilate_x) * g->in_c + c;
              double value = load(in, from, in_format->type) - in_format->zero;
              most = is_max ? larger(most, value) : most;
              sum = sum + value;
            }
          }
          put(out, i++, out_format, (is_max ? most : sum / count) * in_format->scale);
        }
      }
    }
  }
}

void atonc_max_pool(void *out, const atonc_format *out_format, const void *in, const atonc_format *in_format,
                    const atonc_window *window)
{
  pool(out, out_format, in, in_format, window, 1, 0);
}

/* Padding counts as values if `count_padding`. */
void atonc_average_pool(void *out, const atonc_format *out_format, const void *in, const atonc_format *in_format,
                        const atonc_window *window, int32_t count_padding)
{
  pool(out, out_format, in, in_format, window, 0, count_padding);
}

static double reduced_with(int32_t function, double so_far, double value)
{
  switch (function) {
  case ATONC_REDUCE_MAX: return larger(so_far, value);
  case ATONC_REDUCE_MIN: return smaller(so_far, value);
  case ATONC_REDUCE_PROD: return so_far * value;
  default: return so_far + value;
  }
}

/* Nested loops over what stays and over what is reduced, rows {count, step} in elements of the input. */
void atonc_reduce(void *out, const atonc_format *out_format, const void *in, const atonc_format *in_format,
                  int32_t function, int32_t kept_rank, const int32_t *kept, int32_t reduced_rank,
                  const int32_t *reduced)
{
  static const double starts[] = {0.0, 0.0, -INFINITY, INFINITY, 1.0};
  int32_t is_sum = function == ATONC_SUM || function == ATONC_MEAN;
  /* sums are of codes and scaled at the end, the others compare and multiply real values */
  double scale = is_sum ? 1.0 : in_format->scale;
  double count = 1.0;
  walker outer = start_walk();
  size_t i = 0;
  if (is_empty(kept_rank, kept, 2) || is_empty(reduced_rank, reduced, 2)) return;
  for (int32_t k = 0; k < reduced_rank; k++) count = count * reduced[2 * k];
  do {
    walker inner = start_walk();
    double value = starts[function];
    do {
      size_t from = (size_t)(outer.at[0] + inner.at[0]);
      value = reduced_with(function, value, (load(in, from, in_format->type) - in_format->zero) * scale);
    } while (advance(&inner, reduced_rank, reduced, 2));
    if (is_sum) value = value * in_format->scale;
    put(out, i++, out_format, function == ATONC_MEAN ? value / count : value);
  } while (advance(&outer, kept_rank, kept, 2));
}
