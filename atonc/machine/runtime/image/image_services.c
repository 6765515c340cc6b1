/* SPDX-License-Identifier: Apache-2.0
 * What the network and the drivers in an image expect of a runtime, handed on to the firmware.
 *
 * r9 holds the base of the image's data; the firmware's functions keep it, as the procedure call standard wants.
 */
#include "atonc_runtime.h"
#include "image.h"
#include "mcu_cache.h"
#include "npu_cache.h"

static const atonc_image_callbacks_t *callbacks(void) { return atonc_image_context.cbs; }

#define HAND_ON(function, start, end)                                                                                  \
    if (callbacks() != NULL && callbacks()->function != NULL && (end) > (start)) {                                     \
        callbacks()->function(start, (end) - (start));                                                                 \
    }

int mcu_cache_clean_range(uint32_t start_addr, uint32_t end_addr) {
    HAND_ON(mcu_clean, start_addr, end_addr)
    return 0;
}

int mcu_cache_invalidate_range(uint32_t start_addr, uint32_t end_addr) {
    HAND_ON(mcu_invalidate, start_addr, end_addr)
    return 0;
}

int mcu_cache_clean_invalidate_range(uint32_t start_addr, uint32_t end_addr) {
    HAND_ON(mcu_clean_invalidate, start_addr, end_addr)
    return 0;
}

void npu_cache_clean_range(uint32_t start_addr, uint32_t end_addr) { HAND_ON(npu_clean, start_addr, end_addr) }

void npu_cache_clean_invalidate_range(uint32_t start_addr, uint32_t end_addr) {
    HAND_ON(npu_clean_invalidate, start_addr, end_addr)
}

/* The firmware's own assertion or status takes it from here. */
void atonc_rt_fail(atonc_error_t code, uint32_t detail) {
    if (callbacks() != NULL && callbacks()->ll_lib_error != NULL) {
        callbacks()->ll_lib_error((int)code, (int)detail, "relocatable image");
    }
}
