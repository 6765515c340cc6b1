/* SPDX-License-Identifier: Apache-2.0 */
#include "loops.h"
#include "vectors.h"

/* --- products of two tensors --------------------------------------------------------------------------------------- */

/* One batch: where its operands begin, how they lie (rows and sum of a, sum and columns of b), where the result goes. */
typedef struct {
  const void *a, *b;
  const atonc_format *a_format, *b_format, *out_format;
  int32_t rows, depth, columns;
  const int32_t *steps;
  void *out;
  size_t first; /* of the results, in elements */
} batch_product;

static void multiply_plain(const batch_product *p)
{
  size_t i = p->first;
  for (int32_t row = 0; row < p->rows; row++) {
    for (int32_t column = 0; column < p->columns; column++) {
      double sum = 0.0;
      for (int32_t k = 0; k < p->depth; k++) {
        ptrdiff_t from_a = (ptrdiff_t)row * p->steps[0] + (ptrdiff_t)k * p->steps[1];
        ptrdiff_t from_b = (ptrdiff_t)k * p->steps[2] + (ptrdiff_t)column * p->steps[3];
        double left = load(p->a, (size_t)from_a, p->a_format->type) - p->a_format->zero;
        sum = sum + left * (load(p->b, (size_t)from_b, p->b_format->type) - p->b_format->zero);
      }
      put(p->out, i++, p->out_format, sum * p->a_format->scale * p->b_format->scale);
    }
  }
}

#ifdef ATONC_VECTORS
#define TILE_BYTES 1024
#define TILE_COLUMNS 16
#define TILE_SUMS 256
#define TILE_DEPTH 256      /* of sums that are longer than a tile is */
#define MOST_PRODUCTS 32768 /* that 32 bits have room for */

/* Sums of bytes are exact in 32 bits: sum (a - za)(b - zb) = sum ab - zb sum a - za sum b + depth za zb. Some columns of
 * b, or a part of them, are a tile: where they lie as whole vectors, or filled up with zeros to such; `terms` is
 * za sum b - depth za zb. Some rows are multiplied by it, and their sums stay until all parts were there. */
typedef struct {
  int8_t bytes[TILE_BYTES];
  int8_t row[TILE_BYTES / 2];
  const int8_t *column[TILE_COLUMNS];
  int32_t terms[TILE_COLUMNS], sums[TILE_SUMS];
  int32_t first, columns, stride; /* of b and the results; from one row of sums to the next */
  int32_t from, depth, padded;    /* products of the part */
} tile;

static int32_t signed_zero(const atonc_format *format)
{
  return (int32_t)format->zero - (format->type == ATONC_U8 ? 128 : 0);
}

/* `count` bytes that are `step` apart, as signed ones, and zeros up to whole vectors. */
static void gather_bytes(int8_t *to, const uint8_t *from, int32_t step, int32_t count, uint8_t flip)
{
  int32_t k = 0;
  if (step == 1) {
    copy_forward((uint8_t *)to, from, (uint32_t)count, flip);
    k = count;
  } else if (step > 1 && step < 65536 / 8) {
    uint16x8_t places = vmulq_n_u16(vidupq_n_u16(0, 1), (uint16_t)step), flips = vdupq_n_u16(flip);
    for (; k + 8 <= count; k += 8) {
      uint16x8_t bytes = vldrbq_gather_offset_u16(from + (ptrdiff_t)k * step, places);
      vstrbq_u16((uint8_t *)to + k, veorq_u16(bytes, flips));
    }
  }
  for (; k < count; k++) to[k] = (int8_t)(from[(ptrdiff_t)k * step] ^ flip);
  for (; k % 16; k++) to[k] = 0;
}

static int32_t sum_of_row(const int8_t *bytes, int32_t padded)
{
  int32_t sum = 0;
  for (int32_t k = 0; k < padded; k += 16) sum = vaddvaq_s8(sum, vldrbq_s8(bytes + k));
  return sum;
}

/* Whether bytes lie as the products read them. */
static int in_vectors(const atonc_format *format, int32_t step, int32_t depth)
{
  return format->type == ATONC_S8 && step == 1 && depth % 16 == 0;
}

static void fill_tile(tile *t, const batch_product *p)
{
  int32_t za = signed_zero(p->a_format), zb = signed_zero(p->b_format);
  const uint8_t *from = AT(p->b, (ptrdiff_t)t->from * p->steps[2] + (ptrdiff_t)t->first * p->steps[3]);
  for (int32_t c = 0; c < t->columns; c++, from += p->steps[3]) {
    t->column[c] = (const int8_t *)from;
    if (!in_vectors(p->b_format, p->steps[2], t->depth)) {
      int8_t *to = t->bytes + c * t->padded;
      gather_bytes(to, from, p->steps[2], t->depth, p->b_format->type == ATONC_U8 ? 0x80 : 0);
      t->column[c] = to;
    }
    t->terms[c] = za ? za * (sum_of_row(t->column[c], t->padded) - t->depth * zb) : 0;
  }
}

/* Row by all columns of the tile, four at a time: columns behind the last one are whatever lies there. */
static void dot_columns(const tile *t, const int8_t *row, int32_t *sums, int32_t zb)
{
  for (int32_t c = 0; c < t->columns; c += 4) {
    const int8_t *a = row, *b0 = t->column[c];
    const int8_t *b1 = c + 1 < t->columns ? t->column[c + 1] : b0;
    const int8_t *b2 = c + 2 < t->columns ? t->column[c + 2] : b0;
    const int8_t *b3 = c + 3 < t->columns ? t->column[c + 3] : b0;
    int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0, all = 0;
    for (int32_t left = t->padded / 16; left > 0; left--, a += 16, b0 += 16, b1 += 16, b2 += 16, b3 += 16) {
      int8x16_t bytes = vldrbq_s8(a);
      all = vaddvaq_s8(all, bytes);
      s0 = vmladavaq_s8(s0, bytes, vldrbq_s8(b0));
      s1 = vmladavaq_s8(s1, bytes, vldrbq_s8(b1));
      s2 = vmladavaq_s8(s2, bytes, vldrbq_s8(b2));
      s3 = vmladavaq_s8(s3, bytes, vldrbq_s8(b3));
    }
    int32x4_t found = vsetq_lane_s32(s3, vsetq_lane_s32(s2, vsetq_lane_s32(s1, vdupq_n_s32(s0), 1), 2), 3);
    found = vsubq_n_s32(vsubq_s32(found, vldrwq_s32(t->terms + c)), zb * all);
    vstrwq_s32(sums + c, t->from > 0 ? vaddq_s32(found, vldrwq_s32(sums + c)) : found);
  }
}

/* Results of one row; in single precision where `factor` is a number. */
static void put_sums(const int32_t *sums, int32_t columns, const batch_product *p, size_t i, float factor,
                     const code_range *range)
{
  float32x4_t farthest = vdupq_n_f32(0.0f);
  int32_t c = 0;
  if (factor == factor) {
    for (; c < columns; c += 4) {
      mve_pred16_t lanes = vctp32q((uint32_t)(columns - c));
      float32x4_t values = vmulq_n_f32(vcvtq_f32_s32(vldrwq_z_s32(sums + c, lanes)), factor);
      vstrbq_p_s32((int8_t *)p->out + i + c, codes_of(nearest(values, &farthest), range), lanes);
    }
    if (!near_a_tie(farthest, CERTAIN)) return;
  }
  for (c = 0; c < columns; c++) put(p->out, i + c, p->out_format, sums[c] * p->a_format->scale * p->b_format->scale);
}

static int is_of_bytes(const atonc_format *format)
{
  return format->type == ATONC_S8 || format->type == ATONC_U8;
}

/* The tile's part of some rows of a. */
static void multiply_rows(tile *t, const batch_product *p, int32_t first, int32_t rows)
{
  int32_t zb = signed_zero(p->b_format), step = p->steps[1];
  int direct = in_vectors(p->a_format, step, t->depth);
  for (int32_t r = 0; r < rows; r++) {
    const uint8_t *from = AT(p->a, (ptrdiff_t)(first + r) * p->steps[0] + (ptrdiff_t)t->from * step);
    const int8_t *row = direct ? (const int8_t *)from : t->row;
    if (!direct) gather_bytes(t->row, from, step, t->depth, p->a_format->type == ATONC_U8 ? 0x80 : 0);
    dot_columns(t, row, t->sums + r * t->stride, zb);
  }
}

/* 0 for numbers that it is not made for. */
static int multiply_bytes(const batch_product *p)
{
  tile t;
  code_range range = code_range_of(p->out_format);
  float factor = (float)(p->a_format->scale * p->b_format->scale / p->out_format->scale);
  int32_t most = p->depth > TILE_BYTES / 2 ? TILE_DEPTH : p->depth;
  if (!is_of_bytes(p->a_format) || !is_of_bytes(p->b_format) || p->depth > MOST_PRODUCTS || p->depth < 1) return 0;
  if (!(factor > 1e-30f && factor < 1e30f)) return 0;
  if (!single_decides(p->out_format)) factor = NAN;
  for (t.first = 0; t.first < p->columns; t.first += t.columns) {
    t.columns = TILE_BYTES / ((most + 15) / 16 * 16);
    if (t.columns > TILE_COLUMNS) t.columns = TILE_COLUMNS;
    if (t.columns > p->columns - t.first) t.columns = p->columns - t.first;
    t.stride = (t.columns + 3) / 4 * 4;
    for (int32_t done = 0, rows; done < p->rows; done += rows) {
      rows = p->rows - done < TILE_SUMS / t.stride ? p->rows - done : TILE_SUMS / t.stride;
      for (t.from = 0; t.from < p->depth; t.from += most) {
        t.depth = p->depth - t.from < most ? p->depth - t.from : most;
        t.padded = (t.depth + 15) / 16 * 16;
        if (done == 0 || most < p->depth) fill_tile(&t, p);
        multiply_rows(&t, p, done, rows);
      }
      for (int32_t r = 0; r < rows; r++) {
        size_t i = p->first + (size_t)(done + r) * p->columns + t.first;
        put_sums(t.sums + r * t.stride, t.columns, p, i, factor, &range);
      }
    }
  }
  return 1;
}
#endif

/* Batches as nested loops {count, step of a, step of b} in elements; `steps` are those of a along rows and along the
 * sum, of b along the sum and along columns. */
void atonc_matmul(void *out, const atonc_format *out_format, const void *a, const atonc_format *a_format,
                  const void *b, const atonc_format *b_format, int32_t rank, const int32_t *loops, int32_t rows,
                  int32_t depth, int32_t columns, const int32_t *steps)
{
  walker w = start_walk();
  batch_product p = {a, b, a_format, b_format, out_format, rows, depth, columns, steps, out, 0};
  if (is_empty(rank, loops, 3)) return;
  do {
    p.a = AT(a, w.at[0] * (ptrdiff_t)item_bytes(a_format->type));
    p.b = AT(b, w.at[1] * (ptrdiff_t)item_bytes(b_format->type));
#ifdef ATONC_VECTORS
    if (!multiply_bytes(&p))
#endif
      multiply_plain(&p);
    p.first += (size_t)rows * columns;
  } while (advance(&w, rank, loops, 3));
}
