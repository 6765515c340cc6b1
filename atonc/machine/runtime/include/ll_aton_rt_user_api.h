/* SPDX-License-Identifier: Apache-2.0
 * What an application calls: declare a network, initialise, run it block by block, look at its buffers.
 *
 *     LL_ATON_DECLARE_NAMED_NN_INSTANCE_AND_INTERFACE(Default)
 *     LL_ATON_RT_RuntimeInit();
 *     LL_ATON_RT_Init_Network(&NN_Instance_Default);
 *     do {
 *         state = LL_ATON_RT_RunEpochBlock(&NN_Instance_Default);
 *         if (state == LL_ATON_RT_WFE) LL_ATON_OSAL_WFE();
 *     } while (state != LL_ATON_RT_DONE);
 *     LL_ATON_RT_Reset_Network(&NN_Instance_Default);        before the next inference
 */
#ifndef LL_ATON_RT_USER_API_H
#define LL_ATON_RT_USER_API_H

#include "ll_aton_NN_interface.h"
#include "ll_aton_caches_interface.h"
#include "ll_aton_osal.h"
#include "ll_aton_platform.h"
#include "ll_aton_util.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A network is a set of functions with a common ending; an interface gathers them, an instance runs them. */
#define ATONC_ENTRY(member, function, ending) .member = &LL_ATON_##function##_##ending
#define LL_ATON_DECLARE_NAMED_NN_INTERFACE(ending)                                                                     \
    LL_ATON_DECLARE_NAMED_NN_PROTOS(ending)                                                                            \
    static const NN_Interface_TypeDef NN_Interface_##ending = {                                                        \
        .network_name = #ending,                                                                                       \
        ATONC_ENTRY(epoch_block_items, EpochBlockItems, ending),                                                       \
        ATONC_ENTRY(input_buffers_info, Input_Buffers_Info, ending),                                                   \
        ATONC_ENTRY(output_buffers_info, Output_Buffers_Info, ending),                                                 \
        ATONC_ENTRY(internal_buffers_info, Internal_Buffers_Info, ending),                                             \
        ATONC_ENTRY(input_setter, Set_User_Input_Buffer, ending),                                                      \
        ATONC_ENTRY(input_getter, Get_User_Input_Buffer, ending),                                                      \
        ATONC_ENTRY(output_setter, Set_User_Output_Buffer, ending),                                                    \
        ATONC_ENTRY(output_getter, Get_User_Output_Buffer, ending),                                                    \
        ATONC_ENTRY(ec_network_init, EC_Network_Init, ending),                                                         \
        ATONC_ENTRY(ec_inference_init, EC_Inference_Init, ending),                                                     \
        ATONC_ENTRY(blob_encryption_info, BlobEncryption_Info, ending),                                                \
        ATONC_ENTRY(weight_encryption_info, WeightEncryption_Info, ending),                                            \
    }

#define LL_ATON_DECLARE_NAMED_NN_INSTANCE(ending, interface)                                                           \
    static NN_Instance_TypeDef NN_Instance_##ending = {.network = interface}

#define LL_ATON_DECLARE_NAMED_NN_INSTANCE_AND_INTERFACE(ending)                                                        \
    LL_ATON_DECLARE_NAMED_NN_INTERFACE(ending);                                                                        \
    LL_ATON_DECLARE_NAMED_NN_INSTANCE(ending, &NN_Interface_##ending);

void LL_ATON_RT_RuntimeInit(void);
void LL_ATON_RT_RuntimeDeInit(void);
void LL_ATON_RT_SetRuntimeCallback(TraceRuntime_FuncPtr_t callback);

void LL_ATON_RT_Init_Network(NN_Instance_TypeDef *instance);
void LL_ATON_RT_DeInit_Network(NN_Instance_TypeDef *instance);
void LL_ATON_RT_Reset_Network(NN_Instance_TypeDef *instance);
void LL_ATON_RT_SetNetworkCallback(NN_Instance_TypeDef *instance, TraceEpochBlock_FuncPtr_t callback);
void LL_ATON_RT_SetEpochCallback(TraceEpochBlock_FuncPtr_t callback, NN_Instance_TypeDef *instance);

LL_ATON_RT_RetValues_t LL_ATON_RT_RunEpochBlock(NN_Instance_TypeDef *instance);

static inline LL_ATON_User_IO_Result_t LL_ATON_Set_User_Input_Buffer(const NN_Instance_TypeDef *instance,
                                                                     uint32_t index, void *memory, uint32_t bytes) {
    return instance->network->input_setter(index, memory, bytes);
}
static inline void *LL_ATON_Get_User_Input_Buffer(const NN_Instance_TypeDef *instance, uint32_t index) {
    return instance->network->input_getter(index);
}
static inline LL_ATON_User_IO_Result_t LL_ATON_Set_User_Output_Buffer(const NN_Instance_TypeDef *instance,
                                                                      uint32_t index, void *memory, uint32_t bytes) {
    return instance->network->output_setter(index, memory, bytes);
}
static inline void *LL_ATON_Get_User_Output_Buffer(const NN_Instance_TypeDef *instance, uint32_t index) {
    return instance->network->output_getter(index);
}
static inline const LL_Buffer_InfoTypeDef *LL_ATON_Input_Buffers_Info(const NN_Instance_TypeDef *instance) {
    return instance->network->input_buffers_info();
}
static inline const LL_Buffer_InfoTypeDef *LL_ATON_Output_Buffers_Info(const NN_Instance_TypeDef *instance) {
    return instance->network->output_buffers_info();
}
static inline const LL_Buffer_InfoTypeDef *LL_ATON_Internal_Buffers_Info(const NN_Instance_TypeDef *instance) {
    return instance->network->internal_buffers_info();
}

#ifdef __cplusplus
}
#endif

#endif
