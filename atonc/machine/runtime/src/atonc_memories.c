/* SPDX-License-Identifier: Apache-2.0
 * Checks before the first inference: memories that a network needs, and constants that must be in them.
 */
#include "atonc_internal.h"
#include "ll_aton_attributes.h"
#include "ll_aton_version.h"

LL_ATON_WEAK bool atonc_memory_ready(uintptr_t base, uint32_t size) {
    (void)base;
    (void)size;
    return true;
}

/* Four bits at a time: a table of 16 words is small, and fast enough for a check at start-up. */
uint32_t atonc_crc32(const void *data, uint32_t size, uint32_t crc) {
    static const uint32_t table[16] = {
        0x00000000UL, 0x1DB71064UL, 0x3B6E20C8UL, 0x26D930ACUL, 0x76DC4190UL, 0x6B6B51F4UL, 0x4DB26158UL, 0x5005713CUL,
        0xEDB88320UL, 0xF00F9344UL, 0xD6D6A3E8UL, 0xCB61B38CUL, 0x9B64C2B0UL, 0x86D3D2D4UL, 0xA00AE278UL, 0xBDBDF21CUL,
    };
    const uint8_t *bytes = data;
    crc = ~crc;
    for (uint32_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        crc = crc >> 4 ^ table[crc & 15u];
        crc = crc >> 4 ^ table[crc & 15u];
    }
    return ~crc;
}

bool atonc_check_initialiser(uintptr_t address, uint32_t size, uint32_t crc32) {
    if (atonc_crc32((const void *)address, size, 0) == crc32) {
        return true;
    }
    atonc_rt_fail(ATONC_ERR_BAD_INITIALISER, (uint32_t)address);
    return false;
}

bool atonc_check_memories(const atonc_memory_t *list) {
    for (; list->size != 0; list++) {
        if (!atonc_memory_ready(list->base, list->size)) {
            atonc_rt_fail(ATONC_ERR_MEMORY_MISSING, (uint32_t)list->base);
            return false;
        }
        if (list->initialised != 0 && list->crc32 != 0 &&
            !atonc_check_initialiser(list->base, list->initialised, list->crc32)) {
            return false;
        }
    }
    return true;
}

bool atonc_check_version(unsigned major, unsigned minor, unsigned micro) {
    if (major == 1u && minor == 1u && micro <= 3u) {
        return true;
    }
    atonc_rt_fail(ATONC_ERR_WRONG_VERSION, major << 16 | minor << 8 | micro);
    return false;
}
