/* SPDX-License-Identifier: Apache-2.0
 * The probes of an image; probes.c is written by `atonc probe`.
 */
#ifndef PROBES_H
#define PROBES_H

#include <stdint.h>

typedef struct {
    const char *name; /* which of several possible answers this is */
    const uint8_t *data;
} probe_answer_t;

typedef struct {
    uint32_t address;
    uint32_t size;
    uint32_t crc32;
    const uint8_t *data; /* copied there; NULL: must be there, it is part of the flash image */
} probe_constant_t;

typedef struct { /* by the chip's DMA, beside the program; nothing where the size is 0 */
    uint32_t source;
    uint32_t target;
    uint32_t size; /* at most 65535 */
} probe_transfer_t;

enum {
    PROBE_NEEDS_FLASH = 1,    /* memory mapped, with the image */
    PROBE_NEEDS_HYPERRAM = 2, /* memory mapped */
    PROBE_NOT_EMULATED = 4,   /* a setting that atonc's emulator does not know */
    PROBE_NEEDS_KEYS = 8,     /* in both bus interfaces */
    PROBE_MUST_DIFFER = 16,   /* nobody knows the output, only that it must not be the answer */
};

typedef struct {
    const char *name;
    const uint64_t *program; /* of the epoch controller */
    const uint8_t *stimulus;
    const probe_answer_t *answers; /* the one that is expected, or several that are possible */
    const probe_constant_t *constants;
    uint32_t stimulus_size;
    uint32_t output_size;
    uint32_t input; /* addresses */
    uint32_t output;
    probe_transfer_t transfer; /* whose cycles are then those that are told */
    uint8_t answer_count;
    uint8_t constant_count;
    uint8_t needs;
} probe_t;

extern const probe_t probes[];
extern const uint32_t probes_count;
extern const char probes_board[];
extern const char probes_version[];

#endif
