/* SPDX-License-Identifier: Apache-2.0
 * Driver of the convolution units.
 */
#include "atonc_internal.h"
#include "ll_aton.h"

#ifndef ATONC_EC_ONLY

#include "atonc_units.h"

#define START(reg) (word = ATONC_CONVACC_##reg##_RESET)
#define SET(field, value) (word = ATONC_PUT(word, ATONC_CONVACC_##field, value))
#define STORE(reg) atonc_write(unit, ATONC_CONVACC_##reg, word)

#define MAX_WINDOW_PADDING 2u

/* The unit is enabled with its whole control word, so the word is kept. */
uint32_t atonc_convacc_control[ATONC_CONVACC_NUM];

static uint32_t control_word(const LL_Convacc_InitTypeDef *c) {
    uint32_t word;
    START(CTRL);
    SET(CTRL_NOSUM, !c->accumulate);
    SET(CTRL_NO1SUM, !c->accumulate_first);
    SET(CTRL_GEN1SUM, c->accumulate_gen_first);
    SET(CTRL_AFILTMODE, c->afilt_mode);
    SET(CTRL_SIMD, c->simd);
    SET(CTRL_KT1, c->kt1_mode);
    SET(CTRL_KSETEN, c->kseten);
    SET(CTRL_FUNSIGNED, c->f_unsigned);
    SET(CTRL_KUNSIGNED, c->k_unsigned);
    SET(CTRL_FSTAT, c->fstat);
    SET(CTRL_DEEPMODE, c->deepmode);
    SET(CTRL_DSS2MODE, c->dss2mode);
    return word;
}

static void write_filters(unsigned unit, const LL_Convacc_InitTypeDef *c) {
    uint32_t word;
    if (c->afilt_mode != AFILT_MODE_NONE) {
        START(AFILT);
        SET(AFILT_TOT, c->afilt_tot);
        SET(AFILT_FIRST, c->afilt_first);
        SET(AFILT_LAST, c->afilt_last);
        STORE(AFILT);
    }
    if (c->kfilt_tot > 0) {
        START(KFILT);
        SET(KFILT_TOT, c->kfilt_tot);
        SET(KFILT_FIRST, c->kfilt_first);
        SET(KFILT_LAST, c->kfilt_last);
        STORE(KFILT);
    } else if (ATONC_LL_WRITES_KFILT) {
        START(KFILT);
        STORE(KFILT);
    }
}

static void write_formats(unsigned unit, const LL_Convacc_InitTypeDef *c) {
    uint32_t word;
    START(DFORMAT);
    SET(DFORMAT_FROUND, c->rounding_f);
    SET(DFORMAT_FSAT, c->saturation_f);
    SET(DFORMAT_FRNDMODE, c->round_mode_f);
    SET(DFORMAT_FBYTES, c->inbytes_f);
    SET(DFORMAT_FSHIFT, c->shift_f + 16);
    SET(DFORMAT_ROUND, c->rounding_o);
    SET(DFORMAT_SAT, c->saturation_o);
    SET(DFORMAT_ORNDMODE, c->relu_mode_o << 1 | c->round_mode_o);
    SET(DFORMAT_OBYTES, c->outbytes_o);
    SET(DFORMAT_OUTSHIFT, c->shift_o);
    SET(DFORMAT_RAW, c->raw_o);
    SET(DFORMAT_INSHIFT, c->shift_a);
    STORE(DFORMAT);
    START(FFORMAT);
    SET(FFORMAT_WIDTH, c->fWidth * c->batchDepth);
    SET(FFORMAT_HEIGHT, c->fHeight);
    STORE(FFORMAT);
    START(KFORMAT);
    SET(KFORMAT_WIDTH, c->kernelWidth);
    SET(KFORMAT_HEIGHT, c->kernelHeight);
    SET(KFORMAT_BTCDEPTH, c->batchDepth);
    SET(KFORMAT_NR, c->nKernels);
    STORE(KFORMAT);
}

/* What the window pads of a side; the rest is padded by a frame of zeros around the feature. */
static unsigned in_window(const LL_Convacc_InitTypeDef *c, unsigned padding, unsigned kernel) {
    unsigned limit = kernel < MAX_WINDOW_PADDING + 1u ? kernel - 1u : MAX_WINDOW_PADDING;
    bool none = c->deepmode || c->dss2mode || c->zfbias != 0 || kernel == 0;
    return none ? 0 : padding < limit ? padding : limit;
}

static void write_padding(unsigned unit, const LL_Convacc_InitTypeDef *c) {
    unsigned left = in_window(c, c->left_padding, c->kernelWidth);
    unsigned right = in_window(c, c->right_padding, c->kernelWidth);
    unsigned top = in_window(c, c->top_padding, c->kernelHeight);
    unsigned bottom = in_window(c, c->bot_padding, c->kernelHeight);
    uint32_t word;
    START(ZFRAME);
    SET(ZFRAME_TOP, c->top_padding - top);
    SET(ZFRAME_BOTTOM, c->bot_padding - bottom);
    SET(ZFRAME_LEFT, (c->left_padding - left) * c->batchDepth);
    SET(ZFRAME_RIGHT, (c->right_padding - right) * c->batchDepth);
    STORE(ZFRAME);
    START(SAMPLE);
    SET(SAMPLE_TPAD, top);
    SET(SAMPLE_BPAD, bottom);
    SET(SAMPLE_LPAD, left);
    SET(SAMPLE_RPAD, right);
    SET(SAMPLE_HSTRD, c->hstride);
    SET(SAMPLE_VSTRD, c->vstride);
    if (c->fstat) {
        SET(SAMPLE_FSTATCNT, c->fstatcnt);
    }
    STORE(SAMPLE);
}

static void write_crop(unsigned unit, const LL_Convacc_InitTypeDef *c) {
    unsigned depth = c->batchDepth;
    uint32_t word;
    START(FHCROP);
    if (c->left_crop > 0) {
        SET(FHCROP_LEFT, c->left_crop * depth);
    }
    if (c->right_crop > 0) {
        SET(FHCROP_RIGHT, c->right_crop * depth + depth - 1u);
    }
    STORE(FHCROP);
    START(FVCROP);
    if (c->top_crop > 0) {
        SET(FVCROP_TOP, c->top_crop);
    }
    if (c->bot_crop > 0) {
        SET(FVCROP_BOTTOM, c->bot_crop);
    }
    STORE(FVCROP);
}

int LL_Convacc_Init(int id, const LL_Convacc_InitTypeDef *conf) {
    if (!atonc_has_unit(id, ATONC_CONVACC_NUM)) {
        return atonc_refuse(LL_ATON_INVALID_ID);
    }
    if (conf->fstat + conf->deepmode + conf->dss2mode > 1) {
        return atonc_refuse(LL_ATON_INVALID_PARAM);
    }
    unsigned unit = ATONC_CONVACC0 + (unsigned)id;
    uint32_t word = control_word(conf);
    atonc_clock(ATONC_CLOCK_CONVACC0 + (unsigned)id, true);
    atonc_convacc_control[id] = word;
    STORE(CTRL);
    write_filters(unit, conf);
    write_formats(unit, conf);
    write_padding(unit, conf);
    write_crop(unit, conf);
    if (conf->fsub != 0) {
        START(FSUB);
        SET(FSUB_FSUB, conf->fsub);
        STORE(FSUB);
    }
    START(ZFBIAS);
    SET(ZFBIAS_ZFBIAS, conf->zfbias);
    STORE(ZFBIAS);
    return LL_ATON_OK;
}

#endif
