/* SPDX-License-Identifier: Apache-2.0
 * Inside a relocatable image: its context and the functions of the firmware that it may call.
 */
#ifndef ATONC_IMAGE_H
#define ATONC_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ll_aton_NN_interface.h"
#include "ll_aton_version.h"

#include "image_conf.h"

/* The first functions of the firmware's table: all published releases have them, in this order. */
typedef struct {
    void (*assert_func)(const char *file, int line, const char *function, const char *what);
    void (*ll_lib_error)(int code, int line, const char *function);
    void (*mcu_clean)(uintptr_t address, uint32_t size);
    void (*mcu_invalidate)(uintptr_t address, uint32_t size);
    void (*mcu_clean_invalidate)(uintptr_t address, uint32_t size);
    void (*npu_clean)(uintptr_t address, uint32_t size);
    void (*npu_clean_invalidate)(uintptr_t address, uint32_t size);
} atonc_image_callbacks_t;
#define ATONC_IMAGE_CALLBACKS (sizeof(atonc_image_callbacks_t) / sizeof(void (*)(void)))

/* What the loader reads and completes. */
typedef struct {
    volatile uint32_t state;
    uint32_t file_addr;
    uint32_t ram_addr;
    uint32_t rom_addr;
    const atonc_image_callbacks_t *cbs;
    const char *c_name;
    uint32_t acts_sz;
    uint32_t params_sz;
    uint32_t ext_ram_sz;
    const char *rt_version_desc;
    uint32_t rt_version;
    uint32_t rt_version_extra;
    uint32_t params_bin_sz;
    uint32_t params_bin_crc32;
#if ATONC_IMAGE_CONTEXT_WORDS > 16
    uint32_t rt_c_struct_sizes;
#endif
    NN_Instance_TypeDef *ll_instance;
    const NN_Interface_TypeDef *itf_network;
} atonc_image_context_t;

extern atonc_image_context_t atonc_image_context;

#endif
