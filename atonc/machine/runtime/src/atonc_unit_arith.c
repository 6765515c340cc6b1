/* SPDX-License-Identifier: Apache-2.0
 * Driver of the arithmetic units, with their memory of 512 coefficient rows (A, B, C).
 */
#define ATONC_BUILDS_ARITH_DRIVER
#include "atonc_internal.h"
#include "ll_aton.h"

#ifndef ATONC_EC_ONLY

#include "atonc_units.h"

#define START(reg) (word = ATONC_ARITH_##reg##_RESET)
#define SET(field, value) (word = ATONC_PUT(word, ATONC_ARITH_##field, value))
#define STORE(reg) atonc_write(unit, ATONC_ARITH_##reg, word)

#define ROWS 512u
#define WINDOW_ROWS 384u /* rows that the registers show; the last 128 appear after a shift by a page */
#define PAGE_ROWS 128u
#define MEMORY 256u /* register of the first row */

static uint32_t operation_code(LL_Arithacc_Op operation) {
    return operation <= ARITH_MAX ? (uint32_t)operation - 1u : 4u * (uint32_t)operation - 9u;
}

static void write_control(unsigned unit, const LL_Arithacc_InitTypeDef *c) {
    unsigned vector = !c->scalar;
    unsigned channels = vector && c->bcast == ARITH_BCAST_CHAN;
    uint32_t word;
    START(CTRL);
    STORE(CTRL);
    SET(CTRL_CNT1, vector);
    SET(CTRL_CNT2, channels);
    SET(CTRL_CNT3, channels);
    SET(CTRL_ROUND, c->rounding_o);
    SET(CTRL_ORNDMODE, c->relu_mode_o << 1 | c->round_mode_o);
    SET(CTRL_OBYTES, c->outbytes_o);
    SET(CTRL_SAT, c->saturation_o);
    SET(CTRL_COEFFA, vector);
    SET(CTRL_COEFFB, vector);
    SET(CTRL_COEFFC, vector);
    SET(CTRL_DUALIN, c->dualinput);
    SET(CTRL_COMBINEBC, c->combinebc);
    SET(CTRL_CLIPOUT, c->clipout);
    SET(CTRL_OP, operation_code(c->operation));
    SET(CTRL_LOGICALOP, c->operation == ARITH_NOT_X);
    STORE(CTRL);
}

static void write_shifts(unsigned unit, const LL_Arithacc_InitTypeDef *c) {
    uint32_t word;
    START(INSHIFTER);
    SET(INSHIFTER_FBYTESX, c->inbytes_x);
    SET(INSHIFTER_FSHIFTX, c->shift_x + 16);
    SET(INSHIFTER_FROUNDX, c->rounding_x);
    SET(INSHIFTER_FSATX, c->saturation_x);
    SET(INSHIFTER_FRNDMODEX, c->round_mode_x);
    SET(INSHIFTER_FOBYTESX, c->outbytes_x);
    SET(INSHIFTER_FBYTESY, c->inbytes_y);
    SET(INSHIFTER_FSHIFTY, c->shift_y + 16);
    SET(INSHIFTER_FROUNDY, c->rounding_y);
    SET(INSHIFTER_FSATY, c->saturation_y);
    SET(INSHIFTER_FRNDMODEY, c->round_mode_y);
    SET(INSHIFTER_FOBYTESY, c->outbytes_y);
    STORE(INSHIFTER);
    START(SHIFT);
    SET(SHIFT_AX, c->Ax_shift);
    SET(SHIFT_BY, c->By_shift);
    SET(SHIFT_C, c->C_shift);
    SET(SHIFT_RES, c->shift_o);
    STORE(SHIFT);
}

static void write_scalars(unsigned unit, const LL_Arithacc_InitTypeDef *c) {
    uint32_t word;
    START(COEFFAC);
    SET(COEFFAC_A, c->A_scalar);
    SET(COEFFAC_C, c->C_scalar);
    STORE(COEFFAC);
    START(COEFFB);
    SET(COEFFB_B, c->B_scalar);
    STORE(COEFFB);
    if (c->clipout) {
        START(CLIPRANGE);
        SET(CLIPRANGE_CLIPMAX, c->clipmax);
        SET(CLIPRANGE_CLIPMIN, c->clipmin);
        STORE(CLIPRANGE);
    }
    START(COEFFADDR);
    SET(COEFFADDR_ADDR, 0);
    STORE(COEFFADDR);
}

typedef struct {
    uint32_t step;        /* elements before the row changes, 0: at once */
    uint32_t resets[3];   /* elements before the row is set back, for each of three counters */
    int32_t offsets[3];   /* what is added to the row then */
    unsigned counters;    /* how many of them count */
    uint32_t rows;
} walk_t;

/* How the coefficient row follows the stream. False: the vector has no direction to be broadcast in. */
static bool find_walk(const LL_Arithacc_InitTypeDef *c, walk_t *w) {
    uint32_t width = c->fWidth, height = c->fHeight, depth = c->batchDepth, channels = c->fChannels;
    *w = (walk_t){.counters = 1};
    switch (c->bcast) {
    case ARITH_BCAST_SCALAR:
        *w = (walk_t){.rows = 1};
        return true;
    case ARITH_BCAST_CHAN:
        *w = (walk_t){
            .resets = {depth - 1u, width * height * depth - 1u, width * height * channels - 1u},
            .offsets = {1 - (int32_t)depth, 1, 1 - (int32_t)channels},
            .counters = 3,
            .rows = channels,
        };
        return true;
    case ARITH_BCAST_HEIGHT:
        w->step = width * depth - 1u;
        w->resets[0] = width * height * depth - 1u;
        w->rows = height;
        break;
    case ARITH_BCAST_WIDTH:
        w->step = depth - 1u;
        w->resets[0] = width * depth - 1u;
        w->rows = width;
        break;
    case ARITH_BCAST_HEIGHT_WIDTH:
        w->step = depth - 1u;
        w->resets[0] = height * width * depth - 1u;
        w->rows = height * width;
        break;
    default:
        return false;
    }
    w->offsets[0] = 1 - (int32_t)w->rows;
    return true;
}

static void write_walk(unsigned unit, const walk_t *w) {
    uint32_t word;
    START(INCCNT);
    SET(INCCNT_INCVAL, w->step);
    STORE(INCCNT);
    if (w->counters > 0) {
        START(RSTCNT1);
        SET(RSTCNT1_RSTCNT, w->resets[0]);
        STORE(RSTCNT1);
    }
    if (w->counters == 3) {
        START(RSTCNT2);
        SET(RSTCNT2_RSTCNT, w->resets[1]);
        STORE(RSTCNT2);
        START(RSTCNT3);
        SET(RSTCNT3_RSTCNT, w->resets[2]);
        STORE(RSTCNT3);
    }
    START(INCOFFSET);
    SET(INCOFFSET_VAL, w->counters > 0);
    STORE(INCOFFSET);
    if (w->counters > 0) {
        START(ADDROFFSET);
        SET(ADDROFFSET_OFFSET1, w->offsets[0]);
        if (w->counters == 3) {
            SET(ADDROFFSET_OFFSET2, w->offsets[1]);
            SET(ADDROFFSET_OFFSET3, w->offsets[2]);
        }
        STORE(ADDROFFSET);
    }
}

static int32_t coefficient(const ll_aton_pointer *vector, unsigned bits, unsigned row, int32_t scalar) {
    return vector->p == NULL ? scalar : atonc_vector_element(vector->p, bits, row);
}

static void write_coefficients(unsigned unit, const LL_Arithacc_InitTypeDef *c, unsigned rows, bool splits_scalar) {
    bool has_c = c->C_vector.p != NULL;
    bool combined = c->combinebc && (has_c || splits_scalar);
    atonc_write(unit, ATONC_ARITH_TRANSLATEADDR, 1);
    for (unsigned row = 0; row < rows; row++) {
        int32_t a = coefficient(&c->A_vector, c->vec_precision[0], row, c->A_scalar);
        int32_t b = coefficient(&c->B_vector, c->vec_precision[1], row, c->B_scalar);
        int32_t addend = coefficient(&c->C_vector, c->vec_precision[2], row, c->C_scalar);
        if (has_c && c->C_scalar == -1) {
            addend = (int32_t)(0u - (uint32_t)addend);
        }
        if (combined) {
            b = addend >> 16;
        }
        if (row == WINDOW_ROWS) {
            atonc_write(unit, ATONC_ARITH_TRANSLATEADDR, 0);
        }
        unsigned reg = MEMORY + 2u * (row < WINDOW_ROWS ? row : row - PAGE_ROWS);
        atonc_write(unit, reg, ((uint32_t)a & 0xFFFFu) | (uint32_t)b << 16);
        atonc_write(unit, reg + 1u, (uint32_t)addend & 0xFFFFu);
    }
}

static bool bits_make_sense(const LL_Arithacc_InitTypeDef *c) {
    const ll_aton_pointer *vectors[3] = {&c->A_vector, &c->B_vector, &c->C_vector};
    for (unsigned i = 0; i < 3; i++) {
        if (vectors[i]->p != NULL && (c->vec_precision[i] < 1 || c->vec_precision[i] > 32)) {
            return false;
        }
    }
    return true;
}

static int initialise(int id, const LL_Arithacc_InitTypeDef *conf, bool splits_scalar) {
    if (!atonc_has_unit(id, ATONC_ARITH_NUM)) {
        return atonc_refuse(LL_ATON_INVALID_ID);
    }
    walk_t walk = {.rows = 0};
    bool known = conf->operation >= ARITH_AFFINE && conf->operation <= ARITH_CLIP;
    if (!known || (!conf->scalar && (!find_walk(conf, &walk) || walk.rows == 0 || !bits_make_sense(conf)))) {
        return atonc_refuse(LL_ATON_INVALID_PARAM);
    }
    unsigned unit = ATONC_ARITH0 + (unsigned)id;
    atonc_clock(ATONC_CLOCK_ARITH0 + (unsigned)id, true);
    write_control(unit, conf);
    write_shifts(unit, conf);
    write_scalars(unit, conf);
    if (!conf->scalar) {
        write_walk(unit, &walk);
        write_coefficients(unit, conf, walk.rows < ROWS ? walk.rows : ROWS, splits_scalar);
    }
    return LL_ATON_OK;
}

int LL_Arithacc_Init(int id, const LL_Arithacc_InitTypeDef *conf) { return initialise(id, conf, false); }
int LL_Arithacc_Init_1_1_0(int id, const LL_Arithacc_InitTypeDef *conf) { return initialise(id, conf, true); }

#endif
