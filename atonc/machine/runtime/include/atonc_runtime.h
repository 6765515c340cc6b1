/* SPDX-License-Identifier: Apache-2.0
 * What this runtime offers beyond LL_ATON: errors instead of assertions, a watchdog, checks of memories and data.
 *
 * An error ends the inference: LL_ATON_RT_RunEpochBlock returns LL_ATON_RT_DONE, so that loops written for LL_ATON
 * end, and atonc_rt_status says what happened and where. Nothing waits for ever.
 */
#ifndef ATONC_RUNTIME_H
#define ATONC_RUNTIME_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    ATONC_OK = 0,
    /* found when the runtime or a network is initialised: only another initialisation clears them */
    ATONC_ERR_NPU_VERSION = 1,     /* a unit answers with an unknown version; detail: unit << 16 | type and version */
    ATONC_ERR_RUNTIME_OFF = 2,     /* LL_ATON_RT_RuntimeInit was not called */
    ATONC_ERR_NETWORK_OFF = 3,     /* LL_ATON_RT_Init_Network was not called, or the instance names no network */
    ATONC_ERR_NETWORK_INIT = 4,    /* the network's own start-up function refused, for instance a damaged container */
    ATONC_ERR_MEMORY_MISSING = 5,  /* atonc_memory_ready said no; detail: address */
    ATONC_ERR_BAD_INITIALISER = 6, /* constants in memory are not those of the network; detail: address */
    ATONC_ERR_WRONG_VERSION = 7,   /* the network was made for another runtime; detail: its version */
    /* found while a network runs: LL_ATON_RT_Reset_Network clears them */
    ATONC_ERR_INFERENCE_INIT = 16, /* relocation before the inference failed */
    ATONC_ERR_BLOB_MAGIC = 17,     /* no epoch controller blob at its address; detail: the word found */
    ATONC_ERR_BLOB_SIZE = 18,      /* the blob's length is impossible; detail: the length */
    ATONC_ERR_BLOB_ADDRESS = 19,   /* the blob is not aligned to 8 bytes; detail: address */
    ATONC_ERR_TIMEOUT = 20,        /* the NPU did not finish in time; detail: stream engines or controller waited for */
    ATONC_ERR_CONTROLLER = 21,     /* the epoch controller reports an error; detail: its IRQ register */
    ATONC_ERR_NPU_IRQ = 22,        /* an error interrupt of the NPU; detail: the lines */
    ATONC_ERR_UNIT_STUCK = 23,     /* a unit did not end a reset; detail: unit */
    ATONC_ERR_BAD_CALL = 24,       /* a driver call had impossible arguments; detail: negative LL_ATON result */
    ATONC_ERR_UNSUPPORTED = 25     /* a library layer has a form that this runtime does not compute */
} atonc_error_t;

typedef struct {
    atonc_error_t code;
    uint32_t epoch;  /* label of the epoch controller, or the epoch number of the block where it is known */
    uint32_t block;  /* index in the list of epoch blocks */
    uint32_t detail; /* see the codes */
} atonc_status_t;

struct __nn_instance_struct;

/* The first error of a network since it was initialised or reset; NULL asks for errors of the runtime itself. */
atonc_status_t atonc_rt_status(const struct __nn_instance_struct *instance);
/* A short English name for a code, without prefix. Not linked unless used. */
const char *atonc_error_name(atonc_error_t code);
/* Records an error of the network that runs at present. For CPU layers and drivers. */
void atonc_rt_fail(atonc_error_t code, uint32_t detail);
/* The callback type with which the callback of a network hears of an error. */
#define LL_ATON_RT_Callbacktype_ATONC_ERROR ((LL_ATON_RT_Callbacktype_t)100)

/* Watchdog. One wait for the NPU may take `polls` looks at its state, or `milliseconds` where atonc_tick_ms counts.
 * 0 means no limit of that kind. */
#ifndef ATONC_WATCHDOG_POLLS
#define ATONC_WATCHDOG_POLLS 100000000UL /* some seconds at 800 MHz */
#endif
#ifndef ATONC_WATCHDOG_MS
#define ATONC_WATCHDOG_MS 5000UL
#endif
#ifndef ATONC_WATCHDOG_TICK_POLLS
#define ATONC_WATCHDOG_TICK_POLLS 20000UL /* what one period of SysTick counts while the core sleeps */
#endif
void atonc_set_watchdog(uint32_t polls, uint32_t milliseconds);

/* Hooks of the application (weak). */
uint32_t atonc_tick_ms(void);                           /* milliseconds since some time; constant: no clock */
bool atonc_memory_ready(uintptr_t base, uint32_t size); /* is this memory clocked, powered and mapped? */

/* A memory that a network needs, and what must be in it. Networks of atonc carry a list that ends with size 0; they
 * give it to atonc_check_memories in their start-up function. */
typedef struct {
    uintptr_t base;
    uint32_t size;        /* bytes that the network uses from base */
    uint32_t initialised; /* bytes at base that hold constants, 0: none */
    uint32_t crc32;       /* of these bytes, as zlib computes it; 0: not checked */
} atonc_memory_t;
bool atonc_check_memories(const atonc_memory_t *list);
/* CRC-32 (zlib) of `size` bytes against `crc32`; records ATONC_ERR_BAD_INITIALISER otherwise. */
bool atonc_check_initialiser(uintptr_t address, uint32_t size, uint32_t crc32);
uint32_t atonc_crc32(const void *data, uint32_t size, uint32_t crc);
/* Whether a network made for this version may run here; records ATONC_ERR_WRONG_VERSION otherwise. */
bool atonc_check_version(unsigned major, unsigned minor, unsigned micro);

#ifdef __cplusplus
}
#endif

#endif
