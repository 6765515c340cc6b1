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

#define LL_ATON_DECLARE_NAMED_NN_INTERFACE(nn_if_name)                                                                 \
    LL_ATON_DECLARE_NAMED_NN_PROTOS(nn_if_name)                                                                        \
    static const NN_Interface_TypeDef NN_Interface_##nn_if_name = {                                                    \
        .network_name = #nn_if_name,                                                                                   \
        .ec_network_init = &LL_ATON_EC_Network_Init_##nn_if_name,                                                      \
        .ec_inference_init = &LL_ATON_EC_Inference_Init_##nn_if_name,                                                  \
        .input_setter = &LL_ATON_Set_User_Input_Buffer_##nn_if_name,                                                   \
        .input_getter = &LL_ATON_Get_User_Input_Buffer_##nn_if_name,                                                   \
        .output_setter = &LL_ATON_Set_User_Output_Buffer_##nn_if_name,                                                 \
        .output_getter = &LL_ATON_Get_User_Output_Buffer_##nn_if_name,                                                 \
        .epoch_block_items = &LL_ATON_EpochBlockItems_##nn_if_name,                                                    \
        .output_buffers_info = &LL_ATON_Output_Buffers_Info_##nn_if_name,                                              \
        .input_buffers_info = &LL_ATON_Input_Buffers_Info_##nn_if_name,                                                \
        .blob_encryption_info = &LL_ATON_BlobEncryption_Info_##nn_if_name,                                             \
        .weight_encryption_info = &LL_ATON_WeightEncryption_Info_##nn_if_name,                                         \
        .internal_buffers_info = &LL_ATON_Internal_Buffers_Info_##nn_if_name,                                          \
    }

#define LL_ATON_DECLARE_NAMED_NN_INSTANCE(nn_exec_name, nn_if_ptr)                                                     \
    static NN_Instance_TypeDef NN_Instance_##nn_exec_name = {.network = nn_if_ptr}

#define LL_ATON_DECLARE_NAMED_NN_INSTANCE_AND_INTERFACE(nn_name)                                                       \
    LL_ATON_DECLARE_NAMED_NN_INTERFACE(nn_name);                                                                       \
    LL_ATON_DECLARE_NAMED_NN_INSTANCE(nn_name, &NN_Interface_##nn_name);

void LL_ATON_RT_RuntimeInit(void);
void LL_ATON_RT_RuntimeDeInit(void);
void LL_ATON_RT_SetRuntimeCallback(TraceRuntime_FuncPtr_t rt_callback);

void LL_ATON_RT_Init_Network(NN_Instance_TypeDef *nn_instance);
void LL_ATON_RT_DeInit_Network(NN_Instance_TypeDef *nn_instance);
void LL_ATON_RT_Reset_Network(NN_Instance_TypeDef *nn_instance);
void LL_ATON_RT_SetNetworkCallback(NN_Instance_TypeDef *nn_instance, TraceEpochBlock_FuncPtr_t epoch_block_callback);
void LL_ATON_RT_SetEpochCallback(TraceEpochBlock_FuncPtr_t epoch_block_callback, NN_Instance_TypeDef *nn_instance);

LL_ATON_RT_RetValues_t LL_ATON_RT_RunEpochBlock(NN_Instance_TypeDef *nn_instance);

static inline LL_ATON_User_IO_Result_t LL_ATON_Set_User_Input_Buffer(const NN_Instance_TypeDef *nn_instance,
                                                                     uint32_t num, void *buffer, uint32_t size) {
    return nn_instance->network->input_setter(num, buffer, size);
}
static inline void *LL_ATON_Get_User_Input_Buffer(const NN_Instance_TypeDef *nn_instance, uint32_t num) {
    return nn_instance->network->input_getter(num);
}
static inline LL_ATON_User_IO_Result_t LL_ATON_Set_User_Output_Buffer(const NN_Instance_TypeDef *nn_instance,
                                                                      uint32_t num, void *buffer, uint32_t size) {
    return nn_instance->network->output_setter(num, buffer, size);
}
static inline void *LL_ATON_Get_User_Output_Buffer(const NN_Instance_TypeDef *nn_instance, uint32_t num) {
    return nn_instance->network->output_getter(num);
}
static inline const LL_Buffer_InfoTypeDef *LL_ATON_Input_Buffers_Info(const NN_Instance_TypeDef *nn_instance) {
    return nn_instance->network->input_buffers_info();
}
static inline const LL_Buffer_InfoTypeDef *LL_ATON_Output_Buffers_Info(const NN_Instance_TypeDef *nn_instance) {
    return nn_instance->network->output_buffers_info();
}
static inline const LL_Buffer_InfoTypeDef *LL_ATON_Internal_Buffers_Info(const NN_Instance_TypeDef *nn_instance) {
    return nn_instance->network->internal_buffers_info();
}

#ifdef __cplusplus
}
#endif

#endif
