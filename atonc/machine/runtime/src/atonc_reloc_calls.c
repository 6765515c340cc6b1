/* SPDX-License-Identifier: Apache-2.0
 * Calls into an installed image, and what the application asks of it.
 *
 * Code of an image finds its data by r9. A function of the image that gives up (an assertion in ST's images, which wait
 * for ever behind it) is left by atonc_reloc_abandon; the network then has an error, as after any other failure.
 */
#if defined(LL_ATON_RT_RELOC)
#include "atonc_reloc.h"

#include <setjmp.h>
#include <string.h>

static jmp_buf way_back;
static volatile bool inside;
static atonc_error_t abandon_code;
static uint32_t abandon_detail;

void atonc_reloc_abandon(atonc_error_t code, uint32_t detail) {
    if (inside) {
        abandon_code = code;
        abandon_detail = detail;
        longjmp(way_back, 1);
    }
    atonc_rt_fail(code, detail);
}

#if defined(__arm__)
/* function(a, b, c) with r9 = base */
__attribute__((naked, noinline)) static uintptr_t call_based(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t function,
                                                            uintptr_t base) {
    (void)a, (void)b, (void)c, (void)function, (void)base;
    __asm volatile("push {r9, lr}\n"
                   "ldr r9, [sp, #8]\n"
                   "blx r3\n"
                   "pop {r9, pc}\n");
}
#else
uintptr_t atonc_host_call(uintptr_t function, uintptr_t base); /* unit tests cannot run Arm code */
static uintptr_t call_based(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t function, uintptr_t base) {
    (void)a, (void)b, (void)c;
    return atonc_host_call(function, base);
}
#endif

static uintptr_t call(uintptr_t base, uintptr_t function, uintptr_t a, uintptr_t b, uintptr_t c) {
    uintptr_t result = 0;
    bool nested = inside; /* a callback that comes back to the image keeps the way of the first call */
    if (!nested && setjmp(way_back) != 0) {
        inside = false;
        atonc_rt_fail(abandon_code, abandon_detail);
        return 0;
    }
    inside = true;
    result = call_based(a, b, c, function, base);
    inside = nested;
    return result;
}

/* ---- handles ---- */

static uint32_t word_at(uintptr_t address) {
    uint32_t word;
    memcpy(&word, (const void *)address, sizeof word);
    return word;
}

static int handle_error(uintptr_t inst) {
    if (inst == 0) {
        return AI_RELOC_RT_ERR_INVALID_HDL;
    }
    uintptr_t rom = word_at(inst + 4u * CTX_ROM);
    bool installed = (word_at(inst + 4u * CTX_STATE) & CTX_INITIALISED) != 0;
    return rom != 0 && installed && word_at(rom) == AI_RELOC_MAGIC ? AI_RELOC_RT_ERR_NONE : AI_RELOC_RT_ERR_INVALID_BIN;
}

/* Images of ST for 1.1.3 have three entries in another order than their loaders and ours. */
static uint32_t entry_index(uintptr_t rom, uint32_t entry) {
    bool more = RELOC_SEGMENT(word_at(rom + 4u * (HDR_ENTRIES + 10u))) != RELOC_RAM;
    bool ours = more && word_at(rom + 4u * (HDR_ENTRIES + 13u)) == NOTE_MAGIC_WORD;
    return ours && entry == ENTRY_INTERNALS ? entry + 2u : entry;
}

static uintptr_t enter(uintptr_t inst, uint32_t entry, uintptr_t a, uintptr_t b, uintptr_t c) {
    uintptr_t rom = word_at(inst + 4u * CTX_ROM);
    uint32_t offset = RELOC_OFFSET(word_at(rom + 4u * (HDR_ENTRIES + entry_index(rom, entry))));
    return call(word_at(inst + 4u * CTX_RAM), rom + offset, a, b, c);
}

int ll_aton_reloc_is_valid(const NN_Instance_TypeDef *nn_instance) {
    int error = nn_instance == NULL ? AI_RELOC_RT_ERR_INVALID_HDL : handle_error(nn_instance->exec_state.inst_reloc);
    return error == AI_RELOC_RT_ERR_NONE ? 1 : error;
}

int ll_aton_reloc_get_file_ptr(const NN_Instance_TypeDef *nn_instance, uintptr_t *file_ptr) {
    if (nn_instance == NULL || file_ptr == NULL || nn_instance->exec_state.inst_reloc == 0) {
        return AI_RELOC_RT_ERR_INVALID_HDL;
    }
    int error = handle_error(nn_instance->exec_state.inst_reloc);
    if (error == AI_RELOC_RT_ERR_NONE) {
        *file_ptr = word_at(nn_instance->exec_state.inst_reloc + 4u * CTX_FILE);
    }
    return error;
}

int ll_aton_reloc_set_callbacks(const NN_Instance_TypeDef *nn_instance, const struct ll_aton_reloc_callback *cbs) {
    if (cbs == NULL || ll_aton_reloc_is_valid(nn_instance) != 1) {
        return AI_RELOC_RT_ERR_INVALID_BIN;
    }
    uint32_t address = (uint32_t)(uintptr_t)cbs;
    memcpy((void *)(nn_instance->exec_state.inst_reloc + 4u * CTX_CALLBACKS), &address, sizeof address);
    return AI_RELOC_RT_ERR_NONE;
}

int atonc_reloc_reset_states(const NN_Instance_TypeDef *nn_instance) {
    if (ll_aton_reloc_is_valid(nn_instance) != 1) {
        return AI_RELOC_RT_ERR_INVALID_HDL;
    }
    LL_ATON_User_IO_Result_t done =
        ai_rel_network_set_input(nn_instance->exec_state.inst_reloc, ATONC_RELOC_RESET_STATES, NULL, 0);
    return done == LL_ATON_User_IO_NOERROR ? AI_RELOC_RT_ERR_NONE : AI_RELOC_RT_ERR_NOT_SUPPORTED;
}

/* ---- entry points ---- */

#define ENTER(inst, entry, a, b, c, otherwise) (handle_error(inst) ? (otherwise) : enter(inst, entry, a, b, c))

bool ai_rel_network_ec_network_init(uintptr_t inst) {
    return (uint8_t)ENTER(inst, ENTRY_NETWORK_INIT, 0, 0, 0, 0) != 0; /* a bool is a byte */
}
bool ai_rel_network_ec_inference_init(uintptr_t inst) {
    return (uint8_t)ENTER(inst, ENTRY_INFERENCE_INIT, 0, 0, 0, 0) != 0;
}
LL_ATON_User_IO_Result_t ai_rel_network_set_input(uintptr_t inst, uint32_t num, void *buffer, uint32_t size) {
    return (LL_ATON_User_IO_Result_t)(uint8_t)ENTER(inst, ENTRY_SET_INPUT, num, (uintptr_t)buffer, size,
                                                    LL_ATON_User_IO_WRONG_INDEX);
}
void *ai_rel_network_get_input(uintptr_t inst, uint32_t num) {
    return (void *)ENTER(inst, ENTRY_GET_INPUT, num, 0, 0, 0);
}
LL_ATON_User_IO_Result_t ai_rel_network_set_output(uintptr_t inst, uint32_t num, void *buffer, uint32_t size) {
    return (LL_ATON_User_IO_Result_t)(uint8_t)ENTER(inst, ENTRY_SET_OUTPUT, num, (uintptr_t)buffer, size,
                                                    LL_ATON_User_IO_WRONG_INDEX);
}
void *ai_rel_network_get_output(uintptr_t inst, uint32_t num) {
    return (void *)ENTER(inst, ENTRY_GET_OUTPUT, num, 0, 0, 0);
}
const LL_ATON_RT_EpochBlockItem_t *ai_rel_network_get_epoch_items(uintptr_t inst) {
    return (const LL_ATON_RT_EpochBlockItem_t *)ENTER(inst, ENTRY_EPOCHS, 0, 0, 0, 0);
}
const LL_Buffer_InfoTypeDef *ai_rel_network_get_output_buffers_info(uintptr_t inst) {
    return (const LL_Buffer_InfoTypeDef *)ENTER(inst, ENTRY_OUTPUTS, 0, 0, 0, 0);
}
const LL_Buffer_InfoTypeDef *ai_rel_network_get_input_buffers_info(uintptr_t inst) {
    return (const LL_Buffer_InfoTypeDef *)ENTER(inst, ENTRY_INPUTS, 0, 0, 0, 0);
}
const LL_Buffer_InfoTypeDef *ai_rel_network_get_internal_buffers_info(uintptr_t inst) {
    return (const LL_Buffer_InfoTypeDef *)ENTER(inst, ENTRY_INTERNALS, 0, 0, 0, 0);
}

void ai_rel_call_start_end_function(uintptr_t inst, EpochBlock_FuncPtr_t fct,
                                    const LL_ATON_RT_EpochBlockItem_t *epoch_block,
                                    const NN_Instance_TypeDef *nn_instance) {
    (void)call(word_at(inst + 4u * CTX_RAM), (uintptr_t)fct, (uintptr_t)epoch_block, (uintptr_t)nn_instance, 0);
}

/* ---- for applications ---- */

static uintptr_t handle_of(const NN_Instance_TypeDef *instance) {
    return instance == NULL ? 0 : instance->exec_state.inst_reloc;
}

/* Constants may follow the inputs; behind the last buffer stands one without a name. */
static const LL_Buffer_InfoTypeDef *one_of(const LL_Buffer_InfoTypeDef *list, int32_t num) {
    if (num < 0 || list == NULL) {
        return list;
    }
    for (; num > 0 && list->name != NULL && !list->is_param; num--) {
        list++;
    }
    return num == 0 && !list->is_param ? list : NULL;
}

const LL_Buffer_InfoTypeDef *ll_aton_reloc_get_input_buffers_info(const NN_Instance_TypeDef *nn_instance, int32_t num) {
    return one_of(ai_rel_network_get_input_buffers_info(handle_of(nn_instance)), num);
}
const LL_Buffer_InfoTypeDef *ll_aton_reloc_get_output_buffers_info(const NN_Instance_TypeDef *nn_instance, int32_t num) {
    return one_of(ai_rel_network_get_output_buffers_info(handle_of(nn_instance)), num);
}
const LL_Buffer_InfoTypeDef *ll_aton_reloc_get_internal_buffers_info(const NN_Instance_TypeDef *nn_instance) {
    return ai_rel_network_get_internal_buffers_info(handle_of(nn_instance));
}
const LL_ATON_RT_EpochBlockItem_t *ll_aton_reloc_get_epoch_items(const NN_Instance_TypeDef *nn_instance) {
    return ai_rel_network_get_epoch_items(handle_of(nn_instance));
}
LL_ATON_User_IO_Result_t ll_aton_reloc_set_input(const NN_Instance_TypeDef *nn_instance, uint32_t num, void *buffer,
                                                 uint32_t size) {
    return ai_rel_network_set_input(handle_of(nn_instance), num, buffer, size);
}
LL_ATON_User_IO_Result_t ll_aton_reloc_set_output(const NN_Instance_TypeDef *nn_instance, uint32_t num, void *buffer,
                                                  uint32_t size) {
    return ai_rel_network_set_output(handle_of(nn_instance), num, buffer, size);
}
void *ll_aton_reloc_get_input(const NN_Instance_TypeDef *nn_instance, uint32_t num) {
    return ai_rel_network_get_input(handle_of(nn_instance), num);
}
void *ll_aton_reloc_get_output(const NN_Instance_TypeDef *nn_instance, uint32_t num) {
    return ai_rel_network_get_output(handle_of(nn_instance), num);
}
#endif
