/* SPDX-License-Identifier: Apache-2.0
 * What a C operator of the user gets (generate --custom): one of these for each input and output, in the order of the
 * model, then the attributes that its declaration names. */

#ifndef ATONC_CUSTOM_H
#define ATONC_CUSTOM_H

#include <stdint.h>

typedef struct {
    void *data;           /* packed, the last axis fastest, in the model's order of axes; inputs are not written */
    int32_t elements, rank;
    const int32_t *shape; /* rank numbers */
    float scale;          /* of codes: real value = scale * (code - zero_point); else 1 and 0 */
    int32_t zero_point;
} atonc_tensor;

#endif
