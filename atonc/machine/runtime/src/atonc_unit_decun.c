/* SPDX-License-Identifier: Apache-2.0
 * Driver of the weight decompressors, with their memory of code books.
 */
#include "atonc_internal.h"
#include "ll_aton.h"

#ifndef ATONC_EC_ONLY

#define START(reg) (word = ATONC_DECUN_##reg##_RESET)
#define SET(field, value) (word = ATONC_PUT(word, ATONC_DECUN_##field, value))
#define STORE(reg) atonc_write(unit, ATONC_DECUN_##reg, word)

#define MEMORY 512u /* register of the first slot */
#define PAGE_SLOTS 256u
#define PAGES 4u

static uint32_t control_word(const LL_Decun_InitTypeDef *c, unsigned page) {
    uint32_t word;
    START(CTRL);
    SET(CTRL_DUALIN, c->noDualInput);
    SET(CTRL_OW, c->noOverWrite);
    if (page > 0) {
        SET(CTRL_PAGEADDR, page);
    }
    return word;
}

static uint32_t little_endian(const unsigned char *bytes, unsigned count) {
    uint32_t value = 0;
    for (unsigned i = 0; i < count; i++) {
        value |= (uint32_t)bytes[i] << 8 * i;
    }
    return value;
}

/* Each vector starts a slot: 32 bits for code words of one byte, 64 bits for those of two. */
static void write_code_books(unsigned unit, const LL_Decun_InitTypeDef *c) {
    unsigned slot_bytes = 4u * c->nFormatBytes, vector_bytes = (unsigned)c->nCWperCV * c->nFormatBytes;
    unsigned slot = 0, page = 0;
    for (unsigned start = 0; start < c->CBs_size; start += vector_bytes) {
        unsigned left = c->CBs_size - start < vector_bytes ? c->CBs_size - start : vector_bytes;
        for (unsigned offset = 0; offset < left; offset += slot_bytes) {
            const unsigned char *part = c->CBs_vector.p + start + offset;
            unsigned count = left - offset < slot_bytes ? left - offset : slot_bytes;
            atonc_write(unit, MEMORY + 2u * slot, little_endian(part, count < 4u ? count : 4u));
            if (count > 4u) {
                atonc_write(unit, MEMORY + 2u * slot + 1u, little_endian(part + 4, count - 4u));
            }
            if (++slot == PAGE_SLOTS) {
                slot = 0;
                atonc_write(unit, ATONC_DECUN_CTRL, control_word(c, ++page));
            }
        }
    }
}

static bool makes_sense(const LL_Decun_InitTypeDef *c) {
    if ((c->nFormatBytes != 1 && c->nFormatBytes != 2) || c->nCWperCV < 1 || c->nCWperCV > 8) {
        return false;
    }
    unsigned vector_bytes = (unsigned)c->nCWperCV * c->nFormatBytes;
    unsigned slots = (c->nCWperCV + 3u) / 4u;
    return c->CBs_size == 0 ||
           (c->CBs_vector.p != NULL && (uint64_t)c->CBs_size * slots <= (uint64_t)PAGES * PAGE_SLOTS * vector_bytes);
}

int LL_Decun_Init(int id, const LL_Decun_InitTypeDef *conf) {
    if (!atonc_has_unit(id, ATONC_DECUN_NUM)) {
        return atonc_refuse(LL_ATON_INVALID_ID);
    }
    if (!makes_sense(conf)) {
        return atonc_refuse(LL_ATON_INVALID_PARAM);
    }
    unsigned unit = ATONC_DECUN0 + (unsigned)id;
    uint32_t word = control_word(conf, 0);
    atonc_clock(ATONC_CLOCK_DECUN0 + (unsigned)id, true);
    STORE(CTRL);
    if (conf->CBs_size != 0) {
        write_code_books(unit, conf);
    }
    START(BFORMAT);
    SET(BFORMAT_CVS, conf->nCVperCB - 1);
    SET(BFORMAT_CWS, conf->nCWperCV - 1);
    SET(BFORMAT_OSAM, conf->nRCWlastCV);
    STORE(BFORMAT);
    START(DFORMAT);
    SET(DFORMAT_CV8, conf->nFormatBytes & 1u);
    STORE(DFORMAT);
    START(FFORMAT);
    SET(FFORMAT_BN, conf->nBatches);
    STORE(FFORMAT);
    return LL_ATON_OK;
}

#endif
