/* Moves the values of the last axis round by `shift` places: what leaves at one end comes in at the other. */

#include "atonc_custom.h"

void roll(const atonc_tensor *x, const atonc_tensor *y, int32_t shift)
{
    const int8_t *in = x->data;
    int8_t *out = y->data;
    const int32_t width = x->shape[x->rank - 1];
    const int32_t by = (shift % width + width) % width;

    for (int32_t row = 0; row < x->elements; row += width) {
        for (int32_t k = 0; k < width; k++) {
            out[row + (k + by) % width] = in[row + k];
        }
    }
}
