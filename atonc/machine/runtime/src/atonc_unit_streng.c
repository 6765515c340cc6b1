/* SPDX-License-Identifier: Apache-2.0
 * Driver of the stream engines: memory to stream and back.
 */
#include "atonc_internal.h"
#include "ll_aton.h"
#include "ll_aton_cipher.h"

#ifndef ATONC_EC_ONLY

#define START(reg) (word = ATONC_STRENG_##reg##_RESET)
#define SET(field, value) (word = ATONC_PUT(word, ATONC_STRENG_##field, value))
#define STORE(reg) atonc_write(unit, ATONC_STRENG_##reg, word)

#define MAX_BITS 24u

static unsigned at_most_8(unsigned bits) { return bits < 8u ? bits : 8u; }

/* Bits that each of the three byte lanes of the stream carries. */
static void find_lanes(const LL_Streng_TensorInitTypeDef *c, unsigned stream, unsigned bits, unsigned lanes[3]) {
    unsigned low = at_most_8(bits);
    unsigned middle = bits > 8u ? at_most_8(bits - 8u) : 0;
    unsigned high = bits > 16u ? at_most_8(bits - 16u) : 0;
    lanes[0] = low;
    lanes[1] = middle;
    lanes[2] = high;
    if (!c->align_right && stream > 16u) {
        lanes[0] = high;
        lanes[2] = low;
    } else if (!c->align_right && stream > 8u) {
        lanes[0] = middle;
        lanes[1] = low;
        lanes[2] = 0;
    } else if (!c->align_right) {
        lanes[1] = lanes[2] = 0;
    }
}

static void write_control(unsigned unit, const LL_Streng_TensorInitTypeDef *c, const unsigned lanes[3]) {
    uint32_t word;
    START(CTRL);
    SET(CTRL_DIR, c->dir);
    SET(CTRL_RAW, c->raw);
    SET(CTRL_RAW_OUT, c->raw_out);
    SET(CTRL_NOBLK, c->noblk);
    SET(CTRL_NOINC, c->noinc);
    SET(CTRL_SINGLE, c->frame_tot_cnt == 1);
    SET(CTRL_CONT, c->continuous);
    SET(CTRL_LSBMODE, c->align_right);
    SET(CTRL_SIGNEXT, c->align_right && !c->nbits_unsigned);
    SET(CTRL_SIZE0, lanes[0]);
    SET(CTRL_SIZE1, lanes[1]);
    SET(CTRL_SIZE2, lanes[2]);
    STORE(CTRL);
}

static void write_frame(unsigned unit, const LL_Streng_TensorInitTypeDef *c, unsigned memory_bits) {
    uint32_t word;
    if (c->raw) {
        uint32_t size = c->offset_end - c->offset_start;
        uint32_t elements = c->frame_count != 0 ? c->frame_count : (uint32_t)((uint64_t)size * 8u / memory_bits);
        atonc_write(unit, ATONC_STRENG_FSIZE, elements);
    } else {
        START(FSIZE);
        SET(FSIZE_WIDTH, c->fwidth);
        SET(FSIZE_HEIGHT, c->fheight);
        STORE(FSIZE);
        START(DEPTH);
        SET(DEPTH_SIZE, c->batch_depth);
        SET(DEPTH_OFFSET, c->batch_offset);
        STORE(DEPTH);
    }
    START(FOFFSET);
    SET(FOFFSET_REG, c->frame_offset);
    STORE(FOFFSET);
    START(FRPTOFF);
    SET(FRPTOFF_REG, c->loop_offset);
    STORE(FRPTOFF);
    START(FRAME_RPT);
    SET(FRAME_RPT_REG, c->frame_loop_cnt);
    STORE(FRAME_RPT);
}

static void write_limits(unsigned unit, const LL_Streng_TensorInitTypeDef *c) {
    uint32_t word;
    START(LIMITEN);
    SET(LIMITEN_FRAMELIMIT, 1);
    SET(LIMITEN_DOFF_MSB, c->batch_offset >> 16);
    STORE(LIMITEN);
    if (c->offset_limit != 0) {
        SET(LIMITEN_ADDRLIMIT, 1);
        SET(LIMITEN_STOPPREFTC, 1);
        STORE(LIMITEN);
        atonc_write(unit, ATONC_STRENG_LIMITADDR, (uint32_t)c->addr_base.i + c->offset_limit - 1u);
    }
    START(LIMIT);
    SET(LIMIT_CNT, c->frame_tot_cnt);
    STORE(LIMIT);
}

static void write_lines(unsigned unit, const LL_Streng_TensorInitTypeDef *c, unsigned gap) {
    uint32_t line = c->raw ? 0 : c->line_offset != 0 ? c->line_offset : c->fwidth * c->batch_offset;
    uint32_t word;
    START(POS);
    SET(POS_GAPCYCLES, 0);
    STORE(POS);
    START(STRD);
    SET(STRD_LOFF, line);
    if (c->mem_lsb) {
        SET(STRD_FGAP, gap);
    } else {
        SET(STRD_BGAP, gap);
    }
    STORE(STRD);
    START(CID_CACHE);
    SET(CID_CACHE_LOFF_MSB, line >> 16);
    SET(CID_CACHE_CID, c->bus_cid);
    SET(CID_CACHE_CACHEABLE, c->cacheable);
    SET(CID_CACHE_ALLOC, c->cache_allocate);
    SET(CID_CACHE_PFETCH, c->bus_pfetch);
    SET(CID_CACHE_LINESIZE, c->cache_linesize);
    STORE(CID_CACHE);
}

static void write_events(unsigned unit, const LL_Streng_TensorInitTypeDef *c) {
    uint32_t word;
    START(EVENT);
    SET(EVENT_EN_ILLCFG, 1);
    if (c->dir) {
        SET(EVENT_EN_OFLOW_FRM, 1);
    } else if (c->sync_with_other) {
        SET(EVENT_FRMTRG_EN, 1);
        SET(EVENT_FRMTRG_SRC, c->sync_dma);
    }
    STORE(EVENT);
    START(ENCR_MSB);
    SET(ENCR_MSB_EN, c->cipher_en);
    SET(ENCR_MSB_KEY_SEL, c->key_sel);
    STORE(ENCR_MSB);
}

int LL_Streng_TensorInit(int id, const LL_Streng_TensorInitTypeDef *conf, int n) {
    if (!atonc_has_unit(id, ATONC_STRENG_NUM)) {
        return atonc_refuse(LL_ATON_INVALID_ID);
    }
    unsigned memory = conf->dir ? conf->nbits_out : conf->nbits_in;
    unsigned stream = conf->dir ? conf->nbits_in : conf->nbits_out;
    if (n != 1 || memory == 0 || stream == 0 || memory > MAX_BITS || stream > MAX_BITS) {
        return atonc_refuse(LL_ATON_INVALID_PARAM);
    }
    unsigned unit = ATONC_STRENG0 + (unsigned)id;
    unsigned lanes[3];
    find_lanes(conf, stream, memory < stream ? memory : stream, lanes);
    atonc_clock(ATONC_CLOCK_STRENG0 + (unsigned)id, true);
    write_control(unit, conf, lanes);
    atonc_write(unit, ATONC_STRENG_ADDR, (uint32_t)conf->addr_base.i + conf->offset_start);
    write_frame(unit, conf, memory);
    write_limits(unit, conf);
    write_lines(unit, conf, memory > stream ? memory - stream : 0);
    write_events(unit, conf);
    return LL_ATON_OK;
}

int LL_Streng_EncryptionInit(int id, const LL_Streng_EncryptionTypedef *conf) {
    if (!atonc_has_unit(id, ATONC_STRENG_NUM)) {
        return atonc_refuse(LL_ATON_INVALID_ID);
    }
    unsigned unit = ATONC_STRENG0 + (unsigned)id;
    uint32_t word;
    START(ENCR_MSB);
    SET(ENCR_MSB_ID_MSB, conf->encryption_id >> 32);
    SET(ENCR_MSB_EN, conf->enable);
    SET(ENCR_MSB_ROUNDS, conf->rounds);
    SET(ENCR_MSB_KEY_SEL, conf->key_sel);
    atonc_write(unit, ATONC_STRENG_ENCR_LSB, (uint32_t)conf->encryption_id);
    STORE(ENCR_MSB);
    return conf->increment == 0 ? LL_ATON_OK : atonc_refuse(LL_ATON_INVALID_PARAM); /* nobody has seen it used */
}

int LL_Streng_Wait(uint32_t mask) {
    uint32_t busy;
    atonc_watchdog_start();
    do {
        busy = 0;
        for (unsigned i = 0; i < ATONC_STRENG_NUM; i++) {
            busy |= mask >> i & 1u ? atonc_read(ATONC_STRENG0 + i, ATONC_CTRL) & ATONC_CTRL_RUNNING : 0;
        }
        if (busy != 0 && atonc_watchdog_expired()) {
            atonc_rt_fail(ATONC_ERR_TIMEOUT, mask);
            return LL_ATON_TIMEOUT;
        }
    } while (busy != 0);
    return LL_ATON_OK;
}

#endif
