/* SPDX-License-Identifier: Apache-2.0
 * Relocatable networks: images that an application loads at run time (docs/reloc.md).
 *
 * Names, types and results are those of ST's loader, for images of the runtime releases 1.1.1 to 1.1.3, ST's or ours.
 * Build the runtime and the application with LL_ATON_RT_RELOC. What this loader adds is at the end.
 */
#ifndef LL_ATON_RELOC_NETWORK_H
#define LL_ATON_RELOC_NETWORK_H

#include <stddef.h>
#include <stdint.h>

#include "ll_aton_NN_interface.h"
#include "ll_aton_lib.h"

#if !defined(LL_ATON_RT_RELOC)
#error "relocatable networks need LL_ATON_RT_RELOC, in the runtime and in the application"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- image format ---- */

#define AI_RELOC_MAGIC 0x4E49424EUL /* "NBIN" */
#define AI_RELOC_RT_VERSION_MAJOR 8
#define AI_RELOC_RT_VERSION_MINOR 0

/* Second word of an image. */
#define AI_RELOC_RT_GET_MAJOR(flags) ((int)((flags) >> 28 & 0xF))
#define AI_RELOC_RT_GET_MINOR(flags) ((int)((flags) >> 24 & 0xF))
#define AI_RELOC_RT_GET_EXTRA(flags) ((flags) >> 20 & 0xF)
#define AI_RELOC_RT_GET_VARIANT(flags) ((flags)&0xFFFFF)
#define AI_RELOC_RT_SECURE(flags) ((flags) >> 20 & 1)
#define AI_RELOC_RT_DBG_INFO(flags) ((flags) >> 21 & 1)
#define AI_RELOC_RT_ASYNC_MODE(flags) ((flags) >> 22 & 1)
#define AI_RELOC_RT_GET_COMPILER(flags) ((flags) >> 16 & 0xF)
#define AI_RELOC_RT_GET_FPEABI(flags) ((flags) >> 13 & 0x3)
#define AI_RELOC_RT_FPU_USED(flags) ((flags) >> 12 & 1)
#define AI_RELOC_RT_GET_CPUID(flags) ((flags)&0xFFF)

#define AI_RELOC_ARM_CORTEX_M33 0xD21UL
#define AI_RELOC_ARM_CORTEX_M55 0xD22UL
#define AI_RELOC_TOOLCHAIN_GCC_EMBEDDED 0x8UL
#define AI_RELOC_TOOLCHAIN_CLANG_EMBEDDED 0x9UL
#define AI_RELOC_TOOLCHAIN_ST_CLANG_EMBEDDED 0xAUL
#define AI_RELOC_TOOLCHAIN_FP_ABI_SOFT 0x0UL
#define AI_RELOC_TOOLCHAIN_FP_ABI_SOFTFP 0x1UL
#define AI_RELOC_TOOLCHAIN_FP_ABI_HARD 0x2UL

/* Memory pools: flags are type, data, attributes and number, a byte each. */
#define AI_RELOC_MPOOL_TYPE_RELOC 1
#define AI_RELOC_MPOOL_TYPE_COPY 2
#define AI_RELOC_MPOOL_TYPE_RESET 3
#define AI_RELOC_MPOOL_DTYPE_PARAM 1
#define AI_RELOC_MPOOL_DTYPE_ACTIV 2
#define AI_RELOC_MPOOL_DTYPE_MIXED 3
#define AI_RELOC_MPOOL_DATTR_READ 1
#define AI_RELOC_MPOOL_DATTR_WRITE 2
#define AI_RELOC_MPOOL_DATTR_CACHEABLE 4
#define AI_RELOC_MPOOL_GET_TYPE(flags) ((flags) >> 24 & 0xFF)
#define AI_RELOC_MPOOL_GET_DTYPE(flags) ((flags) >> 16 & 0xFF)
#define AI_RELOC_MPOOL_GET_ATTR(flags) ((flags) >> 8 & 0xFF)
#define AI_RELOC_MPOOL_GET_ID(flags) ((flags)&0xFF)
#define AI_RELOC_MPOOL_IS_RELOC(flags) (AI_RELOC_MPOOL_GET_TYPE(flags) == AI_RELOC_MPOOL_TYPE_RELOC)
#define AI_RELOC_MPOOL_IS_COPY(flags) (AI_RELOC_MPOOL_GET_TYPE(flags) == AI_RELOC_MPOOL_TYPE_COPY)
#define AI_RELOC_MPOOL_IS_RESET(flags) (AI_RELOC_MPOOL_GET_TYPE(flags) == AI_RELOC_MPOOL_TYPE_RESET)
#define AI_RELOC_MPOOL_IS_PARAM(flags) (AI_RELOC_MPOOL_GET_DTYPE(flags) == AI_RELOC_MPOOL_DTYPE_PARAM)
#define AI_RELOC_MPOOL_IS_ACTIV(flags) (AI_RELOC_MPOOL_GET_DTYPE(flags) == AI_RELOC_MPOOL_DTYPE_ACTIV)
#define AI_RELOC_MPOOL_IS_MIXED(flags) (AI_RELOC_MPOOL_GET_DTYPE(flags) == AI_RELOC_MPOOL_DTYPE_MIXED)
#define AI_RELOC_MPOOL_IS_READ(flags) (AI_RELOC_MPOOL_GET_ATTR(flags) & AI_RELOC_MPOOL_DATTR_READ)
#define AI_RELOC_MPOOL_IS_WRITE(flags) (AI_RELOC_MPOOL_GET_ATTR(flags) & AI_RELOC_MPOOL_DATTR_WRITE)
#define AI_RELOC_MPOOL_IS_CACHEABLE(flags) (AI_RELOC_MPOOL_GET_ATTR(flags) & AI_RELOC_MPOOL_DATTR_CACHEABLE)

typedef struct _ll_aton_reloc_mem_pool_desc {
    const char *name; /* as stored: the offset of a text in the image */
    uint32_t flags;
    uint32_t foff; /* of its contents, from the start of the parameters */
    uint32_t dst;  /* where it lies; 0 where the base is found at run time */
    uint32_t size;
} ll_aton_reloc_mem_pool_desc;

/* ---- what the application says and hears ---- */

#define AI_RELOC_RT_LOAD_MODE_XIP (1 << 0)   /* code stays in the image, data go to RAM */
#define AI_RELOC_RT_LOAD_MODE_COPY (1 << 1)  /* code goes to RAM too */
#define AI_RELOC_RT_LOAD_MODE_CLEAR (1 << 2) /* working memory is cleared */

#define AI_RELOC_RT_ERR_NONE 0
#define AI_RELOC_RT_ERR_INVALID_BIN (-1)   /* no image, a damaged one, or one for another machine or runtime */
#define AI_RELOC_RT_ERR_MEMORY (-2)        /* too little RAM for code and data, or at a bad address */
#define AI_RELOC_RT_ERR_NOT_SUPPORTED (-3) /* the image wants something that is not done here */
#define AI_RELOC_RT_ERR_ARG (-4)
#define AI_RELOC_RT_ERR_INVALID_HDL (-5) /* not an installed network */
#define AI_RELOC_RT_ERR_INSTALL (-6)
#define AI_RELOC_RT_ERR_PARAM_ADDR (-7) /* parameters or external RAM are missing, too short, or at a bad address */
#define AI_RELOC_RT_ERR_PARAM_DESC (-8) /* the table of memory pools is wrong */

typedef struct _ll_aton_reloc_info {
    const char *c_name;
    uint32_t variant;    /* the flags of the image */
    uint32_t code_sz;    /* bytes of code and constants */
    uint32_t params_off; /* 0: parameters are elsewhere */
    uint32_t params_sz;
    uint32_t acts_sz;
    uint32_t ext_ram_sz;  /* external RAM that the image wants */
    uint32_t rt_ram_xip;  /* RAM to install it, code in place */
    uint32_t rt_ram_copy; /* RAM to install it, code in RAM */
    const char *rt_version_desc;
    uint32_t rt_version;
    uint32_t rt_version_extra;
} ll_aton_reloc_info;

typedef struct _ll_aton_reloc_config {
    uintptr_t exec_ram_addr; /* RAM for data (and code), 8 bytes aligned; 32 are better */
    uint32_t exec_ram_size;
    uintptr_t ext_ram_addr; /* external RAM, 0 if the image wants none */
    size_t ext_ram_size;
    uintptr_t ext_param_addr; /* parameters of a split image, 0 otherwise */
    uint32_t mode;
} ll_aton_reloc_config;

int ll_aton_reloc_get_info(const uintptr_t file_ptr, ll_aton_reloc_info *rt);
void ll_aton_reloc_log_info(const uintptr_t file_ptr);
ll_aton_reloc_mem_pool_desc *ll_aton_reloc_get_mem_pool_desc(const uintptr_t file_ptr, int index);
int ll_aton_reloc_install(const uintptr_t file_ptr, const ll_aton_reloc_config *config,
                          NN_Instance_TypeDef *nn_instance);
int ll_aton_reloc_is_valid(const NN_Instance_TypeDef *nn_instance); /* 1, or an error */
int ll_aton_reloc_get_file_ptr(const NN_Instance_TypeDef *nn_instance, uintptr_t *file_ptr);

/* One buffer, or the whole list (`num` below 0), which ends with a name that is NULL. */
const LL_Buffer_InfoTypeDef *ll_aton_reloc_get_input_buffers_info(const NN_Instance_TypeDef *nn_instance, int32_t num);
const LL_Buffer_InfoTypeDef *ll_aton_reloc_get_output_buffers_info(const NN_Instance_TypeDef *nn_instance, int32_t num);
const LL_Buffer_InfoTypeDef *ll_aton_reloc_get_internal_buffers_info(const NN_Instance_TypeDef *nn_instance);
const LL_ATON_RT_EpochBlockItem_t *ll_aton_reloc_get_epoch_items(const NN_Instance_TypeDef *nn_instance);

LL_ATON_User_IO_Result_t ll_aton_reloc_set_input(const NN_Instance_TypeDef *nn_instance, uint32_t num, void *buffer,
                                                 uint32_t size);
LL_ATON_User_IO_Result_t ll_aton_reloc_set_output(const NN_Instance_TypeDef *nn_instance, uint32_t num, void *buffer,
                                                  uint32_t size);
void *ll_aton_reloc_get_input(const NN_Instance_TypeDef *nn_instance, uint32_t num);
void *ll_aton_reloc_get_output(const NN_Instance_TypeDef *nn_instance, uint32_t num);

/* The functions that images call. Releases differ in what follows the first seven; a table of the application's own has
 * the form of the image's release. */
struct ll_aton_reloc_callback {
    void (*assert_func)(const char *filename, int line, const char *assert_func, const char *expr);
    void (*ll_lib_error)(int err_code, int line, const char *func);
    void (*ll_aton_cache_mcu_clean_range)(uintptr_t virtual_addr, uint32_t size);
    void (*ll_aton_cache_mcu_invalidate_range)(uintptr_t virtual_addr, uint32_t size);
    void (*ll_aton_cache_mcu_clean_invalidate_range)(uintptr_t virtual_addr, uint32_t size);
    void (*ll_aton_cache_npu_clean_range)(uintptr_t virtual_addr, uint32_t size);
    void (*ll_aton_cache_npu_clean_invalidate_range)(uintptr_t virtual_addr, uint32_t size);
    void (*library[16])(void);
};
int ll_aton_reloc_set_callbacks(const NN_Instance_TypeDef *nn_instance, const struct ll_aton_reloc_callback *cbs);

/* ---- for the runtime ---- */

bool ai_rel_network_ec_network_init(uintptr_t inst);
bool ai_rel_network_ec_inference_init(uintptr_t inst);
LL_ATON_User_IO_Result_t ai_rel_network_set_input(uintptr_t inst, uint32_t num, void *buffer, uint32_t size);
void *ai_rel_network_get_input(uintptr_t inst, uint32_t num);
LL_ATON_User_IO_Result_t ai_rel_network_set_output(uintptr_t inst, uint32_t num, void *buffer, uint32_t size);
void *ai_rel_network_get_output(uintptr_t inst, uint32_t num);
const LL_ATON_RT_EpochBlockItem_t *ai_rel_network_get_epoch_items(uintptr_t inst);
const LL_Buffer_InfoTypeDef *ai_rel_network_get_output_buffers_info(uintptr_t inst);
const LL_Buffer_InfoTypeDef *ai_rel_network_get_input_buffers_info(uintptr_t inst);
const LL_Buffer_InfoTypeDef *ai_rel_network_get_internal_buffers_info(uintptr_t inst);
void ai_rel_call_start_end_function(uintptr_t inst, EpochBlock_FuncPtr_t fct,
                                    const LL_ATON_RT_EpochBlockItem_t *epoch_block,
                                    const NN_Instance_TypeDef *nn_instance);

/* ---- what this loader adds ---- */

#define ATONC_MODEL_HASH_BYTES 16

typedef enum {
    ATONC_RELOC_OK = 0,
    ATONC_RELOC_ADDRESS = 1,      /* of the image: NULL, not aligned, or nothing can be read there */
    ATONC_RELOC_MAGIC = 2,        /* no image there */
    ATONC_RELOC_FORMAT = 3,       /* another version of the format */
    ATONC_RELOC_CPU = 4,          /* for another processor */
    ATONC_RELOC_FPU = 5,          /* wants the FPU, which is off, or another float ABI */
    ATONC_RELOC_SECURE = 6,       /* for the other security state */
    ATONC_RELOC_BUILD = 7,        /* debug information or mode of the runtime differ from this build */
    ATONC_RELOC_SECTIONS = 8,     /* the header contradicts itself or the size of the memory */
    ATONC_RELOC_VERSION = 9,      /* for a runtime outside 1.1.1 to 1.1.3 */
    ATONC_RELOC_CALLBACKS = 10,   /* wants a table of functions that is not known here */
    ATONC_RELOC_STRUCTS = 11,     /* shared structs have other sizes */
    ATONC_RELOC_CODE_CRC = 12,    /* the code part is damaged */
    ATONC_RELOC_PARAMS_CRC = 13,  /* the parameters are damaged, or those of another model */
    ATONC_RELOC_MODEL = 14,       /* not the model that the application expects */
    ATONC_RELOC_POOLS = 15,       /* the table of memory pools is wrong */
    ATONC_RELOC_POOL_MEMORY = 16, /* a pool lies where this application lets nobody write */
    ATONC_RELOC_PARAMS = 17,      /* parameters are missing, too short or badly placed */
    ATONC_RELOC_EXEC_RAM = 18,    /* RAM for the image is missing, too small, badly aligned or over the image */
    ATONC_RELOC_EXT_RAM = 19,     /* the same for the external RAM */
    ATONC_RELOC_WORDS = 20,       /* a relocation points outside the image */
    ATONC_RELOC_ARGUMENT = 21
} atonc_reloc_reason_t;

/* Why the last call of ll_aton_reloc_install, ll_aton_reloc_get_info or atonc_reloc_check refused. */
atonc_reloc_reason_t atonc_reloc_reason(void);
const char *atonc_reloc_reason_name(atonc_reloc_reason_t reason);

/* All checks of an installation without writing anything: to choose between two slots, for instance. */
int atonc_reloc_check(uintptr_t file_ptr, const ll_aton_reloc_config *config);

/* Only this model may be installed from now on; NULL: any. The 16 bytes are those that `atonc reloc` prints. */
void atonc_reloc_expect_model(const uint8_t *hash);
/* The 16 bytes of an image, or NULL if it has none. */
const uint8_t *atonc_reloc_model_hash(uintptr_t file_ptr);

/* States of an installed network get their first values: where a sequence begins. 0, or an error: it keeps none. With a
 * loader of ST: ll_aton_reloc_set_input(nn_instance, ATONC_RELOC_RESET_STATES, NULL, 0). */
#define ATONC_RELOC_RESET_STATES 0xFFFFFFFFu
int atonc_reloc_reset_states(const NN_Instance_TypeDef *nn_instance);

/* Hooks of the application (weak). The loader reads nothing behind what the first one allows, and writes pools with a
 * fixed address only where the second one says yes. By default: the memories of the chip and external ones of these
 * sizes (STM32N6570-DK: RAM at 0x90000000, flash at 0x70000000); and RAM from ATONC_RELOC_POOLS_FROM on. */
#ifndef ATONC_RELOC_XSPI1_BYTES
#define ATONC_RELOC_XSPI1_BYTES (32UL << 20)
#endif
#ifndef ATONC_RELOC_XSPI2_BYTES
#define ATONC_RELOC_XSPI2_BYTES (128UL << 20)
#endif
#ifndef ATONC_RELOC_XSPI3_BYTES
#define ATONC_RELOC_XSPI3_BYTES 0UL
#endif
#ifndef ATONC_RELOC_POOLS_FROM
#define ATONC_RELOC_POOLS_FROM 0x34064000UL /* below, applications keep their own data */
#endif
uint32_t atonc_reloc_readable(uintptr_t address);             /* bytes that can be read from there on */
bool atonc_reloc_may_write(uintptr_t address, uint32_t size); /* is this memory free for a network? */

#ifdef __cplusplus
}
#endif

#endif
