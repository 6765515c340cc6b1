/* SPDX-License-Identifier: Apache-2.0
 * Names of error codes, for applications that print them.
 */
#include "atonc_runtime.h"

const char *atonc_error_name(atonc_error_t code) {
    switch (code) {
    case ATONC_OK: return "OK";
    case ATONC_ERR_NPU_VERSION: return "NPU_VERSION";
    case ATONC_ERR_RUNTIME_OFF: return "RUNTIME_OFF";
    case ATONC_ERR_NETWORK_OFF: return "NETWORK_OFF";
    case ATONC_ERR_NETWORK_INIT: return "NETWORK_INIT";
    case ATONC_ERR_MEMORY_MISSING: return "MEMORY_MISSING";
    case ATONC_ERR_BAD_INITIALISER: return "BAD_INITIALISER";
    case ATONC_ERR_WRONG_VERSION: return "WRONG_VERSION";
    case ATONC_ERR_INFERENCE_INIT: return "INFERENCE_INIT";
    case ATONC_ERR_BLOB_MAGIC: return "BLOB_MAGIC";
    case ATONC_ERR_BLOB_SIZE: return "BLOB_SIZE";
    case ATONC_ERR_BLOB_ADDRESS: return "BLOB_ADDRESS";
    case ATONC_ERR_TIMEOUT: return "TIMEOUT";
    case ATONC_ERR_CONTROLLER: return "CONTROLLER";
    case ATONC_ERR_NPU_IRQ: return "NPU_IRQ";
    case ATONC_ERR_UNIT_STUCK: return "UNIT_STUCK";
    case ATONC_ERR_BAD_CALL: return "BAD_CALL";
    case ATONC_ERR_UNSUPPORTED: return "UNSUPPORTED";
    }
    return "UNKNOWN";
}
