/* SPDX-License-Identifier: Apache-2.0
 * A small network by hand, with every kind of epoch block, and ways to run it. What happens is written to a trace.
 */
#include <string.h>

#include "ecloader.h"
#include "ll_aton.h"
#include "ll_aton_runtime.h"

bool fake_interrupt(void);

static char trace[4096];
static unsigned length;

static void note(char what) {
    if (length < sizeof trace - 1) {
        trace[length++] = what;
        trace[length] = 0;
    }
}

const char *scenario_trace(void) { return trace; }
void scenario_clear(void) { trace[length = 0] = 0; }

/* ---- the network ---- */

static const uint64_t good_blob[] = {0x00000002CA057A7AULL, 0x000000000000000CULL};
static uint64_t blob[2];
static bool network_init_result, inference_init_result;
static atonc_memory_t memories[2];
static const uint8_t constants[] = "123456789"; /* its CRC-32 is 0xCBF43926 */

bool LL_ATON_EC_Network_Init_small(void) {
    note('N');
    return atonc_check_memories(memories) && network_init_result;
}
bool LL_ATON_EC_Inference_Init_small(void) {
    note('I');
    return inference_init_result;
}

static void start_engines(const LL_ATON_RT_EpochBlockItem_t *block, const NN_Instance_TypeDef *instance) {
    static const LL_ATON_EnableUnits_InitTypeDef units[] = {{{STRENG, 2}}, {{STRENG, 5}}};
    (void)block;
    (void)instance;
    note('s');
    LL_ATON_EnableUnits_Init(units, 2);
}
static void end_engines(const LL_ATON_RT_EpochBlockItem_t *block, const NN_Instance_TypeDef *instance) {
    (void)block;
    (void)instance;
    note('e');
}
static void old_style(const void *block) { /* release 1.1.0: one argument */
    (void)block;
    note('c');
}
static void inner(const LL_ATON_RT_EpochBlockItem_t *block, const NN_Instance_TypeDef *instance) {
    (void)block;
    (void)instance;
    note('i');
}
static const LL_ATON_RT_EpochBlockItem_t inserted[] = {
    {.start_epoch_block = start_engines, .end_epoch_block = inner, .wait_mask = 0x24, .flags = EpochBlock_Flags_internal},
    {.end_epoch_block = inner, .flags = EpochBlock_Flags_internal},
    {.flags = EpochBlock_Flags_last_eb},
};
static void hybrid(const LL_ATON_RT_EpochBlockItem_t *block, const NN_Instance_TypeDef *instance) {
    (void)block;
    (void)instance;
    note('h');
    LL_ATON_RT_Insert_LibEpochBlockArray(inserted);
}

const LL_ATON_RT_EpochBlockItem_t *LL_ATON_EpochBlockItems_small(void) {
    static const LL_ATON_RT_EpochBlockItem_t items[] = {
        {.start_epoch_block = start_engines,
         .end_epoch_block = end_engines,
         .wait_mask = 0x24,
         .flags = EpochBlock_Flags_epoch_start | EpochBlock_Flags_epoch_end | EpochBlock_Flags_pure_hw},
        {.end_epoch_block = old_style, .flags = EpochBlock_Flags_epoch_start | EpochBlock_Flags_pure_sw},
        {.blob_address = (uintptr_t)blob,
         .flags = EpochBlock_Flags_epoch_start | EpochBlock_Flags_blob | EpochBlock_Flags_pure_hw},
        {.end_epoch_block = hybrid, .flags = EpochBlock_Flags_hybrid},
        {.end_epoch_block = old_style, .flags = EpochBlock_Flags_pure_sw},
        {.flags = EpochBlock_Flags_last_eb},
    };
    return items;
}
LL_ATON_User_IO_Result_t LL_ATON_Set_User_Input_Buffer_small(uint32_t num, void *buffer, uint32_t size) {
    (void)num;
    (void)buffer;
    (void)size;
    return LL_ATON_User_IO_WRONG_INDEX;
}
void *LL_ATON_Get_User_Input_Buffer_small(uint32_t num) {
    (void)num;
    return NULL;
}
LL_ATON_User_IO_Result_t LL_ATON_Set_User_Output_Buffer_small(uint32_t num, void *buffer, uint32_t size) {
    return LL_ATON_Set_User_Input_Buffer_small(num, buffer, size);
}
void *LL_ATON_Get_User_Output_Buffer_small(uint32_t num) {
    (void)num;
    return NULL;
}
const LL_Buffer_InfoTypeDef *LL_ATON_Input_Buffers_Info_small(void) {
    static const LL_Buffer_InfoTypeDef list[] = {{.name = NULL}};
    return list;
}
const LL_Buffer_InfoTypeDef *LL_ATON_Output_Buffers_Info_small(void) { return LL_ATON_Input_Buffers_Info_small(); }
const LL_Buffer_InfoTypeDef *LL_ATON_Internal_Buffers_Info_small(void) { return LL_ATON_Input_Buffers_Info_small(); }

/* The weak encryption functions of the interface do not exist here, as in networks of older releases. */
LL_ATON_DECLARE_NAMED_NN_INSTANCE_AND_INTERFACE(small)

/* ---- what the tests do ---- */

static bool memory_answer;
static uint32_t tick, tick_step;
bool atonc_memory_ready(uintptr_t base, uint32_t size) {
    (void)base;
    (void)size;
    return memory_answer;
}
uint32_t atonc_tick_ms(void) { return tick += tick_step; }

static void on_epoch(LL_ATON_RT_Callbacktype_t what, const NN_Instance_TypeDef *instance,
                     const LL_ATON_RT_EpochBlockItem_t *block) {
    (void)instance;
    (void)block;
    if (what == LL_ATON_RT_Callbacktype_ATONC_ERROR) {
        note('!');
    } else {
        note((char)('0' + (int)what));
    }
}
static void on_runtime(LL_ATON_RT_Callbacktype_t what) { note((char)('0' + (int)what)); }

/* Everything as it should be; tests then break one thing. */
void scenario_prepare(void) {
    memcpy(blob, good_blob, sizeof blob);
    network_init_result = inference_init_result = memory_answer = true;
    memories[0] = (atonc_memory_t){(uintptr_t)constants, 64, 9, 0xCBF43926UL};
    memories[1].size = 0;
    tick = tick_step = 0;
    atonc_set_watchdog(1000, 0);
    LL_ATON_RT_SetRuntimeCallback(NULL);
    LL_ATON_RT_SetNetworkCallback(&NN_Instance_small, NULL);
    scenario_clear();
}
void scenario_break(int what) {
    switch (what) {
    case 0: ((uint32_t *)blob)[0] ^= 1; break;
    case 1: ((uint32_t *)blob)[1] = 0; break;
    case 2: ((uint32_t *)blob)[1] = 0xFFFFFFFF; break;
    case 3: memory_answer = false; break;
    case 4: memories[0].crc32 ^= 1; break;
    case 5: network_init_result = false; break;
    case 6: inference_init_result = false; break;
    case 7: atonc_set_watchdog(0, 50), tick_step = 10; break;
    }
}
void scenario_callbacks(void) {
    LL_ATON_RT_SetRuntimeCallback(on_runtime);
    LL_ATON_RT_SetEpochCallback(on_epoch, &NN_Instance_small);
}
void scenario_runtime(int on) { on ? LL_ATON_RT_RuntimeInit() : LL_ATON_RT_RuntimeDeInit(); }
void scenario_init(void) { LL_ATON_RT_Init_Network(&NN_Instance_small); }
void scenario_reset(void) { LL_ATON_RT_Reset_Network(&NN_Instance_small); }
void scenario_deinit(void) { LL_ATON_RT_DeInit_Network(&NN_Instance_small); }
int scenario_step(void) { return LL_ATON_RT_RunEpochBlock(&NN_Instance_small); }

/* One inference; -1 if it does not end within `limit` steps. */
int scenario_run(int limit) {
    for (int steps = 1; steps <= limit; steps++) {
        LL_ATON_RT_RetValues_t state = LL_ATON_RT_RunEpochBlock(&NN_Instance_small);
        if (state == LL_ATON_RT_DONE) {
            return steps;
        }
        if (state == LL_ATON_RT_WFE) {
            note('w');
            LL_ATON_OSAL_WFE();
            fake_interrupt();
        }
    }
    return -1;
}
void scenario_main(void) { LL_ATON_RT_Main(&NN_Instance_small); }

void scenario_status(uint32_t result[4], int of_runtime) {
    atonc_status_t status = atonc_rt_status(of_runtime ? NULL : &NN_Instance_small);
    result[0] = (uint32_t)status.code;
    result[1] = status.epoch;
    result[2] = status.block;
    result[3] = status.detail;
}
