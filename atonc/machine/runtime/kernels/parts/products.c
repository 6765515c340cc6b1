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

/* Sums of bytes are exact in 32 bits: sum (a - za)(b - zb) = sum ab - zb sum a - za sum b + depth za zb. Some columns of
 * b are a tile: where they lie as whole vectors, or filled up with zeros to such; `terms` is za sum b - depth za zb. */
typedef struct {
  int8_t bytes[TILE_BYTES];
  int8_t row[TILE_BYTES / 2];
  const int8_t *column[TILE_COLUMNS];
  int32_t terms[TILE_COLUMNS], sums[TILE_COLUMNS];
  int32_t columns, padded;
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

static void fill_tile(tile *t, const batch_product *p, int32_t column)
{
  int32_t za = signed_zero(p->a_format), zb = signed_zero(p->b_format);
  for (int32_t c = 0; c < t->columns; c++) {
    const uint8_t *from = AT(p->b, (ptrdiff_t)(column + c) * p->steps[3]);
    t->column[c] = (const int8_t *)from;
    if (!in_vectors(p->b_format, p->steps[2], p->depth)) {
      int8_t *to = t->bytes + c * t->padded;
      gather_bytes(to, from, p->steps[2], p->depth, p->b_format->type == ATONC_U8 ? 0x80 : 0);
      t->column[c] = to;
    }
    t->terms[c] = za ? za * (sum_of_row(t->column[c], t->padded) - p->depth * zb) : 0;
  }
}

/* Row by all columns of the tile, four at a time: columns behind the last one are whatever lies there. */
static void dot_columns(tile *t, const int8_t *row)
{
  for (int32_t c = 0; c < t->columns; c += 4) {
    const int8_t *b0 = t->column[c];
    const int8_t *b1 = c + 1 < t->columns ? t->column[c + 1] : b0;
    const int8_t *b2 = c + 2 < t->columns ? t->column[c + 2] : b0;
    const int8_t *b3 = c + 3 < t->columns ? t->column[c + 3] : b0;
    int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    for (int32_t k = 0; k < t->padded; k += 16) {
      int8x16_t left = vldrbq_s8(row + k);
      s0 = vmladavaq_s8(s0, left, vldrbq_s8(b0 + k));
      s1 = vmladavaq_s8(s1, left, vldrbq_s8(b1 + k));
      s2 = vmladavaq_s8(s2, left, vldrbq_s8(b2 + k));
      s3 = vmladavaq_s8(s3, left, vldrbq_s8(b3 + k));
    }
    t->sums[c] = s0;
    t->sums[c + 1] = s1;
    t->sums[c + 2] = s2;
    t->sums[c + 3] = s3;
  }
}

/* Results of one row, `minus` taken from each sum; in single precision where that decides. */
static void put_sums(const tile *t, const batch_product *p, size_t i, int32_t minus, float factor, const code_range *range)
{
  float32x4_t farthest = vdupq_n_f32(0.0f);
  int32_t c = 0;
  if (single_decides(p->out_format)) {
    for (; c < t->columns; c += 4) {
      mve_pred16_t lanes = vctp32q((uint32_t)(t->columns - c));
      int32x4_t sums = vsubq_n_s32(vsubq_s32(vldrwq_s32(t->sums + c), vldrwq_s32(t->terms + c)), minus);
      float32x4_t values = vmulq_n_f32(vcvtq_f32_s32(vpselq_s32(sums, vdupq_n_s32(0), lanes)), factor);
      vstrbq_p_s32((int8_t *)p->out + i + c, codes_of(nearest(values, &farthest), range), lanes);
    }
    if (!near_a_tie(farthest, CERTAIN)) return;
  }
  for (c = 0; c < t->columns; c++) {
    double sum = t->sums[c] - t->terms[c] - minus;
    put(p->out, i + c, p->out_format, sum * p->a_format->scale * p->b_format->scale);
  }
}

static int is_of_bytes(const atonc_format *format)
{
  return format->type == ATONC_S8 || format->type == ATONC_U8;
}

/* 0 where it is not made for: other numbers, or rows that are longer than its tile. */
static int multiply_bytes(const batch_product *p)
{
  tile t;
  code_range range = code_range_of(p->out_format);
  int32_t zb = signed_zero(p->b_format);
  float factor = (float)(p->a_format->scale * p->b_format->scale / p->out_format->scale);
  int direct = in_vectors(p->a_format, p->steps[1], p->depth);
  if (!is_of_bytes(p->a_format) || !is_of_bytes(p->b_format) || p->depth > TILE_BYTES / 2 || p->depth < 1) return 0;
  if (!(factor > 1e-30f && factor < 1e30f)) return 0;
  t.padded = (p->depth + 15) / 16 * 16;
  for (int32_t column = 0; column < p->columns; column += t.columns) {
    t.columns = TILE_BYTES / t.padded < TILE_COLUMNS ? TILE_BYTES / t.padded : TILE_COLUMNS;
    if (t.columns > p->columns - column) t.columns = p->columns - column;
    fill_tile(&t, p, column);
    for (int32_t r = 0; r < p->rows; r++) {
      const uint8_t *from = AT(p->a, (ptrdiff_t)r * p->steps[0]);
      const int8_t *row = direct ? (const int8_t *)from : t.row;
      if (!direct) gather_bytes(t.row, from, p->steps[1], p->depth, p->a_format->type == ATONC_U8 ? 0x80 : 0);
      dot_columns(&t, row);
      put_sums(&t, p, p->first + (size_t)r * p->columns + column, zb ? zb * sum_of_row(row, t.padded) : 0, factor, &range);
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
