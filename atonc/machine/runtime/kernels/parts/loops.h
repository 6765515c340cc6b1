/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include "prologue.h"

/* --- nested loops -------------------------------------------------------------------------------------------------- */

#define MAX_RANK 8

/* Rows of `width` numbers: a count and up to three steps. `at` follows the steps. */
typedef struct {
  int32_t index[MAX_RANK];
  ptrdiff_t at[3];
} walker;

static walker start_walk(void)
{
  walker w = {{0}, {0}};
  return w;
}

static int is_empty(int32_t rank, const int32_t *rows, int32_t width)
{
  for (int32_t k = 0; k < rank; k++) {
    if (rows[k * width] <= 0) return 1;
  }
  return 0;
}

/* The next position; 0 when the loops are through. */
static int advance(walker *w, int32_t rank, const int32_t *rows, int32_t width)
{
  for (int32_t k = rank - 1; k >= 0; k--) {
    const int32_t *row = rows + k * width;
    w->index[k]++;
    for (int32_t s = 1; s < width; s++) w->at[s - 1] += row[s];
    if (w->index[k] < row[0]) return 1;
    for (int32_t s = 1; s < width; s++) w->at[s - 1] -= (ptrdiff_t)row[s] * row[0];
    w->index[k] = 0;
  }
  return 0;
}

