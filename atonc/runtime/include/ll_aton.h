/* SPDX-License-Identifier: Apache-2.0
 * Drivers of the NPU's units: a struct describes what a unit shall do, a call writes its registers.
 *
 * Members that a network leaves out are 0. The meaning of each member is the meaning of the register field that it
 * goes to; the drivers in src/ show which.
 */
#ifndef LL_ATON_H
#define LL_ATON_H

#include <stddef.h>
#include <stdint.h>

#include "ll_aton_attributes.h"
#include "ll_aton_config.h"
#include "ll_aton_osal.h"
#include "ll_aton_platform.h"
#include "ll_aton_util.h"
#include "ll_aton_version.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LL_ATON_OK (0)
#define LL_ATON_INVALID_ID (-1)
#define LL_ATON_INVALID_PARAM (-2)
#define LL_ATON_TIMEOUT (-3)

/* An address in a constant initialiser. */
typedef union {
    unsigned char *p;
    uintptr_t i;
} ll_aton_pointer;

static inline unsigned char *LL_Address_Physical2Virtual(unsigned char *address) {
    return ATON_LIB_PHYSICAL_TO_VIRTUAL_ADDR(address);
}
static inline unsigned char *LL_Address_Virtual2Physical(unsigned char *address) {
    return ATON_LIB_VIRTUAL_TO_PHYSICAL_ADDR(address);
}

/* ---- the NPU ---- */

int LL_ATON_Init(void);
int LL_ATON_DeInit(void);
void LL_ATON_EnableClock(unsigned int clock);
void LL_ATON_DisableClock(unsigned int clock);

enum AccelUnitsType { STRENG = 0, STRENG64, CONVACC, DECUN, ACTIV, ARITH, POOL, IMC, RECBUF };

typedef struct {
    enum AccelUnitsType unit_type;
    unsigned short unit_num;
} AccelUnits;

typedef struct {
    AccelUnits unit;
} LL_ATON_EnableUnits_InitTypeDef;
typedef LL_ATON_EnableUnits_InitTypeDef LL_ATON_DisableUnits_InitTypeDef;

int LL_ATON_EnableUnits_Init(const LL_ATON_EnableUnits_InitTypeDef *units, int n);
int LL_ATON_DisableUnits_Init(const LL_ATON_DisableUnits_InitTypeDef *units, int n);

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

/* ---- stream engines ---- */

typedef struct {
    unsigned int dir : 1; /* 0: memory to stream, 1: stream to memory */
    unsigned int raw : 1; /* elements in a row; otherwise frames of lines of pixels */
    unsigned int raw_out : 1;
    unsigned int continuous : 1;
    unsigned int noblk : 1;
    unsigned int noinc : 1;
    unsigned int align_right : 1;
    unsigned int mem_lsb : 1;
    unsigned int sync_with_other : 1;
    unsigned int nbits_unsigned : 1;
    unsigned int bus_cid : 3;
    unsigned int cacheable : 1;
    unsigned int cache_allocate : 1;
    unsigned int bus_pfetch : 1;
    unsigned int cache_linesize : 2;
    unsigned int cipher_en : 1;
    unsigned int key_sel : 1;
    unsigned char sync_dma;
    ll_aton_pointer addr_base;
    unsigned int offset_start;
    unsigned int offset_end;
    unsigned int offset_limit;
    unsigned int frame_count;
    unsigned int fwidth;
    unsigned int fheight;
    unsigned int batch_depth;
    unsigned int batch_offset;
    unsigned int frame_offset;
    unsigned int line_offset;
    unsigned int loop_offset;
    unsigned int frame_loop_cnt;
    unsigned int loop_offset2;
    unsigned int frame_loop_cnt2;
    unsigned int frame_tot_cnt;
    unsigned char nbits_in;
    unsigned char nbits_out;
} LL_Streng_TensorInitTypeDef;

static inline unsigned char *LL_Streng_addr_start(const LL_Streng_TensorInitTypeDef *conf) {
    return conf->addr_base.p + conf->offset_start;
}
static inline unsigned char *LL_Streng_addr_end(const LL_Streng_TensorInitTypeDef *conf) {
    return conf->addr_base.p + conf->offset_end;
}
static inline unsigned char *LL_Streng_addr_limit(const LL_Streng_TensorInitTypeDef *conf) {
    return conf->addr_base.p + conf->offset_limit;
}
static inline uint32_t LL_Streng_len(const LL_Streng_TensorInitTypeDef *conf) {
    return conf->offset_end - conf->offset_start;
}

/* `n` is the number of structs; 1 is the only form that networks use. */
int LL_Streng_TensorInit(int id, const LL_Streng_TensorInitTypeDef *conf, int n);
/* Waits until none of these engines runs. */
int LL_Streng_Wait(uint32_t mask);

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

/* ---- stream switch ---- */

/* Ports are numbers of the switch: a source is an output of a unit, a destination the register of an input. */
typedef unsigned int SourcePort;
typedef unsigned int DestPort;
#define ATONC_SOURCE_OF_STRENG(i, p) (ATONC_SOURCE_STRENG0 + (i))
#define ATONC_SOURCE_OF_CONVACC(i, p) (ATONC_SOURCE_CONVACC0 + (i))
#define ATONC_SOURCE_OF_DECUN(i, p) (ATONC_SOURCE_DECUN0 + (i))
#define ATONC_SOURCE_OF_ACTIV(i, p) (ATONC_SOURCE_ACTIV0 + (i))
#define ATONC_SOURCE_OF_ARITH(i, p) (ATONC_SOURCE_ARITH0 + (i))
#define ATONC_SOURCE_OF_POOL(i, p) (ATONC_SOURCE_POOL0 + (i))
#define ATONC_SOURCE_OF_RECBUF(i, p) (ATONC_SOURCE_RECBUF00 + (p))
#define ATONN_SRCPORT(S, J, U, I, P) ATONC_SOURCE_OF_##U(I, P)
#define ATONN_DSTPORT(S, J, U, I, P) ATONC_PORT_##U##I##_##P
#define ATONN_SRCPORT_ID(S) (S)
#define ATONN_DSTPORT_ID(D) (D)

#define ATON_SWITCH_CONTEXT_NUM 2
#define LL_Switch_Init_Dest() .dest
#define LL_Switch_Init_Source(x) .source##x
#define LL_Switch_Init_Context(x) .context##x
#define LL_Switch_Init_Frames(x) .frames##x

/* One link: in context 0 from source0 for frames0 frames, then in context 1 likewise. */
typedef struct {
    SourcePort source0;
    SourcePort source1;
    DestPort dest;
    unsigned char frames0;
    unsigned char frames1;
    unsigned int context0 : 1;
    unsigned int context1 : 1;
} LL_Switch_InitTypeDef;
typedef LL_Switch_InitTypeDef LL_Switch_DeinitTypeDef;

int LL_Switch_Init(const LL_Switch_InitTypeDef *links, int n);
int LL_Switch_Init_NoReset(const LL_Switch_InitTypeDef *links, int n);
int LL_Switch_Deinit(const LL_Switch_DeinitTypeDef *links, int n);
int LL_Switch_Deinit_Fine_Grained(const LL_Switch_DeinitTypeDef *links, int n);

/* ---- epoch controller, bus interfaces, watchdog ---- */

typedef struct {
    uint32_t blobaddr; /* aligned to 8 bytes */
    unsigned int stepmode : 1;
} LL_EpochCtrl_InitTypeDef;

int LL_EpochCtrl_Init(int id, const LL_EpochCtrl_InitTypeDef *conf);
int LL_EpochCtrl_Step(int id);
int LL_EpochCtrl_Wait(uint32_t mask);
unsigned int LL_EpochCtrl_GetBlobSize(uint32_t *eb_addr);

int LL_Busif_SetKeys(int id, int key, uint64_t key_low, uint64_t key_hi);

/* Weak. Called around each wait for the NPU; a result other than 0 of the second ends it as timed out. */
int startWatchdog(uint32_t timeout);
int checkWatchdog(void);

#ifdef __cplusplus
}
#endif

#endif
