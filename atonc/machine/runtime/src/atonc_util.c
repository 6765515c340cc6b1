/* SPDX-License-Identifier: Apache-2.0
 * Bit fields in memory.
 */
#include "ll_aton_util.h"

uint32_t LL_ATON_getbits(uint32_t *bits, unsigned int pos, int nbits) {
    unsigned word = pos / 32u, bit = pos % 32u;
    uint64_t value = bits[word];
    if (bit + (unsigned)nbits > 32u) {
        value |= (uint64_t)bits[word + 1] << 32;
    }
    return (uint32_t)(value >> bit) & 0xFFFFFFFFUL >> (32 - nbits);
}

void LL_ATON_setbits(uint32_t *bits, unsigned int pos, int nbits, unsigned int val) {
    unsigned word = pos / 32u, bit = pos % 32u;
    uint64_t mask = (uint64_t)(0xFFFFFFFFUL >> (32 - nbits)) << bit;
    uint64_t field = (uint64_t)val << bit & mask;
    bits[word] = (bits[word] & ~(uint32_t)mask) | (uint32_t)field;
    if (bit + (unsigned)nbits > 32u) {
        bits[word + 1] = (bits[word + 1] & ~(uint32_t)(mask >> 32)) | (uint32_t)(field >> 32);
    }
}
