/* SPDX-License-Identifier: Apache-2.0
 * What an image says about itself.
 */
#if defined(LL_ATON_RT_RELOC)
#include "atonc_reloc.h"

#include "ll_aton_util.h"

#define ALIGNED_UP(size) (((size) + 7u) & ~(uint32_t)7u)

int ll_aton_reloc_get_info(const uintptr_t file_ptr, ll_aton_reloc_info *rt) {
    atonc_image_t image;
    atonc_reloc_reason_t reason = rt == NULL ? ATONC_RELOC_ARGUMENT : atonc_image_examine(file_ptr, &image);
    atonc_reloc_set_reason(reason);
    if (reason != ATONC_RELOC_OK) {
        return AI_RELOC_RT_ERR_INVALID_BIN;
    }
    *rt = (ll_aton_reloc_info){
        .c_name = atonc_image_text(&image, atonc_image_context(&image, CTX_NAME)),
        .variant = image.flags,
        .code_sz = ALIGNED_UP(image.ro),
        .params_off = image.params,
        .params_sz = atonc_image_context(&image, CTX_PARAMS),
        .acts_sz = atonc_image_context(&image, CTX_ACTIVATIONS),
        .ext_ram_sz = ALIGNED_UP(atonc_image_context(&image, CTX_EXT_RAM)),
        .rt_ram_xip = ALIGNED_UP(image.rw),
        .rt_ram_copy = ALIGNED_UP(image.rw) + ALIGNED_UP(image.ro),
        .rt_version_desc = atonc_image_text(&image, atonc_image_context(&image, CTX_RUNTIME)),
        .rt_version = atonc_image_context(&image, CTX_VERSION),
        .rt_version_extra = atonc_image_context(&image, CTX_DEV),
    };
    return AI_RELOC_RT_ERR_NONE;
}

/* Prints where the build has ATONC_HAS_STDIO. */
void ll_aton_reloc_log_info(const uintptr_t file_ptr) {
    ll_aton_reloc_info info;
    if (ll_aton_reloc_get_info(file_ptr, &info) != AI_RELOC_RT_ERR_NONE) {
        LL_ATON_PRINTF("no usable image at 0x%08lx: %s\r\n", (unsigned long)file_ptr,
                       atonc_reloc_reason_name(atonc_reloc_reason()));
        return;
    }
    LL_ATON_PRINTF("image %s at 0x%08lx, flags 0x%08lx, %s\r\n", info.c_name, (unsigned long)file_ptr,
                   (unsigned long)info.variant, info.rt_version_desc);
    LL_ATON_PRINTF("  RAM: %lu in place, %lu copied; activations %lu, external RAM %lu\r\n",
                   (unsigned long)info.rt_ram_xip, (unsigned long)info.rt_ram_copy, (unsigned long)info.acts_sz,
                   (unsigned long)info.ext_ram_sz);
    LL_ATON_PRINTF("  parameters: %lu bytes at offset %lu\r\n", (unsigned long)info.params_sz,
                   (unsigned long)info.params_off);
}

const char *atonc_reloc_reason_name(atonc_reloc_reason_t reason) {
    switch (reason) {
    case ATONC_RELOC_OK: return "OK";
    case ATONC_RELOC_ADDRESS: return "ADDRESS";
    case ATONC_RELOC_MAGIC: return "MAGIC";
    case ATONC_RELOC_FORMAT: return "FORMAT";
    case ATONC_RELOC_CPU: return "CPU";
    case ATONC_RELOC_FPU: return "FPU";
    case ATONC_RELOC_SECURE: return "SECURE";
    case ATONC_RELOC_BUILD: return "BUILD";
    case ATONC_RELOC_SECTIONS: return "SECTIONS";
    case ATONC_RELOC_VERSION: return "VERSION";
    case ATONC_RELOC_CALLBACKS: return "CALLBACKS";
    case ATONC_RELOC_STRUCTS: return "STRUCTS";
    case ATONC_RELOC_CODE_CRC: return "CODE_CRC";
    case ATONC_RELOC_PARAMS_CRC: return "PARAMS_CRC";
    case ATONC_RELOC_MODEL: return "MODEL";
    case ATONC_RELOC_POOLS: return "POOLS";
    case ATONC_RELOC_POOL_MEMORY: return "POOL_MEMORY";
    case ATONC_RELOC_PARAMS: return "PARAMS";
    case ATONC_RELOC_EXEC_RAM: return "EXEC_RAM";
    case ATONC_RELOC_EXT_RAM: return "EXT_RAM";
    case ATONC_RELOC_WORDS: return "WORDS";
    case ATONC_RELOC_ARGUMENT: return "ARGUMENT";
    }
    return "UNKNOWN";
}
#endif
