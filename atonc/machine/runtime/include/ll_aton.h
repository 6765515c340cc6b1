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
#include "ll_aton_units.h"
#include "ll_aton_util.h"
#include "ll_aton_version.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LL_ATON_OK (0)
#define LL_ATON_INVALID_ID (-1)
#define LL_ATON_INVALID_PARAM (-2)
#define LL_ATON_TIMEOUT (-3)

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
