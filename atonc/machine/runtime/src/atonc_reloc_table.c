/* SPDX-License-Identifier: Apache-2.0
 * The functions that images call, in the order of their release.
 *
 * All releases begin with the same seven, and images of ours call no others. Library layers follow, in an order that
 * changed between 1.1.3-8 and 1.1.3-262 while the release number stayed: an image under the wrong table calls the
 * wrong function. Layers that this runtime does not have are NULL: an image of ST then reports the error itself.
 */
#if defined(LL_ATON_RT_RELOC)
#include "atonc_reloc.h"

#include "ll_aton_caches_interface.h"

#define OWN_CALLBACKS 7u
#define NEW_TABLE_FROM 100u /* builds of 1.1.3; 8 has the old table, 262 the new one, none between them is known */

static void assertion(const char *filename, int line, const char *function, const char *expr) {
    (void)filename, (void)function, (void)expr;
    atonc_reloc_abandon(ATONC_ERR_UNSUPPORTED, (uint32_t)line);
}

/* Images of ours give a code of this runtime and its detail, images of ST a result of their library and a line. */
static void library_error(int code, int line, const char *function) {
    (void)function;
    bool known = code >= ATONC_ERR_INFERENCE_INIT && code <= ATONC_ERR_UNSUPPORTED;
    atonc_rt_fail(known ? (atonc_error_t)code : ATONC_ERR_BAD_CALL, (uint32_t)line);
}

static void mcu_clean(uintptr_t address, uint32_t size) { LL_ATON_Cache_MCU_Clean_Range(address, size); }
static void mcu_invalidate(uintptr_t address, uint32_t size) { LL_ATON_Cache_MCU_Invalidate_Range(address, size); }
static void mcu_both(uintptr_t address, uint32_t size) { LL_ATON_Cache_MCU_Clean_Invalidate_Range(address, size); }
static void npu_clean(uintptr_t address, uint32_t size) { LL_ATON_Cache_NPU_Clean_Range(address, size); }
static void npu_both(uintptr_t address, uint32_t size) { LL_ATON_Cache_NPU_Clean_Invalidate_Range(address, size); }

#define SERVICES                                                                                                       \
    .assert_func = assertion, .ll_lib_error = library_error, .ll_aton_cache_mcu_clean_range = mcu_clean,               \
    .ll_aton_cache_mcu_invalidate_range = mcu_invalidate, .ll_aton_cache_mcu_clean_invalidate_range = mcu_both,        \
    .ll_aton_cache_npu_clean_range = npu_clean, .ll_aton_cache_npu_clean_invalidate_range = npu_both

static const struct ll_aton_reloc_callback services = {SERVICES};

#ifndef ATONC_EC_ONLY
typedef void (*any_function)(void);
#define LAYER(name) (any_function)(name)

/* 1.1.1 to 1.1.3-8 */
static const struct ll_aton_reloc_callback old_table = {
    SERVICES,
    .library =
        {
            [0] = LAYER(LL_ATON_LIB_Concat),
            [4] = LAYER(LL_ATON_LIB_DMA_SpaceToDepth),
            [6] = LAYER(LL_ATON_LIB_DMA_DepthToSpace),
            [8] = LAYER(LL_ATON_LIB_DMA_Outputs_Slice_SplitLike),
            [13] = LAYER(LL_ATON_LIB_DMA_Transpose),
        },
};

/* from 1.1.3-262 on */
static const struct ll_aton_reloc_callback new_table = {
    SERVICES,
    .library =
        {
            [0] = LAYER(LL_ATON_LIB_Concat),
            [2] = LAYER(LL_ATON_LIB_DMA_Transpose),
            [5] = LAYER(LL_ATON_LIB_DMA_SpaceToDepth),
            [7] = LAYER(LL_ATON_LIB_DMA_DepthToSpace),
            [8] = LAYER(LL_ATON_LIB_DMA_Outputs_Slice_SplitLike),
        },
};
#endif

const struct ll_aton_reloc_callback *atonc_callbacks_for(const atonc_image_t *image) {
    if (image->note != 0) {
        uint32_t word = atonc_image_word(image, image->note + 4u * NOTE_CALLBACKS);
        bool known = atonc_image_word(image, image->note + 4u * NOTE_VERSION) == 1u && (word & 0xFFu) <= OWN_CALLBACKS;
        return known ? &services : NULL;
    }
#ifndef ATONC_EC_ONLY
    bool newer = atonc_image_context(image, CTX_VERSION) >> 8 == 0x010103u;
    return newer && atonc_image_context(image, CTX_DEV) >= NEW_TABLE_FROM ? &new_table : &old_table;
#else
    return NULL; /* layers of ST's networks are left out */
#endif
}
#endif
