/* SPDX-License-Identifier: Apache-2.0
 * The networks of this image behind ST's validation protocol: any client of it may run and measure them.
 */
#include "atonc_wire.h"
#include "wire_chip.h"
#include "wire_messages.h"
#include "wire_packets.h"

#include "ll_aton_runtime.h"
#include "mcu_cache.h"

#include <string.h>

#include "networks.h" /* written by the build: ATONC_NETWORKS(use) names the networks, ATONC_SIGNATURES their hashes */

#ifndef ATONC_WIRE_MINOR
#define ATONC_WIRE_MINOR 1 /* of protocol 3; 2 is the newest */
#endif
#define CAN_PROGRAMS 0x100u /* other programs for blocks; gives up a run whose inputs are not acknowledged */
#define CAN_RESET 0x200u    /* gives the states of a network their first values */
#define CAPABILITY (1u | 8u | CAN_PROGRAMS | CAN_RESET) /* per layer; memory; the above */
#define CHUNK 1024u
#define MOST_BLOCKS 128u /* of a network whose programs can be exchanged */
#ifndef ATONC_WIRE_BUFFERS /* memory for inputs and outputs that the application brings */
#define ATONC_WIRE_BUFFERS 0x91000000u /* the upper half of the external RAM */
#endif

#define DECLARE(name) LL_ATON_DECLARE_NAMED_NN_INSTANCE_AND_INTERFACE(name)
#define INSTANCE(name) &NN_Instance_##name,
ATONC_NETWORKS(DECLARE)
static NN_Instance_TypeDef *const networks[] = {ATONC_NETWORKS(INSTANCE)};
static const char *const signatures[] = {ATONC_SIGNATURES};
#define NETWORKS (sizeof networks / sizeof networks[0])
#ifndef ATONC_RESETS
#define ATONC_RESETS NULL
#endif
static void (*const resets[NETWORKS])(void) = {ATONC_RESETS}; /* NULL: it keeps nothing */

static wire_request_t request;
static uint32_t minor;
static struct {
    uint32_t mode;
    uint64_t at; /* cycles when something last began */
    uint64_t part[3], total[5];
} times;

static uint32_t blocks_of(const NN_Instance_TypeDef *network) {
    uint32_t count = 0;
    const LL_ATON_RT_EpochBlockItem_t *block = network->network->epoch_block_items();
    for (; !EpochBlock_IsLastEpochBlock(block); block++)
        count++;
    return count;
}

static void clean(const LL_Buffer_InfoTypeDef *tensor) {
    const uint32_t start = (uint32_t)(uintptr_t)LL_Buffer_addr_start(tensor);
    mcu_cache_clean_range(start, start + LL_Buffer_len(tensor));
}

static void invalidate(const LL_Buffer_InfoTypeDef *tensor) {
    const uint32_t start = (uint32_t)(uintptr_t)LL_Buffer_addr_start(tensor);
    mcu_cache_invalidate_range(start, start + LL_Buffer_len(tensor));
}

/* The processor sees what is in memory, and memory holds what the processor wrote. */
static void level(const void *at, uint32_t size) {
    const uint32_t start = (uint32_t)(uintptr_t)at;
    mcu_cache_clean_invalidate_range(start, start + size);
}

/* ---------------------------------------------------------------------------------------------------------- layers */

/* Tensors that the last epoch of the block has written: those of epochs before it may be written over already. */
static bool fresh(const LL_Buffer_InfoTypeDef *tensor, const LL_ATON_RT_EpochBlockItem_t *block) {
    const int first = block->epoch_num, last = block->last_epoch_num;
    return (int)tensor->epoch == (last > first ? last : first);
}

static void tell_layer(const NN_Instance_TypeDef *network, const LL_ATON_RT_EpochBlockItem_t *block) {
    const LL_Buffer_InfoTypeDef *list = network->network->internal_buffers_info();
    uint32_t tensors = 0;
    for (const LL_Buffer_InfoTypeDef *at = wire_next(list); at; at = wire_next(at + 1))
        tensors += fresh(at, block);
    const wire_operator_t op = {
        .name = "",
        .type = (OP_INTERNAL | (tensors ? 0u : (uint32_t)OP_BARE)) << 24 | (block->flags & 0xFFFFu),
        .id = (uint32_t)(uint16_t)block->last_epoch_num << 16 | (uint16_t)block->epoch_num,
        .cycles = times.part[0] + times.part[1] + times.part[2],
        .counters = times.part,
        .count = 3,
    };
    wire_operator(request.id, &op);
    for (const LL_Buffer_InfoTypeDef *at = wire_next(list); at; at = wire_next(at + 1)) {
        if (!fresh(at, block))
            continue;
        tensors--;
        uint32_t flags = TENSOR_INTERNAL | (tensors ? 0u : (uint32_t)TENSOR_LAST);
        if (times.mode & RUN_DATA)
            level(LL_Buffer_addr_start(at), LL_Buffer_len(at));
        else
            flags |= TENSOR_BARE;
        wire_tensor(request.id, STATE_PROCESSING, at, flags);
    }
}

/* Before, core and after of a block, in the order of the events. */
static void observe(LL_ATON_RT_Callbacktype_t event, const NN_Instance_TypeDef *network,
                    const LL_ATON_RT_EpochBlockItem_t *block) {
    const uint64_t now = wire_cycles();
    if (event > LL_ATON_RT_Callbacktype_PRE_START && event <= LL_ATON_RT_Callbacktype_POST_END) {
        const uint32_t which = (uint32_t)event - 1u;
        times.part[which] = now - times.at;
        times.total[which] += times.part[which];
    }
    if (event == LL_ATON_RT_Callbacktype_POST_END && block && times.mode & (RUN_LAYERS | RUN_DATA))
        tell_layer(network, block);
    times.at = wire_cycles();
}

/* -------------------------------------------------------------------------------------------------------- commands */

static void tell_model(uint32_t index) {
    const NN_Interface_TypeDef *network = networks[index]->network;
    const wire_model_t model = {network, signatures[index], blocks_of(networks[index]), network->input_buffers_info(),
                                network->output_buffers_info()};
    wire_model(request.id, &model, minor);
}

static bool take_inputs(const LL_Buffer_InfoTypeDef *list) {
    const LL_Buffer_InfoTypeDef *at = wire_next(list);
    wire_ack(request.id, STATE_WAITING, at ? LL_Buffer_len(at) : 0, ERROR_NONE);
    while (at) {
        uint32_t count;
        if (!wire_read_data(LL_Buffer_addr_start(at), LL_Buffer_len(at), &count))
            return false;
        if (count != LL_Buffer_len(at)) {
            wire_ack(request.id, STATE_ERROR, count, ERROR_SIZE);
            return false;
        }
        clean(at);
        at = wire_next(at + 1);
        wire_ack(request.id, at ? STATE_WAITING : STATE_PROCESSING, count, ERROR_NONE);
        if (!wire_read_ack())
            return false;
    }
    return true;
}

static bool execute(NN_Instance_TypeDef *network) {
    LL_ATON_RT_RetValues_t state;
    memset(&times.total, 0, sizeof times.total);
    LL_ATON_RT_SetEpochCallback(observe, network);
    const uint64_t start = wire_cycles();
    do {
        state = LL_ATON_RT_RunEpochBlock(network);
        if (state == LL_ATON_RT_WFE)
            LL_ATON_OSAL_WFE();
    } while (state != LL_ATON_RT_DONE);
    /* with layers told on the way, only what they took counts */
    const uint64_t parts = times.total[0] + times.total[1] + times.total[2];
    times.total[3] = times.mode & (RUN_LAYERS | RUN_DATA) ? parts : wire_cycles() - start;
    times.total[4] = 0;
    LL_ATON_RT_SetEpochCallback(NULL, network);
    const bool good = atonc_rt_status(network).code == ATONC_OK;
    LL_ATON_RT_Reset_Network(network);
    return good;
}

static void run(NN_Instance_TypeDef *network) {
    const NN_Interface_TypeDef *interface = network->network;
    times.mode = request.param;
    if (!take_inputs(interface->input_buffers_info()))
        return;
    if (!execute(network)) {
        wire_ack(request.id, STATE_ERROR, ERROR_FAILED, ERROR_FAILED);
        return;
    }
    const wire_operator_t op = {.name = interface->network_name,
                                .cycles = times.total[3],
                                .wide = true,
                                .counters = times.total,
                                .count = 5};
    wire_operator(request.id, &op);
    const LL_Buffer_InfoTypeDef *at = wire_next(interface->output_buffers_info());
    while (at) {
        const LL_Buffer_InfoTypeDef *next = wire_next(at + 1);
        invalidate(at);
        wire_tensor(request.id, next ? STATE_PROCESSING : STATE_DONE, at,
                    TENSOR_OUTPUT | (next ? 0u : (uint32_t)TENSOR_LAST) |
                        (request.param & RUN_TIMES ? (uint32_t)TENSOR_BARE : 0u));
        at = next;
    }
}

static uint32_t sum(const uint8_t *data, uint32_t size) {
    uint32_t total = 0;
    while (size--)
        total = ((total >> 1) + ((total & 1u) << 15) + *data++) & 0xFFFFu;
    return total;
}

static void read_memory(uint8_t *at, uint32_t size) {
    uint32_t part = size > CHUNK ? CHUNK : size;
    level(at, size);
    wire_ack(request.id, size ? STATE_PROCESSING : STATE_DONE, part, ERROR_NONE);
    while (size) {
        size -= part;
        wire_data(request.id, size ? STATE_PROCESSING : STATE_DONE, at, part);
        if (size && !wire_read_ack())
            return;
        at += part;
        part = size > CHUNK ? CHUNK : size;
    }
}

static void write_memory(uint8_t *at, uint32_t size) {
    static uint8_t part[CHUNK];
    wire_ack(request.id, size ? STATE_WAITING : STATE_DONE, size > CHUNK ? CHUNK : size, ERROR_NONE);
    while (size) {
        uint32_t count;
        if (!wire_read_data(part, CHUNK, &count))
            return;
        if (!count || count > CHUNK || count > size) {
            wire_ack(request.id, STATE_ERROR, count, ERROR_SIZE);
            return;
        }
        memcpy(at, part, count);
        level(at, count);
        size -= count;
        wire_ack(request.id, size ? STATE_WAITING : STATE_DONE, sum(at, count), ERROR_NONE);
        at += count;
    }
}

/* A client that looks for the first wrong layer lets programs of the controller end earlier: it writes such a program
 * into memory and has a block run that one. The list of blocks is constant, so a copy of it takes its place. */
static LL_ATON_RT_EpochBlockItem_t exchanged[MOST_BLOCKS];
static NN_Interface_TypeDef with_exchanged;
static const NN_Interface_TypeDef *original; /* of the one network whose blocks are exchanged */
static NN_Instance_TypeDef *holder;

static const LL_ATON_RT_EpochBlockItem_t *exchanged_blocks(void) { return exchanged; }

static void give_back(void) {
    if (!holder)
        return;
    holder->network = original;
    LL_ATON_RT_Reset_Network(holder);
    holder = NULL;
}

/* Address 0 gives all programs back. */
static bool exchange(NN_Instance_TypeDef *network, uint32_t block, uint32_t address) {
    if (network != holder || address == 0)
        give_back();
    if (address == 0)
        return true;
    const uint32_t count = blocks_of(network);
    if (count >= MOST_BLOCKS || block >= count)
        return false;
    if (!holder) {
        original = network->network;
        memcpy(exchanged, original->epoch_block_items(), (count + 1u) * sizeof exchanged[0]);
        with_exchanged = *original;
        with_exchanged.epoch_block_items = exchanged_blocks;
        network->network = &with_exchanged;
        holder = network;
    }
    if (!EpochBlock_IsEpochBlob(&exchanged[block]))
        return false;
    exchanged[block].blob_address = address;
    LL_ATON_RT_Reset_Network(network);
    return true;
}

static uint32_t number_of(const char *name) {
    uint32_t k = 0;
    while (k < NETWORKS && strcmp(networks[k]->network->network_name, name))
        k++;
    return k;
}

static NN_Instance_TypeDef *named(const char *name) {
    const uint32_t k = number_of(name);
    return k < NETWORKS ? networks[k] : NULL;
}

static bool reset_states(const char *name) {
    const uint32_t k = number_of(name);
    if (k < NETWORKS && resets[k])
        resets[k]();
    return k < NETWORKS;
}

static void obey(void) {
    NN_Instance_TypeDef *network;
    uint8_t *const address = (uint8_t *)(uintptr_t)request.param;
    minor = wire_is_narrow() ? 1 : ATONC_WIRE_MINOR;
    switch (request.command) {
    case CMD_SYNC:
        wire_sync(request.id, minor, CAPABILITY);
        return;
    case CMD_SYS_INFO:
        wire_system(request.id);
        return;
    case CMD_DISCONNECT:
        return;
    case CMD_INFO:
        if (request.param < NETWORKS)
            tell_model(request.param);
        else
            wire_ack(request.id, STATE_ERROR, ERROR_PARAMETER, ERROR_PARAMETER);
        return;
    case CMD_RUN:
        network = named(request.name);
        if (network)
            run(network);
        else
            wire_ack(request.id, STATE_ERROR, ERROR_PARAMETER, ERROR_PARAMETER);
        return;
    case CMD_READ:
        read_memory(address, request.option);
        return;
    case CMD_WRITE:
        write_memory(address, request.option);
        return;
    case CMD_PROGRAM:
        network = named(request.name);
        if (network && exchange(network, request.option, request.param))
            wire_ack(request.id, STATE_DONE, 0, ERROR_NONE);
        else
            wire_ack(request.id, STATE_ERROR, ERROR_PARAMETER, ERROR_PARAMETER);
        return;
    case CMD_RESET:
        if (reset_states(request.name))
            wire_ack(request.id, STATE_DONE, 0, ERROR_NONE);
        else
            wire_ack(request.id, STATE_ERROR, ERROR_PARAMETER, ERROR_PARAMETER);
        return;
    case CMD_CHECKSUM:
        wire_ack(request.id, STATE_DONE, sum(address, request.option), ERROR_NONE);
        return;
    default:
        wire_ack(request.id, STATE_ERROR, ERROR_COMMAND, ERROR_COMMAND);
    }
}

/* ------------------------------------------------------------------------------------------------------------- start */

static uint8_t *free_memory = (uint8_t *)ATONC_WIRE_BUFFERS;
static const char *complaint = "";

/* Inputs and outputs whose memory the application brings. */
static bool supply(const LL_Buffer_InfoTypeDef *list, LL_ATON_User_IO_Result_t (*set)(uint32_t, void *, uint32_t)) {
    uint32_t index = 0;
    for (const LL_Buffer_InfoTypeDef *at = wire_next(list); at; at = wire_next(at + 1), index++) {
        if (!at->is_user_allocated)
            continue;
        const uint32_t size = (LL_Buffer_len(at) + 63u) & ~63u;
        if (set(index, free_memory, size) != LL_ATON_User_IO_NOERROR)
            return false;
        free_memory += size + 64u; /* engines may prefetch behind the end */
    }
    return true;
}

static bool in_order(const NN_Instance_TypeDef *network) {
    const atonc_status_t status = atonc_rt_status(network);
    complaint = atonc_error_name(status.code);
    return status.code == ATONC_OK;
}

bool atonc_wire_start(void) {
    wire_chip_start();
    LL_ATON_RT_RuntimeInit();
    if (!in_order(NULL))
        return false;
    for (uint32_t k = 0; k < NETWORKS; k++) {
        const NN_Interface_TypeDef *network = networks[k]->network;
        LL_ATON_RT_Init_Network(networks[k]);
        if (!in_order(networks[k]))
            return false;
        complaint = "a buffer is refused";
        if (!supply(network->input_buffers_info(), network->input_setter) ||
            !supply(network->output_buffers_info(), network->output_setter))
            return false;
    }
    complaint = "";
    return true;
}

const char *atonc_wire_complaint(void) { return complaint; }

void atonc_wire_serve(void) {
    for (;;)
        if (wire_read_request(&request))
            obey();
}
