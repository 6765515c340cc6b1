/* SPDX-License-Identifier: Apache-2.0
 * Driver of the pooling units.
 */
#include "atonc_internal.h"
#include "ll_aton.h"

#ifndef ATONC_EC_ONLY

#define START(reg) (word = ATONC_POOL_##reg##_RESET)
#define SET(field, value) (word = ATONC_PUT(word, ATONC_POOL_##field, value))
#define STORE(reg) atonc_write(unit, ATONC_POOL_##reg, word)

static uint32_t operation_code(LL_Poolacc_Op operation) {
    return operation <= POOL_AVG ? (uint32_t)operation - 1u : (uint32_t)operation + 4u; /* global ones: 8, 9, 10 */
}

static void write_arithmetic(unsigned unit, const LL_Poolacc_InitTypeDef *c) {
    uint32_t word;
    START(CTRL);
    SET(CTRL_TYPE, operation_code(c->operation));
    SET(CTRL_ROUND, c->rounding_o);
    SET(CTRL_SAT, c->saturation_o);
    SET(CTRL_OUTSHIFT, c->shift_o);
    SET(CTRL_FBYTES, c->inbytes_f);
    SET(CTRL_FSHIFT, c->shift_f + 16);
    SET(CTRL_FROUND, c->rounding_f);
    SET(CTRL_FSAT, c->saturation_f);
    SET(CTRL_DUALLINE, c->dualLine);
    SET(CTRL_CROPEN, 1);
    STORE(CTRL);
    START(RNDCTRL);
    SET(RNDCTRL_FOBYTES, c->outbytes_f);
    SET(RNDCTRL_FRNDMODE, c->round_mode_f);
    SET(RNDCTRL_OBYTES, c->outbytes_o);
    SET(RNDCTRL_ORNDMODE, c->relu_mode_o << 1 | c->round_mode_o);
    STORE(RNDCTRL);
}

static void write_geometry(unsigned unit, const LL_Poolacc_InitTypeDef *c) {
    unsigned size = c->batchSize;
    uint32_t word;
    START(PDIMS);
    SET(PDIMS_WINX, c->poolWinX);
    SET(PDIMS_WINY, c->poolWinY);
    SET(PDIMS_STRDX, c->strideX);
    SET(PDIMS_STRDY, c->strideY);
    SET(PDIMS_TPAD, c->topPad);
    SET(PDIMS_BPAD, c->bottomPad);
    SET(PDIMS_LPAD, c->leftPad);
    SET(PDIMS_RPAD, c->rightPad);
    SET(PDIMS_BSIZE, size);
    STORE(PDIMS);
    START(FDIMS);
    SET(FDIMS_FEATX, c->inputX * size);
    SET(FDIMS_FEATY, c->inputY);
    STORE(FDIMS);
    START(OUTDIMS);
    SET(OUTDIMS_FEATX, c->outputX);
    SET(OUTDIMS_FEATY, c->outputY);
    STORE(OUTDIMS);
    START(MULVAL);
    SET(MULVAL_MULVAL, c->mulval);
    STORE(MULVAL);
    START(XCROP);
    SET(XCROP_LCROP, c->leftCrop * size);
    SET(XCROP_RCROP, size == 0 ? 0 : c->rightCrop * size + size - 1u);
    STORE(XCROP);
    START(YCROP);
    SET(YCROP_TCROP, c->topCrop);
    SET(YCROP_BCROP, c->bottomCrop);
    STORE(YCROP);
}

int LL_Poolacc_Init(int id, const LL_Poolacc_InitTypeDef *conf) {
    if (!atonc_has_unit(id, ATONC_POOL_NUM)) {
        return atonc_refuse(LL_ATON_INVALID_ID);
    }
    if (conf->operation < POOL_MAX || conf->operation > POOL_GAVG) {
        return atonc_refuse(LL_ATON_INVALID_PARAM);
    }
    unsigned unit = ATONC_POOL0 + (unsigned)id;
    atonc_clock(ATONC_CLOCK_POOL0 + (unsigned)id, true);
    write_arithmetic(unit, conf);
    write_geometry(unit, conf);
    return LL_ATON_OK;
}

#endif
