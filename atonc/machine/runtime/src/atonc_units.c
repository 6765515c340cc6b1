/* SPDX-License-Identifier: Apache-2.0
 * Links between units, and units on and off.
 */
#include "atonc_internal.h"
#include "ll_aton.h"

int atonc_refuse(int result) {
    atonc_rt_fail(ATONC_ERR_BAD_CALL, (uint32_t)result);
    return result;
}

#ifndef ATONC_EC_ONLY

#include "atonc_units.h"

#define MAX_LIST 64
#define LAST_PORT 42u

int32_t atonc_vector_element(const void *vector, unsigned bits, unsigned index) {
    const uint8_t *bytes = vector;
    unsigned first = bits * index, byte = first / 8u, shift = first % 8u;
    uint64_t value = 0;
    for (unsigned i = 0; 8u * i < shift + bits; i++) {
        value |= (uint64_t)bytes[byte + i] << 8u * i;
    }
    return (int32_t)((uint32_t)(value >> shift) << (32u - bits)) >> (32u - bits);
}

/* ---- stream switch ---- */

static bool is_list(const void *list, int n) { return n == 0 || (list != NULL && n > 0 && n <= MAX_LIST); }

static uint32_t link_word(const LL_Switch_InitTypeDef *link) {
    uint32_t word = ATONC_STRSWITCH_DST_RESET;
    word = ATONC_PUT(word, ATONC_STRSWITCH_DST_EN0, link->context0);
    word = ATONC_PUT(word, ATONC_STRSWITCH_DST_LINK0, link->source0);
    word = ATONC_PUT(word, ATONC_STRSWITCH_DST_FNR0, link->frames0);
    word = ATONC_PUT(word, ATONC_STRSWITCH_DST_EN1, link->context1);
    word = ATONC_PUT(word, ATONC_STRSWITCH_DST_LINK1, link->source1);
    return ATONC_PUT(word, ATONC_STRSWITCH_DST_FNR1, link->frames1);
}

static int write_links(const LL_Switch_InitTypeDef *links, int n, bool on) {
    if (!is_list(links, n)) {
        return atonc_refuse(LL_ATON_INVALID_PARAM);
    }
    for (int i = 0; i < n; i++) {
        if (links[i].dest < ATONC_STRSWITCH_DST || links[i].dest > LAST_PORT) {
            return atonc_refuse(LL_ATON_INVALID_PARAM);
        }
        atonc_write(ATONC_STRSWITCH0, links[i].dest, on ? link_word(&links[i]) : 0);
    }
    return LL_ATON_OK;
}

static void clear_switch(void) { atonc_clear_unit(ATONC_STRSWITCH0, ATONC_STRSWITCH_CTRL_RESET); }
static void enable_switch(void) { atonc_write(ATONC_STRSWITCH0, ATONC_CTRL, ATONC_STRSWITCH_CTRL_RESET | ATONC_CTRL_EN); }

int LL_Switch_Init_NoReset(const LL_Switch_InitTypeDef *links, int n) {
    int result = write_links(links, n, true);
    enable_switch();
    return result;
}

int LL_Switch_Init(const LL_Switch_InitTypeDef *links, int n) {
    if (!ATONC_LL_SWITCH_RESET_FIRST) {
        return LL_Switch_Init_NoReset(links, n);
    }
    clear_switch();
    enable_switch();
    return write_links(links, n, true);
}

int LL_Switch_Deinit_Fine_Grained(const LL_Switch_DeinitTypeDef *links, int n) { return write_links(links, n, false); }

int LL_Switch_Deinit(const LL_Switch_DeinitTypeDef *links, int n) {
    if (!ATONC_LL_SWITCH_RESET_FIRST) {
        clear_switch();
    }
    return write_links(links, n, false);
}

/* ---- units on and off ---- */

typedef struct {
    uint8_t first, count, clock;
    uint32_t reset;
} kind_t;

static const kind_t *kind_of(enum AccelUnitsType type) {
    static const kind_t kinds[] = {
        [STRENG] = {ATONC_STRENG0, ATONC_STRENG_NUM, ATONC_CLOCK_STRENG0, ATONC_STRENG_CTRL_RESET},
        [CONVACC] = {ATONC_CONVACC0, ATONC_CONVACC_NUM, ATONC_CLOCK_CONVACC0, ATONC_CONVACC_CTRL_RESET},
        [DECUN] = {ATONC_DECUN0, ATONC_DECUN_NUM, ATONC_CLOCK_DECUN0, ATONC_DECUN_CTRL_RESET},
        [ACTIV] = {ATONC_ACTIV0, ATONC_ACTIV_NUM, ATONC_CLOCK_ACTIV0, ATONC_ACTIV_CTRL_RESET},
        [ARITH] = {ATONC_ARITH0, ATONC_ARITH_NUM, ATONC_CLOCK_ARITH0, ATONC_ARITH_CTRL_RESET},
        [POOL] = {ATONC_POOL0, ATONC_POOL_NUM, ATONC_CLOCK_POOL0, ATONC_POOL_CTRL_RESET},
        [RECBUF] = {ATONC_RECBUF0, ATONC_RECBUF_NUM, ATONC_CLOCK_RECBUF0, ATONC_RECBUF_CTRL_RESET},
    };
    return (unsigned)type < sizeof kinds / sizeof kinds[0] ? &kinds[type] : &kinds[STRENG64];
}

/* The unit of a list entry; a kind that this NPU lacks has no units. */
static bool find_unit(const AccelUnits *entry, const kind_t **kind, unsigned *unit) {
    *kind = kind_of(entry->unit_type);
    *unit = (unsigned)(*kind)->first + entry->unit_num;
    return entry->unit_num < (*kind)->count;
}

int LL_ATON_EnableUnits_Init(const LL_ATON_EnableUnits_InitTypeDef *units, int n) {
    const kind_t *kind;
    unsigned unit;
    if (!is_list(units, n)) {
        return atonc_refuse(LL_ATON_INVALID_PARAM);
    }
    for (int i = 0; i < n; i++) {
        if (!find_unit(&units[i].unit, &kind, &unit)) {
            return atonc_refuse(LL_ATON_INVALID_PARAM);
        }
        bool is_convolution = units[i].unit.unit_type == CONVACC;
        uint32_t word = is_convolution ? atonc_convacc_control[units[i].unit.unit_num] : atonc_read(unit, ATONC_CTRL);
        atonc_write(unit, ATONC_CTRL, word | ATONC_CTRL_EN);
    }
    return LL_ATON_OK;
}

int LL_ATON_DisableUnits_Init(const LL_ATON_DisableUnits_InitTypeDef *units, int n) {
    const kind_t *kind;
    unsigned unit;
    if (!is_list(units, n)) {
        return atonc_refuse(LL_ATON_INVALID_PARAM);
    }
    for (int i = 0; i < n; i++) {
        if (!find_unit(&units[i].unit, &kind, &unit)) {
            return atonc_refuse(LL_ATON_INVALID_PARAM);
        }
        if (!atonc_clear_unit(unit, kind->reset)) {
            return LL_ATON_TIMEOUT;
        }
        atonc_clock((unsigned)kind->clock + units[i].unit.unit_num, false);
    }
    return LL_ATON_OK;
}

#endif
