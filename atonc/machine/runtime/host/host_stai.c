/* A network whose layers all run on the CPU, as a library of this computer: the interface by which ST's runner (the
 * `--dll` of its tool) loads, describes and runs it. The memories of the chip are mapped at their own addresses, so the
 * generated C file is the one that ships.
 *
 * NETWORK: the name of the network; REGIONS: { base, size }, ... of the memories that it uses. */

#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "atonc_runtime.h"
#include "ll_aton_NN_interface.h"
#include "mcu_cache.h"

#define PASTE_(a, b, c) a##b##c
#define PASTE(a, b, c) PASTE_(a, b, c)
#define STAI(what) PASTE(stai_, NETWORK, _##what)
#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)

enum { MOST = 32, PAGE = 1 << 16 };
enum { SUCCESS = 0, NO_MEMORY = 0x060000 };
enum { PREALLOCATED = 1 << 0, HAS_BATCH = 1 << 8 };
enum { OWN_ACTIVATIONS = 1 << 26, OWN_INPUTS = 1 << 27, OWN_OUTPUTS = 1 << 28, OWN_STATES = 1 << 29 };
enum { FLOAT32 = 0x821040, U8 = 0x40440, S8 = 0x840440, U16 = 0x40840, S16 = 0x840840, U32 = 0x41040, S32 = 0x841040 };
enum { BOOLEAN = 0x60440 };

typedef struct { int32_t size; const void *data; } host_array;
typedef struct {
    int32_t size_bytes, flags, format;
    host_array shape, scale, zeropoint;
    const char *name;
} host_tensor;
typedef struct { uint8_t major, minor, micro, reserved; } host_version;
typedef struct {
    const char *model_signature, *c_compile_datetime, *c_model_name, *c_model_datetime;
    uint32_t c_model_signature;
    host_version runtime, tool, api;
    uint64_t n_macc;
    uint32_t n_nodes;
    int32_t flags;
    uint16_t n_inputs, n_outputs, n_activations, n_weights, n_states;
    const host_tensor *inputs, *outputs, *activations, *weights, *states;
} host_info;
typedef struct { host_tensor *tensors; void *nodes; uint32_t n_nodes; } host_details;

const LL_ATON_RT_EpochBlockItem_t *PASTE(LL_ATON_EpochBlockItems_, NETWORK, )(void);
const LL_Buffer_InfoTypeDef *PASTE(LL_ATON_Input_Buffers_Info_, NETWORK, )(void);
const LL_Buffer_InfoTypeDef *PASTE(LL_ATON_Output_Buffers_Info_, NETWORK, )(void);

static const struct { uintptr_t base; size_t size; } regions[] = { REGIONS };
static host_tensor inputs[MOST], outputs[MOST];
static int mapped;
host_details PASTE(g_, NETWORK, _details);

/* The caches, the release and the memories of the chip: here there is nothing to do or to check. */
int mcu_cache_clean_range(uint32_t from, uint32_t to) { (void)from; (void)to; return 0; }
int mcu_cache_invalidate_range(uint32_t from, uint32_t to) { (void)from; (void)to; return 0; }
int mcu_cache_clean_invalidate_range(uint32_t from, uint32_t to) { (void)from; (void)to; return 0; }
bool atonc_check_version(unsigned a, unsigned b, unsigned c) { (void)a; (void)b; (void)c; return true; }
bool atonc_check_memories(const atonc_memory_t *list) { (void)list; return true; }

static int32_t format_of(const LL_Buffer_InfoTypeDef *b)
{
    switch (b->type) {
    case DataType_FLOAT: return FLOAT32;
    case DataType_UINT8: return U8;
    case DataType_INT8: return S8;
    case DataType_UINT16: return U16;
    case DataType_INT16: return S16;
    case DataType_UINT32: return U32;
    case DataType_INT32: return S32;
    case DataType_BOOL: return BOOLEAN;
    default: return b->Qunsigned ? (b->nbits == 16 ? U16 : U8) : (b->nbits == 16 ? S16 : S8);
    }
}

static uint16_t describe(const LL_Buffer_InfoTypeDef *b, host_tensor *tensors)
{
    uint16_t count = 0;
    for (; b->name != NULL && count < MOST; b++, count++) {
        const int quantised = b->scale != NULL && b->offset != NULL;
        tensors[count] = (host_tensor){
            .size_bytes = (int32_t)(b->offset_end - b->offset_start),
            .flags = PREALLOCATED | (b->mem_ndims > 0 && b->mem_shape[0] == 1 ? HAS_BATCH : 0),
            .format = format_of(b),
            .shape = { b->mem_ndims, b->mem_shape },
            .scale = { quantised, b->scale },
            .zeropoint = { quantised, b->offset },
            .name = b->name,
        };
    }
    return count;
}

static int32_t addresses(const LL_Buffer_InfoTypeDef *b, void **found, int32_t *count)
{
    int32_t k = 0;
    for (; b->name != NULL && k < MOST; b++, k++) found[k] = (void *)(b->addr_base.i + b->offset_start);
    *count = k;
    return SUCCESS;
}

int32_t STAI(get_context_size)(void) { return 8; }

int32_t STAI(init)(void *context)
{
    (void)context;
    for (size_t k = 0; k < sizeof regions / sizeof regions[0] && !mapped; k++) {
        const uintptr_t from = regions[k].base & ~(uintptr_t)(PAGE - 1);
        const size_t size = (regions[k].base + regions[k].size - from + PAGE - 1) & ~(size_t)(PAGE - 1);
        void *got = mmap((void *)from, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        if (got != (void *)from) return NO_MEMORY;
    }
    mapped = 1;
    return SUCCESS;
}

int32_t STAI(get_info)(void *context, host_info *info)
{
    (void)context;
    uint32_t nodes = 0;
    for (const LL_ATON_RT_EpochBlockItem_t *b = PASTE(LL_ATON_EpochBlockItems_, NETWORK, )();
         !(b->flags & EpochBlock_Flags_last_eb); b++) nodes++;
    *info = (host_info){
        .model_signature = "", .c_compile_datetime = "", .c_model_name = TEXT(NETWORK), .c_model_datetime = "",
        .n_nodes = nodes,
        .flags = OWN_ACTIVATIONS | OWN_INPUTS | OWN_OUTPUTS | OWN_STATES,
        .n_inputs = describe(PASTE(LL_ATON_Input_Buffers_Info_, NETWORK, )(), inputs),
        .n_outputs = describe(PASTE(LL_ATON_Output_Buffers_Info_, NETWORK, )(), outputs),
        .inputs = inputs, .outputs = outputs,
    };
    return SUCCESS;
}

int32_t STAI(get_inputs)(void *context, void **found, int32_t *count)
{
    (void)context;
    return addresses(PASTE(LL_ATON_Input_Buffers_Info_, NETWORK, )(), found, count);
}

int32_t STAI(get_outputs)(void *context, void **found, int32_t *count)
{
    (void)context;
    return addresses(PASTE(LL_ATON_Output_Buffers_Info_, NETWORK, )(), found, count);
}

int32_t STAI(run)(void *context, int32_t mode)
{
    (void)context;
    (void)mode;
    for (const LL_ATON_RT_EpochBlockItem_t *b = PASTE(LL_ATON_EpochBlockItems_, NETWORK, )();
         !(b->flags & EpochBlock_Flags_last_eb); b++) {
        if (b->start_epoch_block != NULL) b->start_epoch_block(b, NULL);
        if (b->end_epoch_block != NULL) b->end_epoch_block(b, NULL);
    }
    return SUCCESS;
}

/* The network brings its own memory; events of single layers are not passed on. */
int32_t STAI(set_activations)(void *c, void **p, int32_t n) { (void)c; (void)p; (void)n; return SUCCESS; }
int32_t STAI(set_states)(void *c, void **p, int32_t n) { (void)c; (void)p; (void)n; return SUCCESS; }
int32_t STAI(set_inputs)(void *c, void **p, int32_t n) { (void)c; (void)p; (void)n; return SUCCESS; }
int32_t STAI(set_outputs)(void *c, void **p, int32_t n) { (void)c; (void)p; (void)n; return SUCCESS; }
int32_t STAI(set_weights)(void *c, void **p, int32_t n) { (void)c; (void)p; (void)n; return SUCCESS; }
int32_t STAI(set_callback)(void *c, void *callback, void *cookie)
{
    (void)c; (void)callback; (void)cookie;
    return SUCCESS;
}
