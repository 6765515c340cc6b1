/* As much of the ST.AI types as the test of stai_<name>.c needs; names and values are those of the real header. */
#ifndef STAI_H
#define STAI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STAI_API_VERSION_MAJOR 1
#define STAI_API_VERSION_MINOR 0
#define STAI_API_VERSION_MICRO 0
#define STAI_TOOLS_VERSION_MAJOR 4
#define STAI_TOOLS_VERSION_MINOR 0
#define STAI_TOOLS_VERSION_MICRO 0
#define STAI_FLAG_NONE 0
#define STAI_FLAG_PREALLOCATED (1 << 0)
#define STAI_FLAG_REPLACEABLE (1 << 2)
#define STAI_FLAG_OVERRIDE (1 << 3)
#define STAI_FLAG_CHANNEL_FIRST (1 << 6)
#define STAI_FLAG_CHANNEL_LAST (1 << 7)
#define STAI_FLAG_ACTIVATIONS (1 << 26)
#define STAI_FLAG_INPUTS (1 << 27)
#define STAI_FLAG_OUTPUTS (1 << 28)
#define STAI_FLAG_WEIGHTS (1 << 30)

typedef enum {
  STAI_SUCCESS = 0,
  STAI_RUNNING_NO_WFE = 0x10,
  STAI_RUNNING_WFE = 0x11,
  STAI_DONE = 0x12,
  STAI_ERROR_NETWORK_INVALID_API_ARGUMENTS = 0x20001,
  STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE = 0x30000,
  STAI_ERROR_NETWORK_INVALID_CONTEXT_ALIGNMENT = 0x30002,
  STAI_ERROR_NETWORK_INVALID_ACTIVATIONS_PTR = 0x40000,
  STAI_ERROR_NETWORK_INVALID_ACTIVATIONS_NUM = 0x40001,
  STAI_ERROR_NETWORK_INVALID_IN_PTR = 0x40010,
  STAI_ERROR_NETWORK_INVALID_IN_NUM = 0x40011,
  STAI_ERROR_NETWORK_INVALID_OUT_PTR = 0x40020,
  STAI_ERROR_NETWORK_INVALID_OUT_NUM = 0x40021,
  STAI_ERROR_NETWORK_INVALID_STATES_PTR = 0x40030,
  STAI_ERROR_NETWORK_INVALID_STATES_NUM = 0x40031,
  STAI_ERROR_NETWORK_INVALID_WEIGHTS_PTR = 0x40040,
  STAI_ERROR_NETWORK_INVALID_WEIGHTS_NUM = 0x40041,
  STAI_ERROR_NOT_IMPLEMENTED = 0x40060,
  STAI_ERROR_INVALID_BUFFER_ALIGNMENT = 0x40070,
  STAI_ERROR_NETWORK_STILL_RUNNING = 0x50000
} stai_return_code;

typedef enum {
  STAI_FORMAT_NONE = 0x40,
  STAI_FORMAT_FLOAT32 = 0x821040,
  STAI_FORMAT_U8 = 0x40440,
  STAI_FORMAT_S8 = 0x840440
} stai_format;
typedef enum { STAI_MODE_SYNC = 1, STAI_MODE_ASYNC = 2 } stai_run_mode;
typedef int32_t stai_flags;
typedef uint8_t stai_network;
typedef uint8_t *stai_ptr;
typedef uint32_t stai_size;
typedef struct { stai_size size; const float *data; } stai_array_f32;
typedef struct { stai_size size; const int16_t *data; } stai_array_s16;
typedef struct { stai_size size; const int32_t *data; } stai_shape;
typedef struct { uint8_t major, minor, micro, reserved; } stai_version;
typedef struct {
  stai_size size_bytes;
  stai_flags flags;
  stai_format format;
  stai_shape shape;
  stai_array_f32 scale;
  stai_array_s16 zeropoint;
  const char *name;
} stai_tensor;
typedef struct {
  const char *model_signature, *c_compile_datetime, *c_model_name, *c_model_datetime;
  uint32_t c_model_signature;
  stai_version runtime_version, tool_version, api_version;
  uint64_t n_macc;
  uint32_t n_nodes;
  int32_t flags;
  uint16_t n_inputs, n_outputs, n_activations, n_weights, n_states;
  const stai_tensor *inputs, *outputs, *activations, *weights, *states;
} stai_network_info;
typedef int32_t stai_event_type;
typedef void (*stai_event_cb)(void *cookie, const stai_event_type type, const void *payload);

#endif
