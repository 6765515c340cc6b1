/* SPDX-License-Identifier: Apache-2.0
 * The probes of an image; probes.c is written by `atonc probe`.
 */
#ifndef PROBES_H
#define PROBES_H

#include "ll_aton_runtime.h"

typedef struct {
    const char *name;
    NN_Instance_TypeDef *network;
    void (*load)(void); /* puts constants into RAM; NULL: there are none */
    const uint8_t *stimulus;
    uint32_t stimulus_size;
    const uint8_t *expected;
    uint32_t expected_size;
} probe_t;

extern const probe_t probes[];
extern const uint32_t probes_count;

#endif
