/* SPDX-License-Identifier: Apache-2.0
 * A network as the runtime sees it: its epoch blocks, its buffers and the state of an execution.
 */
#ifndef LL_ATON_NN_INTERFACE_H
#define LL_ATON_NN_INTERFACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ll_aton_attributes.h"
#include "ll_aton_cipher.h"
#include "ll_aton_config.h"
#include "ll_aton_util.h"

#include "atonc_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum LL_ATON_User_IO_Result {
    LL_ATON_User_IO_NOERROR,
    LL_ATON_User_IO_WRONG_ALIGN,
    LL_ATON_User_IO_WRONG_SIZE,
    LL_ATON_User_IO_WRONG_INDEX,
} LL_ATON_User_IO_Result_t;

/* What LL_ATON_RT_RunEpochBlock says. */
typedef enum LL_ATON_RT_RetValues {
    LL_ATON_RT_NO_WFE = 0, /* call again at once */
    LL_ATON_RT_WFE,        /* the NPU works: the caller may sleep, then call again */
    LL_ATON_RT_DONE,       /* the inference has ended */
} LL_ATON_RT_RetValues_t;

typedef enum LL_ATON_RT_Callbacktype {
    LL_ATON_RT_Callbacktype_PRE_START,
    LL_ATON_RT_Callbacktype_POST_START,
    LL_ATON_RT_Callbacktype_PRE_END,
    LL_ATON_RT_Callbacktype_POST_END,
    LL_ATON_RT_Callbacktype_NN_Init,   /* the epoch block is NULL */
    LL_ATON_RT_Callbacktype_NN_DeInit, /* the epoch block is NULL */
    LL_ATON_RT_Callbacktype_RT_Init,
    LL_ATON_RT_Callbacktype_RT_Deinit,
} LL_ATON_RT_Callbacktype_t;

typedef struct __nn_instance_struct NN_Instance_TypeDef;
typedef struct __epoch_block_item LL_ATON_RT_EpochBlockItem_t;
typedef LL_ATON_RT_EpochBlockItem_t EpochBlock_ItemTypeDef; /* the name of release 1.1.0 */

/* An address in a constant initialiser. */
typedef union {
    unsigned char *p;
    uintptr_t i;
} __LL_address_t;

/* Start and end functions take (block, instance); those of release 1.1.0 take only (const void *block). A type without
 * prototype holds both, and the calling convention of Arm lets a function ignore its second argument. */
#if defined(__cplusplus) || (defined(__STDC_VERSION__) && __STDC_VERSION__ > 201710L)
typedef void (*EpochBlock_FuncPtr_t)(const LL_ATON_RT_EpochBlockItem_t *block, const NN_Instance_TypeDef *instance);
#else
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
typedef void (*EpochBlock_FuncPtr_t)();
#pragma GCC diagnostic pop
#endif

typedef enum {
    EpochBlock_Flags_NONE = 0x0,
    EpochBlock_Flags_epoch_start = 0x1,
    EpochBlock_Flags_epoch_end = 0x2,
    EpochBlock_Flags_blob = 0x4,      /* a program of the epoch controller */
    EpochBlock_Flags_last_eb = 0x8,   /* end of the list, empty otherwise */
    EpochBlock_Flags_pure_hw = 0x10,  /* the NPU works, blobs included */
    EpochBlock_Flags_pure_sw = 0x20,  /* the CPU works, in the end function */
    EpochBlock_Flags_hybrid = 0x40,   /* the end function may insert blocks of its own */
    EpochBlock_Flags_internal = 0x80, /* such an inserted block */
    EpochBlock_Flags_blob_encrypted = 0x100
} EpochBlock_Flags_t;

struct __epoch_block_item {
    EpochBlock_FuncPtr_t start_epoch_block; /* NULL if there is nothing to start */
    EpochBlock_FuncPtr_t end_epoch_block;   /* NULL if there is nothing to do at the end */
    uintptr_t blob_address;
    uint32_t wait_mask; /* for blobs the number of the controller, otherwise a bit per stream engine to wait for */
    uint16_t flags;
#ifdef LL_ATON_EB_DBG_INFO
    int16_t epoch_num;
    int16_t last_epoch_num;
    uint32_t in_streng_mask;
    uint32_t out_streng_mask;
    uint64_t estimated_npu_cycles;
    uint64_t estimated_tot_cycles;
#endif
};

#if defined(ATONC_RELOC_IMAGE) && defined(LL_ATON_VERSION_MICRO) && LL_ATON_VERSION_MICRO == 0
/* Firmware with release 1.1.0 that loads an image numbers the types so. */
typedef enum {
    DataType_UNDEFINED = 0,
    DataType_FLOAT = 1,
    DataType_UINT8 = 2,
    DataType_INT8 = 3,
    DataType_UINT16 = 4,
    DataType_INT16 = 5,
    DataType_INT32 = 6,
    DataType_INT64 = 7,
    DataType_STRING = 8,
    DataType_BOOL = 9,
    DataType_FLOAT16 = 10,
    DataType_DOUBLE = 11,
    DataType_UINT32 = 12,
    DataType_UINT64 = 13,
    DataType_COMPLEX64 = 14,
    DataType_COMPLEX128 = 15,
    DataType_BFLOAT16 = 16,
    DataType_FXP = 100
} Buffer_DataType_TypeDef;
#else
typedef enum {
    DataType_UNDEFINED = 0,
    DataType_FLOAT = 1,
    DataType_UINT2 = 2,
    DataType_INT2 = 3,
    DataType_UINT4 = 4,
    DataType_INT4 = 5,
    DataType_UINT8 = 6,
    DataType_INT8 = 7,
    DataType_UINT16 = 8,
    DataType_INT16 = 9,
    DataType_INT32 = 10,
    DataType_INT64 = 11,
    DataType_STRING = 12,
    DataType_BOOL = 13,
    DataType_FLOAT16 = 14,
    DataType_DOUBLE = 15,
    DataType_UINT32 = 16,
    DataType_UINT64 = 17,
    DataType_COMPLEX64 = 18,
    DataType_COMPLEX128 = 19,
    DataType_BFLOAT16 = 20,
    DataType_FXP = 100
} Buffer_DataType_TypeDef;
#endif

/* Where the channels are among the dimensions in memory; mixed: C/b, H, W, b. */
typedef enum { CHPos_UNDEFINED = 0, CHPos_First = 1, CHPos_Last = 2, CHPos_Mixed = 3 } Buffer_CHPos_TypeDef;

typedef struct {
    const char *name; /* NULL ends a list */
    __LL_address_t addr_base;
    uint32_t offset_start; /* bytes from the base, up to offset_end; engines may touch up to offset_limit */
    uint32_t offset_end;
    uint32_t offset_limit;
    uint8_t is_user_allocated; /* then addr_base points to the variable that holds the base */
    uint8_t is_param;
    uint16_t epoch;
    uint32_t batch;
    const uint32_t *mem_shape;
    uint16_t mem_ndims;
    Buffer_CHPos_TypeDef chpos;
    Buffer_DataType_TypeDef type;
    int8_t Qm;
    int8_t Qn;
    uint8_t Qunsigned;
    uint8_t ndims;
    uint8_t nbits;
    uint8_t per_channel;
    const uint32_t *shape;
    const float *scale;
    const int16_t *offset;
} LL_Buffer_InfoTypeDef;

typedef bool (*NN_EC_Hook_TypeDef)(void);
typedef LL_ATON_User_IO_Result_t (*NN_InputSetter_TypeDef)(uint32_t, void *, uint32_t);
typedef void *(*NN_InputGetter_TypeDef)(uint32_t);
typedef LL_ATON_User_IO_Result_t (*NN_OutputSetter_TypeDef)(uint32_t, void *, uint32_t);
typedef void *(*NN_OutputGetter_TypeDef)(uint32_t);
typedef const LL_ATON_RT_EpochBlockItem_t *(*NN_EpochBlockItems_TypeDef)(void);
typedef const LL_Streng_EncryptionTypedef *(*NN_Encryption_Info_TypeDef)(void);
typedef const LL_Buffer_InfoTypeDef *(*NN_Buffers_Info_TypeDef)(void);
typedef void (*TraceRuntime_FuncPtr_t)(LL_ATON_RT_Callbacktype_t ctype);
typedef void (*TraceEpochBlock_FuncPtr_t)(LL_ATON_RT_Callbacktype_t ctype, const NN_Instance_TypeDef *nn_instance,
                                          const LL_ATON_RT_EpochBlockItem_t *epoch_block);

typedef struct {
    const char *network_name;
    NN_EC_Hook_TypeDef ec_network_init;
    NN_EC_Hook_TypeDef ec_inference_init;
    NN_InputSetter_TypeDef input_setter;
    NN_InputGetter_TypeDef input_getter;
    NN_OutputSetter_TypeDef output_setter;
    NN_OutputGetter_TypeDef output_getter;
    NN_EpochBlockItems_TypeDef epoch_block_items;
    NN_Buffers_Info_TypeDef output_buffers_info;
    NN_Buffers_Info_TypeDef input_buffers_info;
    NN_Encryption_Info_TypeDef blob_encryption_info;
    NN_Encryption_Info_TypeDef weight_encryption_info;
    NN_Buffers_Info_TypeDef internal_buffers_info;
} NN_Interface_TypeDef;

/* The layout does not depend on the mode, so that objects built with different modes cannot disagree. */
typedef struct {
    const LL_ATON_RT_EpochBlockItem_t *volatile current_epoch_block;
    const LL_ATON_RT_EpochBlockItem_t *volatile first_epoch_block;
    const LL_ATON_RT_EpochBlockItem_t *volatile next_epoch_block; /* list to insert after the current block */
    const LL_ATON_RT_EpochBlockItem_t *volatile saved_current_epoch_block;
    const LL_ATON_RT_EpochBlockItem_t *volatile saved_first_epoch_block;
    bool inference_started;
    volatile uint32_t triggered_events;
    volatile bool current_epoch_block_started;
    TraceEpochBlock_FuncPtr_t epoch_callback_function;
    volatile atonc_status_t status; /* read it with atonc_rt_status */
    uintptr_t inst_reloc;           /* of a relocatable network: its context; 0: linked with the application */
} NN_Execution_State_TypeDef;

struct __nn_instance_struct {
    const NN_Interface_TypeDef *network;
    NN_Execution_State_TypeDef exec_state;
};

/* Functions of a network. Those that older releases do not write, or that EC-less networks lack, may be absent. */
#define LL_ATON_DECLARE_NAMED_NN_PROTOS(network_name)                                                                  \
    extern LL_ATON_WEAK bool LL_ATON_EC_Network_Init_##network_name(void);                                             \
    extern LL_ATON_WEAK bool LL_ATON_EC_Inference_Init_##network_name(void);                                           \
    extern LL_ATON_User_IO_Result_t LL_ATON_Set_User_Input_Buffer_##network_name(uint32_t num, void *buffer,           \
                                                                                 uint32_t size);                       \
    extern void *LL_ATON_Get_User_Input_Buffer_##network_name(uint32_t num);                                           \
    extern LL_ATON_User_IO_Result_t LL_ATON_Set_User_Output_Buffer_##network_name(uint32_t num, void *buffer,          \
                                                                                  uint32_t size);                      \
    extern void *LL_ATON_Get_User_Output_Buffer_##network_name(uint32_t num);                                          \
    extern const LL_ATON_RT_EpochBlockItem_t *LL_ATON_EpochBlockItems_##network_name(void);                            \
    extern const LL_Buffer_InfoTypeDef *LL_ATON_Output_Buffers_Info_##network_name(void);                              \
    extern const LL_Buffer_InfoTypeDef *LL_ATON_Input_Buffers_Info_##network_name(void);                               \
    extern LL_ATON_WEAK const LL_Streng_EncryptionTypedef *LL_ATON_WeightEncryption_Info_##network_name(void);         \
    extern LL_ATON_WEAK const LL_Streng_EncryptionTypedef *LL_ATON_BlobEncryption_Info_##network_name(void);           \
    extern const LL_Buffer_InfoTypeDef *LL_ATON_Internal_Buffers_Info_##network_name(void);

/* A network without a name of its own; applications call its functions without declaring them. */
LL_ATON_DECLARE_NAMED_NN_PROTOS(Default)

static inline bool EpochBlock_IsLastEpochBlock(const LL_ATON_RT_EpochBlockItem_t *eb) {
    return (eb->flags & EpochBlock_Flags_last_eb) != 0;
}
static inline bool EpochBlock_IsEpochStart(const LL_ATON_RT_EpochBlockItem_t *eb) {
    return (eb->flags & EpochBlock_Flags_epoch_start) != 0;
}
static inline bool EpochBlock_IsEpochEnd(const LL_ATON_RT_EpochBlockItem_t *eb) {
    return (eb->flags & EpochBlock_Flags_epoch_end) != 0;
}
static inline bool EpochBlock_IsEpochBlob(const LL_ATON_RT_EpochBlockItem_t *eb) {
    return (eb->flags & EpochBlock_Flags_blob) != 0;
}
static inline bool EpochBlock_IsBlobEncrypted(const LL_ATON_RT_EpochBlockItem_t *eb) {
    return (eb->flags & EpochBlock_Flags_blob_encrypted) != 0;
}
static inline bool EpochBlock_IsEpochPureSW(const LL_ATON_RT_EpochBlockItem_t *eb) {
    return (eb->flags & EpochBlock_Flags_pure_sw) != 0;
}
static inline bool EpochBlock_IsEpochPureHW(const LL_ATON_RT_EpochBlockItem_t *eb) {
    return (eb->flags & EpochBlock_Flags_pure_hw) != 0;
}
static inline bool EpochBlock_IsEpochHybrid(const LL_ATON_RT_EpochBlockItem_t *eb) {
    return (eb->flags & EpochBlock_Flags_hybrid) != 0;
}
static inline bool EpochBlock_IsEpochInternal(const LL_ATON_RT_EpochBlockItem_t *eb) {
    return (eb->flags & EpochBlock_Flags_internal) != 0;
}
static inline uint32_t EpochBlock_EpochControllerUnit(const LL_ATON_RT_EpochBlockItem_t *eb) { return eb->wait_mask; }
static inline uintptr_t EpochBlock_EpochBlobAddr(const LL_ATON_RT_EpochBlockItem_t *eb) { return eb->blob_address; }

static inline unsigned char *LL_Buffer_addr_base(const LL_Buffer_InfoTypeDef *buf) {
    return buf->is_user_allocated ? *(unsigned char **)buf->addr_base.p : buf->addr_base.p;
}
static inline unsigned char *LL_Buffer_addr_start(const LL_Buffer_InfoTypeDef *buf) {
    return LL_Buffer_addr_base(buf) + buf->offset_start;
}
static inline unsigned char *LL_Buffer_addr_end(const LL_Buffer_InfoTypeDef *buf) {
    return LL_Buffer_addr_base(buf) + buf->offset_end;
}
static inline unsigned char *LL_Buffer_addr_limit(const LL_Buffer_InfoTypeDef *buf) {
    return LL_Buffer_addr_base(buf) + buf->offset_limit;
}
static inline uint32_t LL_Buffer_len(const LL_Buffer_InfoTypeDef *buf) { return buf->offset_end - buf->offset_start; }
static inline uint32_t LL_Buffer_bits(const LL_Buffer_InfoTypeDef *buf) {
    return (uint32_t)(buf->Qm + buf->Qn + (buf->Qunsigned ? 0 : 1));
}

#ifdef __cplusplus
}
#endif

#endif
