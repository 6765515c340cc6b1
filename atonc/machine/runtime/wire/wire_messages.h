/* SPDX-License-Identifier: Apache-2.0
 * The messages of the validation protocol that this harness reads and writes.
 */
#ifndef WIRE_MESSAGES_H
#define WIRE_MESSAGES_H

#include "ll_aton_runtime.h"

#include <stdbool.h>
#include <stdint.h>

enum { CMD_SYNC, CMD_SYS_INFO, CMD_DISCONNECT, CMD_INFO = 10, CMD_RUN, CMD_READ = 20, CMD_WRITE, CMD_CHECKSUM };
/* not ST's: another program for a block, where CAN_PROGRAMS is told; first values for states, where CAN_RESET is */
enum { CMD_PROGRAM = 70, CMD_RESET };
enum { STATE_IDLE, STATE_WAITING, STATE_PROCESSING, STATE_DONE, STATE_ERROR };
enum { ERROR_NONE, ERROR_SIZE, ERROR_PARAMETER = 4, ERROR_COMMAND = 6, ERROR_FAILED = 10 };
enum { TENSOR_INPUT = 1, TENSOR_OUTPUT = 2, TENSOR_INTERNAL = 4 };
enum { TENSOR_LAST = 0x100, TENSOR_BARE = 0x200, TENSOR_POOL = 0x400 };
enum { RUN_IO = 1, RUN_LAYERS = 2, RUN_DATA = 4, RUN_TIMES = 8 };
enum { OP_INTERNAL = 1, OP_BARE = 4 };

#define WIRE_NAME 64

typedef struct {
    uint32_t id, command, param, option;
    char name[WIRE_NAME];
} wire_request_t;

typedef struct {
    const char *name;
    uint32_t type, id;
    uint64_t cycles; /* of which the duration is told */
    bool wide;       /* counters of 64 bits */
    const uint64_t *counters;
    uint32_t count;
} wire_operator_t;

typedef struct {
    const NN_Interface_TypeDef *network;
    const char *signature;
    uint32_t blocks;
    const LL_Buffer_InfoTypeDef *inputs, *outputs;
} wire_model_t;

bool wire_read_request(wire_request_t *request);
bool wire_read_ack(void);
/* Content of a data message into memory; at most `room` bytes, all are counted. */
bool wire_read_data(void *into, uint32_t room, uint32_t *count);

void wire_ack(uint32_t id, uint32_t state, uint32_t param, uint32_t error);
void wire_sync(uint32_t id, uint32_t minor, uint32_t capability);
void wire_system(uint32_t id);
void wire_model(uint32_t id, const wire_model_t *model, uint32_t minor);
void wire_operator(uint32_t id, const wire_operator_t *op);
void wire_tensor(uint32_t id, uint32_t state, const LL_Buffer_InfoTypeDef *tensor, uint32_t flags);
void wire_data(uint32_t id, uint32_t state, const void *data, uint32_t size);

/* The next of a list of buffers that is no constant; NULL at its end. */
const LL_Buffer_InfoTypeDef *wire_next(const LL_Buffer_InfoTypeDef *at);

#endif
