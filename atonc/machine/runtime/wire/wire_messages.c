/* SPDX-License-Identifier: Apache-2.0
 * Protocol buffers by hand. A message inside a message needs its length first: each is written twice, the first time
 * only counted.
 */
#include "wire_messages.h"
#include "wire_chip.h"
#include "wire_packets.h"

#include "ll_aton_version.h"

#include <string.h>

#define RUNTIME (4u | 1u << 8 | 1u << 16 | 4u << 24) /* Neural-ART by the ST AI interface, GCC, no MACs told */
#define VERSION ((uint32_t)LL_ATON_VERSION_MAJOR << 24 | LL_ATON_VERSION_MINOR << 16 | LL_ATON_VERSION_MICRO << 8)

/* -------------------------------------------------------------------------------------------------------- reading */

typedef struct {
    uint32_t left;
} part_t;

static bool take(part_t *part, uint64_t *number) {
    uint32_t used = 0;
    if (!part->left || !wire_varint(number, &used) || used > part->left)
        return false;
    part->left -= used;
    return true;
}

/* The next field: its number, and its value or how many bytes of content follow. */
static bool field(part_t *part, uint32_t *key, uint64_t *value, bool *content) {
    uint64_t tag;
    if (!take(part, &tag))
        return false;
    *key = (uint32_t)(tag >> 3);
    *content = (tag & 7u) == 2u;
    if ((tag & 7u) != 0u && !*content)
        return false;
    return take(part, value) && (!*content || *value <= part->left);
}

static bool skip(part_t *part, uint64_t count) {
    uint8_t byte;
    for (; count; count--, part->left--)
        if (!wire_byte(&byte))
            return false;
    return true;
}

bool wire_read_request(wire_request_t *request) {
    part_t part;
    uint32_t key;
    uint64_t value;
    bool content;
    memset(request, 0, sizeof *request);
    if (!wire_begin(&part.left))
        return false;
    while (part.left) {
        if (!field(&part, &key, &value, &content))
            return false;
        if (content) {
            for (uint32_t k = 0; k < value; k++, part.left--) {
                uint8_t byte;
                if (!wire_byte(&byte))
                    return false;
                if (key == 4 && k < WIRE_NAME - 1)
                    request->name[k] = (char)byte;
            }
            continue;
        }
        uint32_t *const places[] = {&request->id, &request->command, &request->param, NULL, &request->option};
        if (key >= 1 && key <= 5 && places[key - 1])
            *places[key - 1] = (uint32_t)value;
    }
    return true;
}

bool wire_read_ack(void) {
    part_t part;
    return wire_begin(&part.left) && skip(&part, part.left);
}

bool wire_read_data(void *into, uint32_t room, uint32_t *count) {
    part_t part;
    uint32_t key;
    uint64_t value;
    bool content;
    *count = 0;
    if (!wire_begin(&part.left))
        return false;
    while (part.left) {
        if (!field(&part, &key, &value, &content))
            return false;
        for (; content && value; value--, part.left--) {
            uint8_t byte;
            if (!wire_byte(&byte))
                return false;
            if (key == 4) {
                if (*count < room)
                    ((volatile uint8_t *)into)[*count] = byte;
                (*count)++;
            }
        }
    }
    return true;
}

/* -------------------------------------------------------------------------------------------------------- writing */

static uint32_t *counted; /* where bytes are counted instead of sent */

static void put(const void *data, uint32_t size) {
    if (counted)
        *counted += size;
    else
        wire_put(data, size);
}

static void number(uint64_t value) {
    do {
        const uint8_t byte = (uint8_t)(value & 0x7Fu) | (value > 0x7Fu ? 0x80u : 0u);
        put(&byte, 1);
        value >>= 7;
    } while (value);
}

static void whole(uint32_t key, uint64_t value) {
    number(key << 3);
    number(value);
}

static void real(uint32_t key, float value) {
    number(key << 3 | 5u);
    put(&value, 4);
}

static void bytes(uint32_t key, const void *data, uint32_t size) {
    number(key << 3 | 2u);
    number(size);
    put(data, size);
}

static void text(uint32_t key, const char *value) { bytes(key, value, value ? (uint32_t)strlen(value) : 0); }

typedef void (*writer_t)(const void *what);

static void inner(uint32_t key, writer_t writer, const void *what) {
    uint32_t *const outer = counted;
    uint32_t measured = 0;
    counted = &measured;
    writer(what);
    counted = outer;
    number(key << 3 | 2u);
    number(measured);
    writer(what);
}

static void answer(uint32_t id, uint32_t state, uint32_t key, writer_t writer, const void *what) {
    whole(1, id);
    whole(2, state);
    inner(key, writer, what);
    wire_end();
}

static void write_pair(const void *what) {
    const uint32_t *pair = what;
    whole(1, pair[0]);
    whole(2, pair[1]);
}

void wire_ack(uint32_t id, uint32_t state, uint32_t param, uint32_t error) {
    const uint32_t pair[2] = {param, error};
    answer(id, state, 12, write_pair, pair);
}

static void write_sync(const void *what) {
    const uint32_t *words = what;
    whole(1, 3u << 8 | words[0]);
    whole(4, words[1]);
    whole(5, RUNTIME & 0xFFFFFFu);
}

void wire_sync(uint32_t id, uint32_t minor, uint32_t capability) {
    const uint32_t words[2] = {minor, capability};
    answer(id, STATE_IDLE, 10, write_sync, words);
}

static void write_system(const void *what) {
    const uint32_t extra[] = {0, wire_npu_hz(), wire_npu_ram_hz(), 0};
    (void)what;
    whole(1, 0x486);
    whole(2, wire_cpu_hz());
    whole(3, wire_bus_hz());
    whole(4, 0);
    if (!wire_is_narrow())
        whole(5, 0); /* the packet size stays */
    for (uint32_t k = 0; k < 4; k++)
        whole(wire_is_narrow() ? 5 : 6, extra[k]);
}

void wire_system(uint32_t id) { answer(id, STATE_IDLE, 11, write_system, NULL); }

/* -------------------------------------------------------------------------------------------------------- tensors */

typedef struct {
    const LL_Buffer_InfoTypeDef *tensor;
    uint32_t flags;
} described_t;

const LL_Buffer_InfoTypeDef *wire_next(const LL_Buffer_InfoTypeDef *at) {
    while (at && at->name && at->is_param)
        at++;
    return at && at->name ? at : NULL;
}

static uint32_t format_of(const LL_Buffer_InfoTypeDef *tensor) {
    const uint32_t bits = tensor->nbits;
    switch (tensor->type) {
    case DataType_FLOAT:
        return 1u << 23 | 1u << 17 | 32u << 7 | 64u;
    case DataType_BOOL:
        return 3u << 17 | 8u << 7 | 64u;
    case DataType_UINT8:
    case DataType_UINT16:
    case DataType_UINT32:
    case DataType_UINT64:
        return 2u << 17 | bits << 7 | 64u;
    default:
        return 1u << 23 | 2u << 17 | bits << 7 | 64u;
    }
}

static void write_described(const void *what) {
    const described_t *described = what;
    const LL_Buffer_InfoTypeDef *tensor = described->tensor;
    uint32_t elements = 1;
    for (uint32_t k = 0; k < tensor->mem_ndims; k++)
        elements *= tensor->mem_shape[k];
    text(1, tensor->name);
    whole(2, format_of(tensor));
    whole(3, elements);
    whole(4, tensor->mem_ndims);
    for (uint32_t k = 0; k < tensor->mem_ndims; k++)
        whole(5, tensor->mem_shape[k]);
    real(6, tensor->scale ? tensor->scale[0] : 0.0f);
    whole(7, tensor->scale && tensor->offset ? (uint64_t)(int64_t)tensor->offset[0] : 0);
    whole(8, (uint32_t)(uintptr_t)LL_Buffer_addr_start(tensor));
    whole(9, described->flags);
}

typedef struct {
    const void *data;
    uint32_t size, address;
} content_t;

static void write_content(const void *what) {
    const content_t *content = what;
    whole(1, 0);
    whole(2, content->size);
    whole(3, content->address);
    bytes(4, content->data, content->size);
}

static void write_tensor(const void *what) {
    const described_t *described = what;
    const LL_Buffer_InfoTypeDef *tensor = described->tensor;
    void *const start = LL_Buffer_addr_start(tensor);
    const uint32_t size = described->flags & TENSOR_BARE ? 0 : LL_Buffer_len(tensor);
    const content_t content = {start, size, (uint32_t)(uintptr_t)start};
    inner(1, write_described, described);
    inner(2, write_content, &content);
}

void wire_tensor(uint32_t id, uint32_t state, const LL_Buffer_InfoTypeDef *tensor, uint32_t flags) {
    const described_t described = {tensor, flags};
    answer(id, state, 17, write_tensor, &described);
}

void wire_data(uint32_t id, uint32_t state, const void *data, uint32_t size) {
    const content_t content = {data, size, (uint32_t)(uintptr_t)data};
    answer(id, state, 15, write_content, &content);
}

/* -------------------------------------------------------------------------------------------------------- networks */

static uint32_t write_list(uint32_t key, const LL_Buffer_InfoTypeDef *list, uint32_t flags) {
    uint32_t count = 0;
    for (const LL_Buffer_InfoTypeDef *at = wire_next(list); at; at = wire_next(at + 1), count++) {
        const described_t described = {at, flags | (at->is_user_allocated ? 0u : (uint32_t)TENSOR_POOL)};
        if (key)
            inner(key, write_described, &described);
    }
    return count;
}

typedef struct {
    const wire_model_t *model;
    uint32_t minor;
} told_t;

static void write_model(const void *what) {
    const told_t *told = what;
    const wire_model_t *model = told->model;
    text(1, model->network->network_name);
    whole(2, RUNTIME | 3u << 24); /* nor activations and parameters */
    text(3, model->signature);
    text(4, "-");
    whole(5, VERSION);
    whole(6, VERSION);
    whole(7, 0);
    whole(8, model->blocks);
    whole(10, write_list(0, model->inputs, 0));
    write_list(11, model->inputs, TENSOR_INPUT);
    whole(12, write_list(0, model->outputs, 0));
    write_list(13, model->outputs, TENSOR_OUTPUT);
    whole(14, 0);
    whole(16, 0);
    text(20, "atonc " LL_ATON_VERSION_NAME);
    if (told->minor >= 2) {
        real(21, 0.0f);
        real(22, 0.0f);
    }
}

void wire_model(uint32_t id, const wire_model_t *model, uint32_t minor) {
    const told_t told = {model, minor};
    answer(id, STATE_IDLE, 22, write_model, &told);
}

static void write_operator(const void *what) {
    const wire_operator_t *op = what;
    text(1, op->name);
    whole(2, op->type);
    whole(3, op->id);
    real(4, (float)((double)op->cycles * 1e3 / wire_cpu_hz()));
    whole(5, op->wide ? 0 : 1u << 16);
    for (uint32_t k = 0; k < op->count; k++) {
        whole(6, (uint32_t)op->counters[k]);
        if (op->wide)
            whole(6, (uint32_t)(op->counters[k] >> 32));
    }
    whole(7, ~0ull); /* stack and heap: not known */
    whole(8, ~0ull);
}

void wire_operator(uint32_t id, const wire_operator_t *op) { answer(id, STATE_PROCESSING, 16, write_operator, op); }
