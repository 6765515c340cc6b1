@-- The steps of atonc/insight/evaluating/boxes.py in the same order: both give the same bits.
/* @name@_post.c: boxes from the outputs of the network, as @title@ means them; written by @tool@. Do not edit.
 * A score is above @score_text@; of boxes of one class that overlap by more than @overlap_text@, the best stays.
 */
#include "@name@_post.h"

/* Whatever the command line says: every product and every sum is rounded to float. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-fast-math", "fp-contract=off")
#else
#pragma STDC FP_CONTRACT OFF
#endif
#ifdef __FAST_MATH__
#error "the boxes need IEEE arithmetic: compile this file without -ffast-math"
#endif

#define CANDIDATES @candidates@U
#define CLASSES @upper@_POST_CLASSES
#define FIRST @first@U /* value of the first class */

typedef @score_type@ score_code_t;
typedef @box_type@ box_code_t;
@begin more@
typedef @more_type@ more_code_t;
@end more@

/* A grid of cells with some anchors each, or a list of boxes. Distances are in elements. */
typedef struct {
  uint32_t scores, boxes; /* outputs */
  uint32_t cells, columns, anchors;
  uint32_t score_start, score_cell, score_anchor, score_value;
  uint32_t box_start, box_cell, box_anchor, box_value;
  @gate_type@ gate; /* the least code that may be above the least score */
  float score_scale, box_scale;
  int32_t score_zero, box_zero;
@begin grids@
  float offset, stride_x, stride_y, step_x, step_y;
  const float (*sizes)[2]; /* width and height of each anchor */
@end grids@
@begin more@
  uint32_t more, more_start, more_cell, more_value; /* points, or coefficients of masks */
  float more_scale;
  int32_t more_zero;
@end more@
} head_t;

@begin grids@
@begin sizes@
static const float sizes_@k@[][2] = {@values@};
@end sizes@
@end grids@
static const head_t heads[] = {
@begin heads@
  {@fields@},
@end heads@
};

@begin given@
static const float given[][4] = { /* x, y, width, height of each box */
@anchors@};

@end given@
typedef struct {
  float score;
  uint32_t box, number;
} candidate_t;

static candidate_t candidates[CANDIDATES];
static uint32_t count;

@begin exponential@
/* For x up to 20; below -86 it is 0. */
static float exponential(float x)
{
  static const float factors[] = {@factors@};
  union {
    float value;
    int32_t bits;
  } power;
  if (!(x > -86.0F)) return x < 0.0F ? 0.0F : x;
  const int32_t k = (int32_t)(x * @log2_e@ + (x < 0.0F ? -0.5F : 0.5F));
  const float whole = (float)k;
  const float r = (x - whole * @ln2_high@) - whole * @ln2_low@;
  float sum = factors[0];
  for (uint32_t n = 1; n < sizeof factors / sizeof factors[0]; n++) sum = sum * r + factors[n];
  power.bits = (k + 127) * (1 << 23);
  return sum * power.value;
}

@end exponential@
@begin sigmoid@
static float sigmoid(float x)
{
  const float small = exponential(x < 0.0F ? x : -x);
  return (x >= 0.0F ? 1.0F : small) / (1.0F + small);
}

@end sigmoid@
@begin probability@
static float probability(float x) { return x > 1.0F ? 1.0F : x < 0.0F ? 0.0F : x; }

@end probability@
static float score_value(const head_t *head, score_code_t code)
{
@begin score_codes@
  return (float)((int32_t)code - head->score_zero) * head->score_scale;
@end score_codes@
@begin score_floats@
  (void)head;
  return code;
@end score_floats@
}

static float box_value(const head_t *head, box_code_t code)
{
@begin box_codes@
  return (float)((int32_t)code - head->box_zero) * head->box_scale;
@end box_codes@
@begin box_floats@
  (void)head;
  return code;
@end box_floats@
}

@begin more@
static float more_value(const head_t *head, more_code_t code)
{
  (void)head;
  return @more_value@;
}

@end more@
@begin binned@
/* The mean of 0, 1, ... weighted by the softmax of the values. */
static float distance(const head_t *head, const box_code_t *row)
{
  float top = box_value(head, row[0]), sum = 0.0F, whole = 0.0F;
  for (uint32_t k = 1; k < @bins@U; k++) {
    const float value = box_value(head, row[k * head->box_value]);
    top = value > top ? value : top;
  }
  for (uint32_t k = 0; k < @bins@U; k++) {
    const float power = exponential(box_value(head, row[k * head->box_value]) - top);
    sum += power * (float)k;
    whole += power;
  }
  return sum / whole;
}

@end binned@

/* --- the best candidates: a heap with the last of them in front */

static int is_before(const candidate_t *a, const candidate_t *b)
{
  if (a->score > b->score || a->score < b->score) return a->score > b->score;
  return a->box != b->box ? a->box < b->box : a->number < b->number;
}

static void sift(uint32_t at, uint32_t size)
{
  const candidate_t moved = candidates[at];
  for (uint32_t child = 2U * at + 1U; child < size; child = 2U * at + 1U) {
    if (child + 1U < size && is_before(&candidates[child], &candidates[child + 1U])) child++;
    if (!is_before(&moved, &candidates[child])) break;
    candidates[at] = candidates[child];
    at = child;
  }
  candidates[at] = moved;
}

static void make_heap(void)
{
  for (uint32_t at = count / 2U; at-- > 0U;) sift(at, count);
}

static void offer(float score, uint32_t box, uint32_t number)
{
  const candidate_t one = {score, box, number};
  if (!(score > @score@)) return;
  if (count < CANDIDATES) {
    candidates[count++] = one;
    if (count == CANDIDATES) make_heap();
  } else if (is_before(&one, &candidates[0])) {
    candidates[0] = one;
    sift(0, count);
  }
}

static void sort(void)
{
  if (count < CANDIDATES) make_heap();
  for (uint32_t size = count; size > 1U;) {
    const candidate_t last = candidates[0];
    candidates[0] = candidates[--size];
    candidates[size] = last;
    sift(0, size);
  }
}

/* --- scores */

@begin objectness@
static void look(const head_t *head, const score_code_t *row, uint32_t box)
{
  const float object = @objectness_of@(score_value(head, row[4U * head->score_value]));
  row += FIRST * head->score_value;
@begin softmax@
  static float powers[CLASSES];
  float top = score_value(head, row[0]), sum = 0.0F;
  for (uint32_t k = 1; k < CLASSES; k++) {
    const float value = score_value(head, row[k * head->score_value]);
    top = value > top ? value : top;
  }
  for (uint32_t k = 0; k < CLASSES; k++) {
    powers[k] = exponential(score_value(head, row[k * head->score_value]) - top);
    sum += powers[k];
  }
  for (uint32_t k = 0; k < CLASSES; k++) offer(object * (powers[k] / sum), box, k);
@end softmax@
@begin plain@
  for (uint32_t k = 0; k < CLASSES; k++) {
    offer(object * @score_of@(score_value(head, row[k * head->score_value])), box, k);
  }
@end plain@
}

static void scan(const head_t *head, const score_code_t *codes, uint32_t box)
{
  for (uint32_t cell = 0; cell < head->cells; cell++) {
    for (uint32_t anchor = 0; anchor < head->anchors; anchor++, box++) {
      const score_code_t *row = codes + cell * head->score_cell + anchor * head->score_anchor;
      if (row[4U * head->score_value] >= head->gate) look(head, row, box);
    }
  }
}

@end objectness@
@begin classes_first@
static void scan(const head_t *head, const score_code_t *codes, uint32_t box)
{
  codes += FIRST * head->score_value;
  for (uint32_t k = 0; k < CLASSES; k++, codes += head->score_value) {
    for (uint32_t cell = 0; cell < head->cells; cell++) {
      const score_code_t code = codes[cell * head->score_cell];
      if (code >= head->gate) offer(@score_of@(score_value(head, code)), box + cell, k);
    }
  }
}

@end classes_first@
@begin boxes_first@
static void scan(const head_t *head, const score_code_t *codes, uint32_t box)
{
  for (uint32_t cell = 0; cell < head->cells; cell++) {
    for (uint32_t anchor = 0; anchor < head->anchors; anchor++, box++) {
      const score_code_t *row = codes + cell * head->score_cell + anchor * head->score_anchor;
      for (uint32_t k = 0; k < CLASSES; k++) {
        const score_code_t code = row[(FIRST + k) * head->score_value];
        if (code >= head->gate) offer(@score_of@(score_value(head, code)), box, k);
      }
    }
  }
}

@end boxes_first@
/* --- boxes */

static int is_number(float x) { return x - x >= 0.0F; } /* neither infinite nor not a number */

static int find_box(const void *const outputs[], const candidate_t *one, @name@_box_t *box)
{
  const head_t *head = heads;
  uint32_t at = one->box;
  for (; at >= head->cells * head->anchors; head++) at -= head->cells * head->anchors;
  const uint32_t cell = at / head->anchors, anchor = at % head->anchors;
  const box_code_t *row = (const box_code_t *)outputs[head->boxes] + head->box_start;
  row += cell * head->box_cell + anchor * head->box_anchor;
@begin distances@
  const float cell_x = (float)(cell % head->columns), cell_y = (float)(cell / head->columns);
  const float place_x = (cell_x + head->offset) * head->stride_x, place_y = (cell_y + head->offset) * head->stride_y;
  float v[4];
  for (uint32_t k = 0; k < 4U; k++) {
@begin binned@
    v[k] = distance(head, row + k * @bins@U * head->box_value);
@end binned@
@begin unbinned@
    v[k] = box_value(head, row[k * head->box_value]);
@end unbinned@
  }
  box->x1 = place_x - v[0] * head->stride_x;
  box->y1 = place_y - v[1] * head->stride_y;
  box->x2 = place_x + v[2] * head->stride_x;
  box->y2 = place_y + v[3] * head->stride_y;
@end distances@
@begin whole@
  float v[@values@];
  for (uint32_t k = 0; k < @values@U; k++) v[k] = box_value(head, row[k * head->box_value]);
@end whole@
@begin placed@
  const float step_x = head->step_x, step_y = head->step_y;
  const float step_w = head->sizes[anchor][0], step_h = head->sizes[anchor][1];
  const float place_x = ((float)(cell % head->columns) + head->offset) * head->stride_x;
  const float place_y = ((float)(cell / head->columns) + head->offset) * head->stride_y;
@end placed@
@begin given@
  const float place_x = given[at][0], place_y = given[at][1], step_w = given[at][2], step_h = given[at][3];
  const float step_x = step_w * @variance@, step_y = step_h * @variance@;
@end given@
@begin corners@
  const @anchor_type@ *own = (const @anchor_type@ *)outputs[@anchors_at@] + 4U * at;
  float a[4];
  for (uint32_t k = 0; k < 4U; k++) a[k] = @anchor_value@;
  const float step_x = (a[2] - a[0]) * @side_x@, step_y = (a[3] - a[1]) * @side_y@;
  box->x1 = a[0] * @side_x@ + v[0] * step_x;
  box->y1 = a[1] * @side_y@ + v[1] * step_y;
  box->x2 = a[2] * @side_x@ + v[2] * step_x;
  box->y2 = a[3] * @side_y@ + v[3] * step_y;
@end corners@
@begin plain_corners@
  box->x1 = place_x + v[0] * step_x;
  box->y1 = place_y + v[1] * step_y;
  box->x2 = place_x + v[2] * step_w;
  box->y2 = place_y + v[3] * step_h;
@end plain_corners@
@begin centres@
@begin limited@
  for (uint32_t k = 2; k < 4U; k++) {
    v[k] = v[k] * @factor@;
    v[k] = exponential(v[k] > 20.0F ? 20.0F : v[k]);
  }
@end limited@
  const float x = place_x + @centre_x@ * step_x, y = place_y + @centre_y@ * step_y;
  const float half_w = v[2] * step_w * 0.5F, half_h = v[3] * step_h * 0.5F;
  box->x1 = x - half_w;
  box->y1 = y - half_h;
  box->x2 = x + half_w;
  box->y2 = y + half_h;
@end centres@
  int valid = is_number(box->x1) && is_number(box->y1) && is_number(box->x2) && is_number(box->y2);
@begin more@
  const more_code_t *behind = (const more_code_t *)outputs[head->more] + head->more_start + cell * head->more_cell;
@end more@
@begin point_scores@
  for (uint32_t k = 0; k < @points@U; k++, behind += 3U * head->more_value) {
    const float x = more_value(head, behind[0]), y = more_value(head, behind[head->more_value]);
    box->points[k][0] = (x * @point_step@ + (cell_x + @point_offset@)) * head->stride_x;
    box->points[k][1] = (y * @point_step@ + (cell_y + @point_offset@)) * head->stride_y;
    box->point_scores[k] = sigmoid(more_value(head, behind[2U * head->more_value]));
    valid = valid && is_number(box->points[k][0]) && is_number(box->points[k][1]) && is_number(box->point_scores[k]);
  }
@end point_scores@
@begin has_masks@
  for (uint32_t k = 0; k < @mask_values@U; k++) {
    box->mask[k] = more_value(head, behind[k * head->more_value]);
    valid = valid && is_number(box->mask[k]);
  }
@end has_masks@
@begin box_points@
  for (uint32_t k = 0; k < @points@U; k++) {
    box->points[k][0] = place_x + v[4U + 2U * k] * step_x;
    box->points[k][1] = place_y + v[5U + 2U * k] * step_y;
    valid = valid && is_number(box->points[k][0]) && is_number(box->points[k][1]);
  }
@end box_points@
  box->score = one->score;
  box->number = one->number;
  return valid;
}

static float area(const @name@_box_t *box)
{
  const float w = box->x2 - box->x1, h = box->y2 - box->y1;
  return w > 0.0F && h > 0.0F ? w * h : 0.0F;
}

static int overlap(const @name@_box_t *a, const @name@_box_t *b)
{
  const float w = (a->x2 < b->x2 ? a->x2 : b->x2) - (a->x1 > b->x1 ? a->x1 : b->x1);
  const float h = (a->y2 < b->y2 ? a->y2 : b->y2) - (a->y1 > b->y1 ? a->y1 : b->y1);
  if (!(w > 0.0F && h > 0.0F)) return 0;
  const float shared = w * h;
  if (!(shared > 0.0F)) return 0;
  return !(shared / ((area(a) + area(b)) - shared) <= @overlap@);
}

uint32_t @name@_post(const void *const outputs[@upper@_POST_OUTPUTS], @name@_box_t *boxes, uint32_t most)
{
  uint32_t found = 0, first = 0;
  count = 0;
  for (uint32_t k = 0; k < sizeof heads / sizeof heads[0]; k++) {
    scan(&heads[k], (const score_code_t *)outputs[heads[k].scores] + heads[k].score_start, first);
    first += heads[k].cells * heads[k].anchors;
  }
  sort();
  for (uint32_t k = 0; k < count && found < most; k++) {
    @name@_box_t *box = &boxes[found];
    int keep = find_box(outputs, &candidates[k], box);
    for (uint32_t n = 0; keep && n < found; n++) {
      keep = boxes[n].number != box->number || !overlap(&boxes[n], box);
    }
    found += keep ? 1U : 0U;
  }
  return found;
}
@begin has_masks@

void @name@_post_mask(const void *const outputs[@upper@_POST_OUTPUTS], const @name@_box_t *box, uint8_t *mask)
{
  const float x1 = box->x1 * @mask_step_x@, x2 = box->x2 * @mask_step_x@;
  const float y1 = box->y1 * @mask_step_y@, y2 = box->y2 * @mask_step_y@;
  const @mask_type@ *codes = (const @mask_type@ *)outputs[@mask_output@];
  for (uint32_t at = 0; at < @upper@_POST_MASK_WIDTH * @upper@_POST_MASK_HEIGHT; at++, codes += @mask_cell@U) {
    const float x = (float)(at % @upper@_POST_MASK_WIDTH), y = (float)(at / @upper@_POST_MASK_WIDTH);
    mask[at] = 0U;
    if (!(x >= x1 && x < x2 && y >= y1 && y < y2)) continue;
    float sum = 0.0F;
    for (uint32_t k = 0; k < @mask_values@U; k++) sum += box->mask[k] * (@mask_code@);
    mask[at] = sum > 0.0F ? 1U : 0U;
  }
}
@end has_masks@
