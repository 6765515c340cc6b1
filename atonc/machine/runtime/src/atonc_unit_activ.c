/* SPDX-License-Identifier: Apache-2.0
 * Driver of the activation units, with the tables of their function evaluator.
 */
#include "atonc_internal.h"
#include "ll_aton.h"

#ifndef ATONC_EC_ONLY

#include "atonc_units.h"

#define START(reg) (word = ATONC_ACTIV_##reg##_RESET)
#define SET(field, value) (word = ATONC_PUT(word, ATONC_ACTIV_##field, value))
#define STORE(reg) atonc_write(unit, ATONC_ACTIV_##reg, word)

#define SEGMENTS 256u /* register of the first segment number */
#define SEGMENT_ROWS 32u
#define COEFFICIENTS 512u
#define COEFFICIENT_ROWS 64u
#define COEFFICIENT_BYTES 6u

static void write_control(unsigned unit, const LL_Activacc_InitTypeDef *c) {
    uint32_t word;
    START(CTRL);
    SET(CTRL_TYPE, c->operation - ACTIV_RELU);
    SET(CTRL_FBYTES, c->inbytes_f);
    SET(CTRL_FSHIFT, c->shift_f + 16);
    SET(CTRL_FROUND, c->rounding_f);
    SET(CTRL_FSAT, c->saturation_f);
    SET(CTRL_FRNDMODE, c->round_mode_f);
    SET(CTRL_FOBYTES, c->outbytes_f);
    SET(CTRL_ROUND, c->rounding_o);
    SET(CTRL_SAT, c->saturation_o);
    SET(CTRL_OBYTES, c->outbytes_o);
    SET(CTRL_ORNDMODE, c->relu_mode_o << 1 | c->round_mode_o);
    STORE(CTRL);
    if (c->fsub != 0) {
        START(FSUB);
        SET(FSUB_FSUB, c->fsub);
        STORE(FSUB);
    }
}

static void write_relu(unsigned unit, const LL_Activacc_InitTypeDef *c) {
    uint32_t word;
    START(ACTIVPARAM);
    SET(ACTIVPARAM_PARAM, c->parameter);
    STORE(ACTIVPARAM);
    START(ACTIVPARAM2);
    SET(ACTIVPARAM2_PARAM2, c->parameter_2);
    STORE(ACTIVPARAM2);
    START(FUNC);
    SET(FUNC_SIGNEDOP, c->signedop);
    SET(FUNC_OUTSHIFT, c->shift_o);
    STORE(FUNC);
}

static void write_function(unsigned unit, const LL_Activacc_InitTypeDef *c, unsigned segments, unsigned rows) {
    uint32_t word;
    START(FUNC);
    SET(FUNC_SIGNEDOP, c->signedop);
    SET(FUNC_OUTSHIFT, c->shift_o);
    SET(FUNC_BSHIFT, c->shift_b);
    SET(FUNC_CSHIFT, c->shift_c);
    SET(FUNC_BWIDTH, c->bwidth);
    STORE(FUNC);
    START(ACTIVPARAM);
    SET(ACTIVPARAM_PARAM, c->parameter);
    SET(ACTIVPARAM_FUNC, c->shift_norm);
    STORE(ACTIVPARAM);
    for (unsigned i = 0; i < segments; i++) {
        atonc_write(unit, SEGMENTS + i, c->ROM0_vector.p[i]);
    }
    for (unsigned i = 0; i < rows; i++) {
        const unsigned char *row = c->ROM1_vector.p + COEFFICIENT_BYTES * i;
        uint32_t first = (uint32_t)row[0] | (uint32_t)row[1] << 8 | (uint32_t)row[2] << 16 | (uint32_t)row[3] << 24;
        atonc_write(unit, COEFFICIENTS + 2u * i, first);
        atonc_write(unit, COEFFICIENTS + 2u * i + 1u, (uint32_t)row[4] | (uint32_t)row[5] << 8);
    }
}

int LL_Activacc_Init(int id, const LL_Activacc_InitTypeDef *conf) {
    if (!atonc_has_unit(id, ATONC_ACTIV_NUM)) {
        return atonc_refuse(LL_ATON_INVALID_ID);
    }
    unsigned segments = conf->ROM0_nbytes, rows = conf->ROM1_nbytes / COEFFICIENT_BYTES;
    bool is_function = conf->operation == ACTIV_FUNC;
    bool known = conf->operation >= ACTIV_RELU && conf->operation <= ACTIV_FUNC; /* there is no table of values */
    bool fits = segments <= SEGMENT_ROWS && rows <= COEFFICIENT_ROWS && (segments == 0 || conf->ROM0_vector.p != NULL) &&
                (rows == 0 || conf->ROM1_vector.p != NULL);
    if (!known || (is_function && !fits)) {
        return atonc_refuse(LL_ATON_INVALID_PARAM);
    }
    unsigned unit = ATONC_ACTIV0 + (unsigned)id;
    atonc_clock(ATONC_CLOCK_ACTIV0 + (unsigned)id, true);
    write_control(unit, conf);
    if (is_function) {
        write_function(unit, conf, segments, rows);
    } else {
        write_relu(unit, conf);
    }
    return LL_ATON_OK;
}

#endif
