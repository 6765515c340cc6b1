/* SPDX-License-Identifier: Apache-2.0
 * Runs networks: a list of epoch blocks, each started, waited for and ended. See ll_aton_rt_user_api.h.
 *
 * The wait is either a look at the NPU's registers (LL_ATON_RT_POLLING, atonc_rt_wait.c) or the
 * arrival of its interrupt (LL_ATON_RT_ASYNC, atonc_rt_irq.c). Both are counted by the watchdog.
 */
#include "atonc_rt_state.h"

#include "ec.h"
#include "ll_aton.h"
#include "ll_aton_runtime.h"
#if defined(LL_ATON_RT_RELOC)
#include "ll_aton_reloc_network.h"
#endif

#define MAX_BLOB_WORDS 0x1000000UL

NN_Instance_TypeDef *volatile atonc_rt_owner;
static NN_Instance_TypeDef *running; /* the network whose functions execute */
static TraceRuntime_FuncPtr_t runtime_callback;
static atonc_status_t runtime_status = {.code = ATONC_ERR_RUNTIME_OFF};

/* ---- errors ---- */

static const LL_ATON_RT_EpochBlockItem_t *block_of_network(const NN_Execution_State_TypeDef *state) {
    return state->saved_current_epoch_block != NULL ? state->saved_current_epoch_block : state->current_epoch_block;
}

static uint32_t block_index(const NN_Execution_State_TypeDef *state) {
    const LL_ATON_RT_EpochBlockItem_t *first =
        state->saved_first_epoch_block != NULL ? state->saved_first_epoch_block : state->first_epoch_block;
    return first == NULL ? 0 : (uint32_t)(block_of_network(state) - first);
}

static uint32_t epoch_number(const NN_Execution_State_TypeDef *state) {
    const LL_ATON_RT_EpochBlockItem_t *block = block_of_network(state);
    if (block != NULL && EpochBlock_IsEpochBlob(block) && state->current_epoch_block_started) {
        return atonc_read(ATONC_EPOCHCTRL0, ATONC_EPOCHCTRL_LABEL);
    }
#ifdef LL_ATON_EB_DBG_INFO
    if (block != NULL) {
        return (uint32_t)(int32_t)block->epoch_num;
    }
#endif
    return block_index(state);
}

void atonc_rt_fail_network(NN_Instance_TypeDef *network, atonc_error_t code, uint32_t detail) {
    NN_Execution_State_TypeDef *state = &network->exec_state;
    if (state->status.code != ATONC_OK) {
        return; /* the first error is the cause */
    }
    state->status.epoch = epoch_number(state);
    state->status.block = block_index(state);
    state->status.detail = detail;
    state->status.code = code;
}

void atonc_rt_fail(atonc_error_t code, uint32_t detail) {
    if (running != NULL) {
        atonc_rt_fail_network(running, code, detail);
    } else if (runtime_status.code == ATONC_OK) {
        runtime_status = (atonc_status_t){.code = code, .detail = detail};
    }
}

atonc_status_t atonc_rt_status(const NN_Instance_TypeDef *instance) {
    if (instance == NULL) {
        return runtime_status;
    }
    return (atonc_status_t){
        .code = instance->exec_state.status.code,
        .epoch = instance->exec_state.status.epoch,
        .block = instance->exec_state.status.block,
        .detail = instance->exec_state.status.detail,
    };
}

static void tell(NN_Instance_TypeDef *network, LL_ATON_RT_Callbacktype_t what,
                 const LL_ATON_RT_EpochBlockItem_t *block) {
    if (network->exec_state.epoch_callback_function != NULL) {
        network->exec_state.epoch_callback_function(what, network, block);
    }
}

/* In the middle of an inference: the NPU may still be working for the network. */
static void take_npu_from(NN_Instance_TypeDef *network) {
    if (atonc_rt_owner == network) {
        atonc_reset_npu(); /* first of all hides its interrupts, which belong to the owner */
        atonc_rt_owner = NULL;
        LL_ATON_OSAL_UNLOCK_ATON();
    }
}

/* Ends an inference that cannot go on: the NPU is reset, the caller's loop ends, the status stays. */
static LL_ATON_RT_RetValues_t give_up(NN_Instance_TypeDef *network) {
    NN_Execution_State_TypeDef *state = &network->exec_state;
    const LL_ATON_RT_EpochBlockItem_t *block = state->current_epoch_block;
    take_npu_from(network);
    running = NULL;
    state->current_epoch_block = NULL;
    tell(network, LL_ATON_RT_Callbacktype_ATONC_ERROR, block);
    return LL_ATON_RT_DONE;
}

/* ---- functions of a network: of the application's own code, or of an image that it loaded ---- */

#if defined(LL_ATON_RT_RELOC)
static uintptr_t image_of(const NN_Instance_TypeDef *network) { return network->exec_state.inst_reloc; }
#else
#define image_of(network) ((void)(network), (uintptr_t)0)
#define ai_rel_network_get_epoch_items(image) NULL
#define ai_rel_network_ec_network_init(image) false
#define ai_rel_network_ec_inference_init(image) false
#define ai_rel_call_start_end_function(image, function, block, network) (void)0
#endif

static const LL_ATON_RT_EpochBlockItem_t *blocks_of(const NN_Instance_TypeDef *network) {
    return image_of(network) ? ai_rel_network_get_epoch_items(image_of(network))
                             : network->network->epoch_block_items();
}

static bool call_network_init(const NN_Instance_TypeDef *network) {
    NN_EC_Hook_TypeDef hook = image_of(network) ? NULL : network->network->ec_network_init;
    return image_of(network) ? ai_rel_network_ec_network_init(image_of(network)) : hook == NULL || hook();
}

static bool call_inference_init(const NN_Instance_TypeDef *network) {
    NN_EC_Hook_TypeDef hook = image_of(network) ? NULL : network->network->ec_inference_init;
    return image_of(network) ? ai_rel_network_ec_inference_init(image_of(network)) : hook == NULL || hook();
}

static void call_block_function(NN_Instance_TypeDef *network, EpochBlock_FuncPtr_t function,
                                const LL_ATON_RT_EpochBlockItem_t *block) {
    if (function != NULL && image_of(network)) {
        ai_rel_call_start_end_function(image_of(network), function, block, network);
    } else if (function != NULL) {
        function(block, network);
    }
}

/* ---- the runtime ---- */

void LL_ATON_RT_SetRuntimeCallback(TraceRuntime_FuncPtr_t rt_callback) { runtime_callback = rt_callback; }

void LL_ATON_RT_RuntimeInit(void) {
    running = NULL;
    atonc_rt_owner = NULL;
    runtime_status = (atonc_status_t){.code = ATONC_OK};
    LL_ATON_Init();
    atonc_interrupts_setup();
    LL_ATON_OSAL_INIT();
    for (unsigned line = 0; line < 4; line++) {
        LL_ATON_OSAL_DISABLE_IRQ(line);
    }
    LL_ATON_OSAL_INSTALL_IRQ(ATON_STD_IRQ_LINE, ATON_STD_IRQHandler);
#if LL_ATON_RT_MODE == LL_ATON_RT_ASYNC
    LL_ATON_OSAL_ENABLE_IRQ(ATON_STD_IRQ_LINE);
#endif
    if (runtime_callback != NULL) {
        runtime_callback(LL_ATON_RT_Callbacktype_RT_Init);
    }
}

void LL_ATON_RT_RuntimeDeInit(void) {
    if (runtime_callback != NULL) {
        runtime_callback(LL_ATON_RT_Callbacktype_RT_Deinit);
    }
    for (unsigned line = 0; line < 4; line++) {
        LL_ATON_OSAL_DISABLE_IRQ(line);
    }
    LL_ATON_OSAL_REMOVE_IRQ(ATON_STD_IRQ_LINE);
    LL_ATON_OSAL_DEINIT();
    LL_ATON_DeInit();
    runtime_status = (atonc_status_t){.code = ATONC_ERR_RUNTIME_OFF};
}

/* ---- networks ---- */

void LL_ATON_RT_SetNetworkCallback(NN_Instance_TypeDef *nn_instance, TraceEpochBlock_FuncPtr_t epoch_block_callback) {
    nn_instance->exec_state.epoch_callback_function = epoch_block_callback;
}

void LL_ATON_RT_SetEpochCallback(TraceEpochBlock_FuncPtr_t epoch_block_callback, NN_Instance_TypeDef *nn_instance) {
    LL_ATON_RT_SetNetworkCallback(nn_instance, epoch_block_callback);
}

static void rewind_to(NN_Instance_TypeDef *network, const LL_ATON_RT_EpochBlockItem_t *first) {
    NN_Execution_State_TypeDef *state = &network->exec_state;
    state->current_epoch_block = first;
    state->first_epoch_block = first;
    state->next_epoch_block = NULL;
    state->saved_current_epoch_block = NULL;
    state->saved_first_epoch_block = NULL;
    state->triggered_events = 0;
    state->current_epoch_block_started = false;
    state->inference_started = false;
}

static void begin(NN_Instance_TypeDef *network) {
    rewind_to(network, blocks_of(network));
    tell(network, LL_ATON_RT_Callbacktype_NN_Init, NULL);
}

void LL_ATON_RT_Init_Network(NN_Instance_TypeDef *nn_instance) {
    if (nn_instance == NULL || nn_instance->network == NULL) {
        return;
    }
    rewind_to(nn_instance, NULL);
    nn_instance->exec_state.status.code = ATONC_OK;
    running = nn_instance; /* errors of the start-up function belong to this network */
    if (!call_network_init(nn_instance)) {
        atonc_rt_fail(ATONC_ERR_NETWORK_INIT, 0);
    }
    running = NULL;
    begin(nn_instance);
}

void LL_ATON_RT_DeInit_Network(NN_Instance_TypeDef *nn_instance) {
    if (nn_instance == NULL) {
        return;
    }
    tell(nn_instance, LL_ATON_RT_Callbacktype_NN_DeInit, NULL);
    take_npu_from(nn_instance);
    rewind_to(nn_instance, NULL);
}

void LL_ATON_RT_Reset_Network(NN_Instance_TypeDef *nn_instance) {
    LL_ATON_RT_DeInit_Network(nn_instance);
    if (nn_instance == NULL || nn_instance->network == NULL) {
        return;
    }
    if (nn_instance->exec_state.status.code >= ATONC_ERR_INFERENCE_INIT) {
        nn_instance->exec_state.status.code = ATONC_OK; /* errors of the initialisation stay */
    }
    begin(nn_instance);
}

/* ---- blocks ---- */

static void start_controller(NN_Instance_TypeDef *network, const LL_ATON_RT_EpochBlockItem_t *block) {
    const ec_word_t *words = (const ec_word_t *)block->blob_address;
    bool encrypted = EpochBlock_IsBlobEncrypted(block);
    if (block->blob_address & 7u) {
        atonc_rt_fail(ATONC_ERR_BLOB_ADDRESS, (uint32_t)block->blob_address);
    } else if (!encrypted && words[0] != ECASM_BLOB_MAGIC) {
        atonc_rt_fail(ATONC_ERR_BLOB_MAGIC, words[0]);
    } else if (!encrypted && (words[1] == 0 || words[1] > MAX_BLOB_WORDS)) {
        atonc_rt_fail(ATONC_ERR_BLOB_SIZE, words[1]);
    } else {
        LL_EpochCtrl_InitTypeDef conf = {.blobaddr = (uint32_t)block->blob_address};
        int id = (int)EpochBlock_EpochControllerUnit(block);
        int result = LL_EpochCtrl_Init(id, &conf);
        if (image_of(network) && encrypted) {
            result = LL_ATON_INVALID_PARAM; /* images say nothing that could be trusted about encryption */
        } else if (result == LL_ATON_OK && encrypted && network->network->blob_encryption_info != NULL) {
            result = LL_EpochCtrl_EncryptionInit(id, network->network->blob_encryption_info());
        }
        if (result != LL_ATON_OK) {
            atonc_rt_fail(ATONC_ERR_BAD_CALL, (uint32_t)result);
            return;
        }
        uint32_t stale = atonc_read(ATONC_EPOCHCTRL0, ATONC_EPOCHCTRL_IRQ);
        if (stale != 0) {
            atonc_write(ATONC_EPOCHCTRL0, ATONC_EPOCHCTRL_IRQ, stale); /* would look like the end of this blob */
        }
        atonc_cpu_dsb(); /* the controller reads memory that the CPU may just have written */
        atonc_write(ATONC_EPOCHCTRL0, ATONC_CTRL, atonc_read(ATONC_EPOCHCTRL0, ATONC_CTRL) | ATONC_CTRL_EN);
    }
}

static void start_block(NN_Instance_TypeDef *network, const LL_ATON_RT_EpochBlockItem_t *block) {
    tell(network, LL_ATON_RT_Callbacktype_PRE_START, block);
    network->exec_state.triggered_events = 0;
    atonc_watchdog_start();
    if (atonc_rt_uses_npu(block)) {
        LL_ATON_OSAL_LOCK_ATON();
        atonc_rt_owner = network;
        atonc_interrupts_wait_for(EpochBlock_IsEpochBlob(block) ? 0 : block->wait_mask);
    }
    call_block_function(network, block->start_epoch_block, block);
    if (EpochBlock_IsEpochBlob(block) && network->exec_state.status.code == ATONC_OK) {
        start_controller(network, block);
    }
    tell(network, LL_ATON_RT_Callbacktype_POST_START, block);
}

static void end_block(NN_Instance_TypeDef *network, const LL_ATON_RT_EpochBlockItem_t *block) {
    tell(network, LL_ATON_RT_Callbacktype_PRE_END, block);
    if (EpochBlock_IsEpochBlob(block)) {
        atonc_clear_unit(ATONC_EPOCHCTRL0, ATONC_EPOCHCTRL_CTRL_RESET);
        atonc_clock(ATONC_CLOCK_EPOCHCTRL0, false);
    }
    call_block_function(network, block->end_epoch_block, block);
    if (atonc_rt_owner == network && network->exec_state.status.code == ATONC_OK) {
        atonc_interrupts_wait_for(0);
        atonc_rt_owner = NULL;
        LL_ATON_OSAL_UNLOCK_ATON();
    }
    tell(network, LL_ATON_RT_Callbacktype_POST_END, block);
}

static void advance(NN_Execution_State_TypeDef *state) {
    state->current_epoch_block_started = false;
    if (state->next_epoch_block == NULL) {
        state->current_epoch_block++;
        return;
    }
    state->saved_current_epoch_block = state->current_epoch_block;
    state->saved_first_epoch_block = state->first_epoch_block;
    state->current_epoch_block = state->next_epoch_block;
    state->first_epoch_block = state->next_epoch_block;
    state->next_epoch_block = NULL;
}

static void leave_inserted(NN_Execution_State_TypeDef *state) {
    state->current_epoch_block = state->saved_current_epoch_block + 1;
    state->first_epoch_block = state->saved_first_epoch_block;
    state->saved_current_epoch_block = NULL;
    state->saved_first_epoch_block = NULL;
}

static bool begin_inference(NN_Instance_TypeDef *network) {
    NN_Execution_State_TypeDef *state = &network->exec_state;
    if (runtime_status.code != ATONC_OK) {
        atonc_rt_fail_network(network, runtime_status.code, runtime_status.detail);
    }
    if (state->status.code != ATONC_OK) {
        return false;
    }
    if (state->current_epoch_block == NULL) {
        atonc_rt_fail_network(network, ATONC_ERR_NETWORK_OFF, 0);
        return false;
    }
    if (!state->inference_started) {
        state->inference_started = true;
        if (!call_inference_init(network)) {
            atonc_rt_fail(ATONC_ERR_INFERENCE_INIT, 0);
        }
    }
    return state->status.code == ATONC_OK;
}

LL_ATON_RT_RetValues_t LL_ATON_RT_RunEpochBlock(NN_Instance_TypeDef *nn_instance) {
    NN_Execution_State_TypeDef *state = &nn_instance->exec_state;
    running = nn_instance;
    if (!begin_inference(nn_instance)) {
        return give_up(nn_instance);
    }
    const LL_ATON_RT_EpochBlockItem_t *block = state->current_epoch_block;
    if (EpochBlock_IsLastEpochBlock(block)) {
        running = NULL;
        if (state->saved_current_epoch_block == NULL) {
            return LL_ATON_RT_DONE;
        }
        leave_inserted(state);
        return LL_ATON_RT_NO_WFE;
    }
    if (!state->current_epoch_block_started) {
        state->current_epoch_block_started = true;
        start_block(nn_instance, block);
    }
    if (!atonc_rt_wait_for_block(nn_instance, block)) {
        running = NULL;
        return LL_ATON_RT_WFE;
    }
    if (state->status.code == ATONC_OK) {
        end_block(nn_instance, block);
    }
    if (state->status.code != ATONC_OK) {
        return give_up(nn_instance);
    }
    advance(state);
    running = NULL;
    return LL_ATON_RT_NO_WFE;
}

/* ---- for library layers ---- */

void LL_ATON_RT_Insert_LibEpochBlockArray(const LL_ATON_RT_EpochBlockItem_t *new_epoch_block_array) {
    if (running == NULL || running->exec_state.saved_current_epoch_block != NULL) {
        atonc_rt_fail(ATONC_ERR_BAD_CALL, 0);
        return;
    }
    running->exec_state.next_epoch_block = new_epoch_block_array;
}

void LL_ATON_RT_IncCurrEpochBlock(uint32_t inc) {
    if (running != NULL) {
        running->exec_state.current_epoch_block += inc;
    }
}

void LL_ATON_RT_DecCurrEpochBlock(uint32_t dec) {
    if (running != NULL) {
        running->exec_state.current_epoch_block -= dec;
    }
}
