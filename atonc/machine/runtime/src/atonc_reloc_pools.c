/* SPDX-License-Identifier: Apache-2.0
 * Memory pools of a relocatable image: checked all before the first byte is written, then copied or cleared.
 */
#if defined(LL_ATON_RT_RELOC)
#include "atonc_reloc.h"

#include <string.h>

#include "ll_aton_caches_interface.h"

typedef struct {
    uint32_t name, flags, foff, dst, size;
} pool_t;

LL_ATON_WEAK bool atonc_reloc_may_write(uintptr_t address, uint32_t size) {
    uintptr_t end = address + size;
    bool inside = address >= ATONC_RELOC_POOLS_FROM && end <= 0x34420000UL;
    bool not_secure = address >= ATONC_RELOC_POOLS_FROM - 0x10000000UL && end <= 0x24420000UL;
    bool external = address >= 0x80000000UL && end <= 0xA0000000UL;
    return end >= address && (inside || not_secure || external);
}

bool atonc_ranges_meet(uintptr_t a, uint32_t a_size, uintptr_t b, uint32_t b_size) {
    return a_size != 0 && b_size != 0 && (a < b ? b - a < a_size : a - b < b_size);
}

/* False behind the last one. */
static bool pool_at(const atonc_image_t *image, unsigned index, pool_t *pool) {
    uint32_t place = image->pools + 4u * RELOC_POOL_WORDS * index;
    if (place + 4u * RELOC_POOL_WORDS > image->copied) {
        return false;
    }
    memcpy(pool, (const uint8_t *)image->file + image->ro + place, sizeof *pool);
    return pool->name != 0 && pool->flags != 0;
}

/* Contents that the loader copies. */
static bool has_contents(const pool_t *pool) {
    return AI_RELOC_MPOOL_IS_COPY(pool->flags) ||
           (AI_RELOC_MPOOL_IS_RELOC(pool->flags) && AI_RELOC_MPOOL_IS_MIXED(pool->flags));
}

static bool contents_are_there(const pool_t *pool, const atonc_places_t *places) {
    return pool->foff <= places->params_size && pool->size <= places->params_size - pool->foff;
}

/* Streams of the NPU that go through its cache work outside the chip only. */
static bool fits_cache(const pool_t *pool, uintptr_t base) {
    return !AI_RELOC_MPOOL_IS_CACHEABLE(pool->flags) || base >= RELOC_EXTERNAL;
}

static atonc_reloc_reason_t check_params_pool(const pool_t *pool, atonc_places_t *places) {
    if (!AI_RELOC_MPOOL_IS_PARAM(pool->flags) || AI_RELOC_MPOOL_IS_WRITE(pool->flags)) {
        return ATONC_RELOC_POOLS;
    }
    if (!contents_are_there(pool, places) || !fits_cache(pool, places->params)) {
        return ATONC_RELOC_PARAMS;
    }
    places->param_0 = places->params + pool->foff;
    return ATONC_RELOC_OK;
}

static atonc_reloc_reason_t check_ext_pool(const pool_t *pool, const atonc_places_t *places) {
    if (has_contents(pool) && !contents_are_there(pool, places)) {
        return ATONC_RELOC_PARAMS;
    }
    if (!has_contents(pool) && !AI_RELOC_MPOOL_IS_ACTIV(pool->flags)) {
        return ATONC_RELOC_POOLS;
    }
    bool enough = places->ext_ram != 0 && pool->size <= places->ext_ram_size;
    return enough && fits_cache(pool, places->ext_ram) ? ATONC_RELOC_OK : ATONC_RELOC_EXT_RAM;
}

static atonc_reloc_reason_t check_fixed_pool(const pool_t *pool, const atonc_places_t *places, uint32_t mode,
                                             const atonc_range_t *mine, unsigned count) {
    if (has_contents(pool) && !contents_are_there(pool, places)) {
        return ATONC_RELOC_PARAMS;
    }
    if (!has_contents(pool) && (mode & AI_RELOC_RT_LOAD_MODE_CLEAR) == 0) {
        return ATONC_RELOC_OK; /* not written by the loader */
    }
    if (!atonc_reloc_may_write(pool->dst, pool->size)) {
        return ATONC_RELOC_POOL_MEMORY;
    }
    for (unsigned i = 0; i < count; i++) {
        if (atonc_ranges_meet(pool->dst, pool->size, mine[i].start, mine[i].size)) {
            return ATONC_RELOC_POOL_MEMORY;
        }
    }
    return ATONC_RELOC_OK;
}

atonc_reloc_reason_t atonc_pools_check(const atonc_image_t *image, atonc_places_t *places, uint32_t mode,
                                       const atonc_range_t *mine, unsigned count) {
    pool_t pool;
    unsigned index = 0;
    places->param_0 = places->params;
    for (; pool_at(image, index, &pool); index++) {
        atonc_reloc_reason_t reason = ATONC_RELOC_POOLS;
        if (index >= RELOC_MAX_POOLS) {
            return reason;
        }
        if (AI_RELOC_MPOOL_IS_RELOC(pool.flags)) {
            uint32_t number = AI_RELOC_MPOOL_GET_ID(pool.flags);
            reason = number == 0   ? check_params_pool(&pool, places)
                     : number == 1 ? check_ext_pool(&pool, places)
                                   : ATONC_RELOC_POOLS;
        } else if (AI_RELOC_MPOOL_IS_COPY(pool.flags) || AI_RELOC_MPOOL_IS_RESET(pool.flags)) {
            reason = check_fixed_pool(&pool, places, mode, mine, count);
        }
        if (reason != ATONC_RELOC_OK) {
            return reason;
        }
    }
    return ATONC_RELOC_OK;
}

static void publish(uintptr_t start, uint32_t size, bool cacheable) {
    LL_ATON_Cache_MCU_Clean_Invalidate_Range(start, size);
    if (cacheable) {
        LL_ATON_Cache_NPU_Clean_Invalidate_Range(start, size);
    }
}

static void fill(const pool_t *pool, uintptr_t target, const atonc_places_t *places, uint32_t mode) {
    if (has_contents(pool)) {
        memmove((void *)target, (const void *)(places->params + pool->foff), pool->size);
    } else if (mode & AI_RELOC_RT_LOAD_MODE_CLEAR) {
        memset((void *)target, 0, pool->size);
    } else {
        return;
    }
    publish(target, pool->size, AI_RELOC_MPOOL_IS_CACHEABLE(pool->flags) != 0);
}

void atonc_pools_fill(const atonc_image_t *image, const atonc_places_t *places, uint32_t mode) {
    pool_t pool;
    for (unsigned index = 0; pool_at(image, index, &pool); index++) {
        if (!AI_RELOC_MPOOL_IS_RELOC(pool.flags)) {
            fill(&pool, pool.dst, places, mode);
        } else if (AI_RELOC_MPOOL_GET_ID(pool.flags) == 1) {
            fill(&pool, places->ext_ram, places, mode);
        }
    }
}

ll_aton_reloc_mem_pool_desc *ll_aton_reloc_get_mem_pool_desc(const uintptr_t file_ptr, int index) {
    atonc_image_t image;
    pool_t pool;
    if (index < 0 || (unsigned)index >= RELOC_MAX_POOLS || atonc_image_examine(file_ptr, &image) != ATONC_RELOC_OK) {
        return NULL;
    }
    for (unsigned k = 0; k <= (unsigned)index; k++) {
        if (!pool_at(&image, k, &pool)) {
            return NULL;
        }
    }
    return (ll_aton_reloc_mem_pool_desc *)(file_ptr + image.ro + image.pools + 4u * RELOC_POOL_WORDS * (unsigned)index);
}
#endif
