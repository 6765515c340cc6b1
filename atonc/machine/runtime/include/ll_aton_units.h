/* SPDX-License-Identifier: Apache-2.0
 * Units that compute: one struct and one call for each kind. Part of ll_aton.h.
 */
#ifndef LL_ATON_UNITS_H
#define LL_ATON_UNITS_H

#include <stdint.h>

#include "ll_aton_version.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An address in a constant initialiser. */
typedef union {
    unsigned char *p;
    uintptr_t i;
} ll_aton_pointer;

/* ---- activation units ---- */

typedef enum { ACTIV_RELU = 1, ACTIV_PRELU, ACTIV_TRELU, ACTIV_FUNC, ACTIV_LUT } LL_Activacc_Op;

typedef struct {
    /* input shifter (f), output (o) */
    unsigned int rounding_f : 1;
    unsigned int saturation_f : 1;
    unsigned int round_mode_f : 2;
    unsigned int inbytes_f : 2;
    unsigned int outbytes_f : 2;
    unsigned int rounding_o : 1;
    unsigned int saturation_o : 1;
    unsigned int round_mode_o : 1;
    unsigned int relu_mode_o : 1;
    unsigned int outbytes_o : 2;
    unsigned int signedop : 1;
    unsigned char shift_f;
    unsigned char shift_o;
    unsigned int parameter;
    unsigned int parameter_2;
    unsigned int nbytes;
    /* function tables: ROM0 picks a segment, ROM1 holds three coefficients for each */
    ll_aton_pointer ROM0_vector;
    ll_aton_pointer ROM1_vector;
    ll_aton_pointer LUT_vector;
    unsigned int ROM0_nbytes;
    unsigned int ROM1_nbytes;
    unsigned char shift_b;
    unsigned char shift_c;
    unsigned char shift_norm;
    unsigned char bwidth;
    int fsub;
    LL_Activacc_Op operation;
} LL_Activacc_InitTypeDef;

int LL_Activacc_Init(int id, const LL_Activacc_InitTypeDef *conf);

/* ---- arithmetic units ---- */

typedef enum {
    ARITH_AFFINE = 1,
    ARITH_MIN,
    ARITH_MAX,
    ARITH_MUL,
    ARITH_X_AND_Y,
    ARITH_X_OR_Y,
    ARITH_NOT_X,
    ARITH_X_XOR_Y,
    ARITH_X_EQ_Y,
    ARITH_X_LT_Y,
    ARITH_X_LE_Y,
    ARITH_X_GT_Y,
    ARITH_X_GE_Y,
    ARITH_ABS_X,
    ARITH_SIGN_X,
    ARITH_CLIP
} LL_Arithacc_Op;

typedef enum {
    ARITH_BCAST_NONE,
    ARITH_BCAST_CHAN,
    ARITH_BCAST_HEIGHT,
    ARITH_BCAST_WIDTH,
    ARITH_BCAST_HEIGHT_WIDTH,
    ARITH_BCAST_SCALAR,
} LL_Arithacc_Bcast;

/* A x + B y + C and relatives. */
typedef struct {
    unsigned int rounding_x : 1;
    unsigned int saturation_x : 1;
    unsigned int round_mode_x : 2;
    unsigned int inbytes_x : 2;
    unsigned int outbytes_x : 2;
    signed char shift_x;
    unsigned int rounding_y : 1;
    unsigned int saturation_y : 1;
    unsigned int round_mode_y : 2;
    unsigned int inbytes_y : 2;
    unsigned int outbytes_y : 2;
    unsigned int combinebc : 1; /* B and C together are one 32-bit addend */
    unsigned int clipout : 1;
    signed char shift_y;
    unsigned int rounding_o : 1;
    unsigned int saturation_o : 1;
    unsigned int round_mode_o : 1;
    unsigned int relu_mode_o : 1;
    unsigned int outbytes_o : 2;
    unsigned int shift_o;
    unsigned int scalar : 1; /* otherwise coefficients come from the vectors */
    unsigned int dualinput : 1;
    LL_Arithacc_Op operation;
    LL_Arithacc_Bcast bcast;
    unsigned char Ax_shift;
    unsigned char By_shift;
    unsigned char C_shift;
    unsigned int fWidth;
    unsigned int fHeight;
    unsigned short fChannels;
    unsigned short batchDepth;
    short clipmin;
    short clipmax;
    short A_scalar;
    short B_scalar;
    short C_scalar;
    ll_aton_pointer A_vector;
    ll_aton_pointer B_vector;
    ll_aton_pointer C_vector;
    unsigned char vec_precision[3]; /* bits per element of A, B, C */
} LL_Arithacc_InitTypeDef;

int LL_Arithacc_Init(int id, const LL_Arithacc_InitTypeDef *conf);
/* Releases before 1.1.3 split C into B and C for `combinebc` also where C is no vector. A network that is compiled for
 * one of them gets that meaning, whatever the others in the firmware were made for. */
int LL_Arithacc_Init_1_1_0(int id, const LL_Arithacc_InitTypeDef *conf);
#if LL_ATON_VERSION_MICRO < 3 && !defined(ATONC_BUILDS_ARITH_DRIVER)
#define LL_Arithacc_Init LL_Arithacc_Init_1_1_0
#endif

/* ---- convolution units ---- */

typedef enum {
    AFILT_MODE_NONE = 0,
    AFILT_MODE_PIXELDROP = 1,
    AFILT_MODE_FRAMEDROP = 2,
    AFILT_MODE_FRAMEZERO = 3
} LL_Convacc_Afilt_Mode;

typedef struct {
    unsigned int rounding_f : 1;
    unsigned int saturation_f : 1;
    unsigned int round_mode_f : 2;
    unsigned int inbytes_f : 2;
    unsigned int rounding_o : 1;
    unsigned int saturation_o : 1;
    unsigned int round_mode_o : 1;
    unsigned int relu_mode_o : 1;
    unsigned int outbytes_o : 2;
    unsigned int simd : 2;
    unsigned int accumulate : 1;
    unsigned int accumulate_first : 1;
    unsigned int accumulate_gen_first : 1;
    unsigned int fstat : 1;
    unsigned int raw_o : 1;
    unsigned int kt1_mode : 1;
    unsigned int deepmode : 1;
    unsigned int dss2mode : 1;
    unsigned int f_unsigned : 1;
    unsigned int k_unsigned : 1;
    unsigned int kseten : 2;
    unsigned char shift_f;
    unsigned char shift_a;
    unsigned char shift_o;
    unsigned int fWidth;
    unsigned int fHeight;
    unsigned char kernelWidth;
    unsigned char kernelHeight;
    unsigned char nKernels;
    unsigned short batchDepth;
    unsigned char hstride;
    unsigned char vstride;
    unsigned short left_padding;
    unsigned short right_padding;
    unsigned short top_padding;
    unsigned short bot_padding;
    unsigned short left_crop;
    unsigned short right_crop;
    unsigned short top_crop;
    unsigned short bot_crop;
    unsigned short fstatcnt;
    LL_Convacc_Afilt_Mode afilt_mode;
    unsigned char afilt_tot;
    unsigned char afilt_first;
    unsigned char afilt_last;
    unsigned char kfilt_tot;
    unsigned char kfilt_first;
    unsigned char kfilt_last;
    int fsub;
    unsigned int vshift : 2;
    short zfbias;
} LL_Convacc_InitTypeDef;

int LL_Convacc_Init(int id, const LL_Convacc_InitTypeDef *conf);

/* ---- pooling units ---- */

typedef enum { POOL_MAX = 1, POOL_MIN, POOL_AVG, POOL_GMAX, POOL_GMIN, POOL_GAVG } LL_Poolacc_Op;

typedef struct {
    LL_Poolacc_Op operation;
    unsigned int avgnopad : 1;
    unsigned short inputX;
    unsigned short inputY;
    unsigned short outputX;
    unsigned short outputY;
    unsigned char poolWinX;
    unsigned char poolWinY;
    unsigned char strideX;
    unsigned char strideY;
    unsigned short topCrop;
    unsigned short bottomCrop;
    unsigned short leftCrop;
    unsigned short rightCrop;
    unsigned short topPad;
    unsigned short bottomPad;
    unsigned short leftPad;
    unsigned short rightPad;
    unsigned short batchSize;
    unsigned char shift_f;
    unsigned char shift_o;
    unsigned int dualLine : 1;
    unsigned int nbytes : 2;
    unsigned int rounding_f : 1;
    unsigned int saturation_f : 1;
    unsigned int round_mode_f : 2;
    unsigned int inbytes_f : 2;
    unsigned int outbytes_f : 2;
    unsigned int rounding_o : 1;
    unsigned int saturation_o : 1;
    unsigned int round_mode_o : 1;
    unsigned int relu_mode_o : 1;
    unsigned int outbytes_o : 2;
    short mulval;
    unsigned int pad_val_en : 1;
    short pad_val;
} LL_Poolacc_InitTypeDef;

int LL_Poolacc_Init(int id, const LL_Poolacc_InitTypeDef *conf);

/* ---- decompression units ---- */

typedef struct {
    unsigned short nCVperCB;
    unsigned char nCWperCV;
    unsigned char nRCWlastCV;
    unsigned char nFormatBytes;
    unsigned short nBatches;
    unsigned int noDualInput : 1;
    unsigned int noOverWrite : 1;
    ll_aton_pointer CBs_vector;
    unsigned int CBs_size;
} LL_Decun_InitTypeDef;

int LL_Decun_Init(int id, const LL_Decun_InitTypeDef *conf);

#ifdef __cplusplus
}
#endif

#endif
