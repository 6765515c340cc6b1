/* SPDX-License-Identifier: Apache-2.0
 * Installs a relocatable image: everything is checked first, then pools, code, data and addresses are written.
 */
#if defined(LL_ATON_RT_RELOC)
#include "atonc_reloc.h"

#include <string.h>

#include "atonc_cpu.h"
#include "atonc_internal.h"
#include "ll_aton_caches_interface.h"

#define ALIGNED_UP(size) (((size) + 7u) & ~(uint32_t)7u)
#define STACK_AROUND 2048u
#define ICIALLU 0xE000EF50UL /* forgets all instructions */

static atonc_reloc_reason_t last_reason;

void atonc_reloc_set_reason(atonc_reloc_reason_t reason) { last_reason = reason; }
atonc_reloc_reason_t atonc_reloc_reason(void) { return last_reason; }

int atonc_reloc_error_of(atonc_reloc_reason_t reason) {
    switch (reason) {
    case ATONC_RELOC_OK: return AI_RELOC_RT_ERR_NONE;
    case ATONC_RELOC_EXEC_RAM: return AI_RELOC_RT_ERR_MEMORY;
    case ATONC_RELOC_POOL_MEMORY:
    case ATONC_RELOC_POOLS: return AI_RELOC_RT_ERR_PARAM_DESC;
    case ATONC_RELOC_PARAMS:
    case ATONC_RELOC_EXT_RAM: return AI_RELOC_RT_ERR_PARAM_ADDR;
    case ATONC_RELOC_ARGUMENT: return AI_RELOC_RT_ERR_ARG;
    default: return AI_RELOC_RT_ERR_INVALID_BIN;
    }
}

/* ---- where everything goes ---- */

static bool wraps(uintptr_t start, size_t size) { return size > UINT32_MAX || start + size < start; }

static atonc_reloc_reason_t find_params(const atonc_image_t *image, const ll_aton_reloc_config *config,
                                        atonc_places_t *places) {
    bool apart = config->ext_param_addr != 0;
    if (!apart && image->params == 0) {
        return atonc_image_context(image, CTX_PARAMS_FILE) == 0 ? ATONC_RELOC_OK : ATONC_RELOC_PARAMS;
    }
    places->params = apart ? config->ext_param_addr : image->file + image->params;
    uint32_t needed = atonc_image_context(image, CTX_PARAMS_FILE);
    uint32_t there = apart ? atonc_reloc_readable(places->params) : image->readable - image->params;
    /* images of ST do not count programs in front of the parameters */
    places->params_size = image->note != 0 ? needed : there;
    return (places->params & 3u) == 0 && there >= needed ? ATONC_RELOC_OK : ATONC_RELOC_PARAMS;
}

static atonc_reloc_reason_t find_ram(const atonc_image_t *image, const ll_aton_reloc_config *config,
                                     atonc_places_t *places) {
    bool copy = (config->mode & AI_RELOC_RT_LOAD_MODE_COPY) != 0;
    uint32_t needed = ALIGNED_UP(image->rw) + (copy ? image->ro : 0);
    if (config->exec_ram_addr == 0 || (config->exec_ram_addr & 7u) != 0 || needed > config->exec_ram_size ||
        wraps(config->exec_ram_addr, config->exec_ram_size)) {
        return ATONC_RELOC_EXEC_RAM;
    }
    if ((config->ext_ram_addr & 3u) != 0 || wraps(config->ext_ram_addr, config->ext_ram_size)) {
        return ATONC_RELOC_EXT_RAM;
    }
    places->rom = copy ? config->exec_ram_addr : image->file;
    places->ram = config->exec_ram_addr + (copy ? image->ro : 0);
    /* of what the application offers only as much as the image wants */
    uint32_t wanted = atonc_image_context(image, CTX_EXT_RAM);
    uint32_t offered = config->ext_ram_addr != 0 ? (uint32_t)config->ext_ram_size : 0;
    places->ext_ram = config->ext_ram_addr;
    places->ext_ram_size = wanted < offered ? wanted : offered;
    places->exec_size = needed;
    return ATONC_RELOC_OK;
}

static bool any_meet(const atonc_range_t *targets, unsigned count, const atonc_range_t *sources, unsigned others) {
    for (unsigned i = 0; i < count; i++) {
        for (unsigned k = 0; k < others; k++) {
            if (atonc_ranges_meet(targets[i].start, targets[i].size, sources[k].start, sources[k].size)) {
                return true;
            }
        }
    }
    return false;
}

/* Nothing that is written may lie over what is read, over other memory of the application, or over the stack. */
static atonc_reloc_reason_t keep_apart(const atonc_image_t *image, atonc_places_t *places,
                                       const ll_aton_reloc_config *config, const NN_Instance_TypeDef *instance) {
    uint32_t params = atonc_image_context(image, CTX_PARAMS_FILE);
    uint32_t file = image->rel_end > image->ro + image->copied ? image->rel_end : image->ro + image->copied;
    const atonc_range_t ranges[] = {
        {image->file, file},
        {places->params, places->params != 0 ? params : 0},
        {(uintptr_t)config, sizeof *config},
        {(uintptr_t)instance, instance != NULL ? sizeof *instance : 0},
        {(uintptr_t)&params - STACK_AROUND, 2u * STACK_AROUND},
        {config->exec_ram_addr, places->exec_size},
        {places->ext_ram, places->ext_ram_size},
    };
    if (any_meet(&ranges[5], 1, ranges, 5)) {
        return ATONC_RELOC_EXEC_RAM;
    }
    if (any_meet(&ranges[6], 1, ranges, 6)) {
        return ATONC_RELOC_EXT_RAM;
    }
    return atonc_pools_check(image, places, config->mode, ranges, sizeof ranges / sizeof ranges[0]);
}

/* ---- addresses ---- */

/* An offset with its tag as an address; false if it points outside what it counts from. */
static bool resolve(const atonc_image_t *image, const atonc_places_t *places, uint32_t *word) {
    uint32_t offset = RELOC_OFFSET(*word);
    uintptr_t base = 0;
    uint32_t size = 0;
    switch (RELOC_SEGMENT(*word)) {
    case RELOC_RAM: base = places->ram, size = image->rw; break;
    case RELOC_FLASH: base = places->rom, size = image->ro; break;
    case RELOC_PARAM_0: base = places->param_0, size = places->params_size; break;
    case RELOC_PARAM_1: base = places->ext_ram, size = places->ext_ram_size; break;
    default: return *word == 0;
    }
    if (base == 0 || offset > size) {
        return false;
    }
    *word = (uint32_t)base + offset;
    return true;
}

/* Where a relocated word is in the file, and where it will be; false if the list names a place that is neither data nor,
 * in RAM, code behind the header. */
static bool word_place(const atonc_image_t *image, uint32_t where, bool copy, uint32_t *from, bool *in_code) {
    uint32_t offset = RELOC_OFFSET(where);
    *in_code = RELOC_SEGMENT(where) == RELOC_FLASH;
    uint32_t first = *in_code ? 4u * (HDR_ENTRIES + image->entry_words) : 0;
    uint32_t end = *in_code ? image->ro : image->copied;
    if ((offset & 3u) != 0 || offset < first || offset + 4u > end || (*in_code && !copy) ||
        (!*in_code && RELOC_SEGMENT(where) != RELOC_RAM)) {
        return false;
    }
    *from = *in_code ? offset : image->ro + offset;
    return true;
}

/* Twice the same walk: first to look, then to write. */
static bool walk_words(const atonc_image_t *image, const atonc_places_t *places, bool copy, bool write) {
    for (uint32_t at = image->got; at < image->got_end; at += 4u) {
        uint32_t word = atonc_image_word(image, image->ro + at);
        if (!resolve(image, places, &word)) {
            return false;
        }
        if (write) {
            memcpy((void *)(places->ram + at), &word, sizeof word);
        }
    }
    for (uint32_t at = image->rel; at < image->rel_end; at += 4u) {
        uint32_t where = atonc_image_word(image, at);
        uint32_t from;
        bool in_code;
        if (!word_place(image, where, copy, &from, &in_code)) {
            return false;
        }
        uint32_t word = atonc_image_word(image, from);
        if (!resolve(image, places, &word)) {
            return false;
        }
        if (write) {
            memcpy((void *)((in_code ? places->rom : places->ram) + RELOC_OFFSET(where)), &word, sizeof word);
        }
    }
    return true;
}

/* ---- the whole ---- */

static atonc_reloc_reason_t judge(uintptr_t file, const ll_aton_reloc_config *config,
                                  const NN_Instance_TypeDef *instance, atonc_image_t *image, atonc_places_t *places) {
    memset(places, 0, sizeof *places);
    atonc_reloc_reason_t reason = atonc_image_examine(file, image);
    if (reason != ATONC_RELOC_OK) {
        return reason;
    }
    const uint32_t modes = AI_RELOC_RT_LOAD_MODE_XIP | AI_RELOC_RT_LOAD_MODE_COPY;
    if (config == NULL || (config->mode & modes) == 0 || (config->mode & modes) == modes) {
        return ATONC_RELOC_ARGUMENT;
    }
    reason = find_params(image, config, places);
    if (reason == ATONC_RELOC_OK) {
        reason = find_ram(image, config, places);
    }
    if (reason == ATONC_RELOC_OK) {
        reason = keep_apart(image, places, config, instance);
    }
    if (reason == ATONC_RELOC_OK) {
        reason = atonc_image_verify(image, places);
    }
    bool copy = (config->mode & AI_RELOC_RT_LOAD_MODE_COPY) != 0;
    if (reason == ATONC_RELOC_OK && !walk_words(image, places, copy, false)) {
        reason = ATONC_RELOC_WORDS;
    }
    return reason;
}

int atonc_reloc_check(uintptr_t file_ptr, const ll_aton_reloc_config *config) {
    atonc_image_t image;
    atonc_places_t places;
    last_reason = judge(file_ptr, config, NULL, &image, &places);
    return atonc_reloc_error_of(last_reason);
}

static void put_context(const atonc_image_t *image, const atonc_places_t *places, uint32_t word, uint32_t value) {
    memcpy((void *)(places->ram + image->context + 4u * word), &value, sizeof value);
}

static void forget_instructions(void) {
#ifdef ATONC_IS_CORTEX_M
    atonc_cpu_dsb();
    ATONC_CORE_WORD(ICIALLU) = 0;
    atonc_cpu_dsb();
    atonc_cpu_isb();
#endif
}

static void write_image(const atonc_image_t *image, const atonc_places_t *places, bool copy) {
    if (copy) {
        memcpy((void *)places->rom, (const void *)image->file, image->ro);
    }
    memcpy((void *)places->ram, (const void *)(image->file + image->ro), image->copied);
    memset((void *)(places->ram + image->copied), 0, image->rw - image->copied);
    (void)walk_words(image, places, copy, true); /* looked at before */
}

int ll_aton_reloc_install(const uintptr_t file_ptr, const ll_aton_reloc_config *config,
                          NN_Instance_TypeDef *nn_instance) {
    atonc_image_t image;
    atonc_places_t places;
    last_reason = nn_instance == NULL ? ATONC_RELOC_ARGUMENT : judge(file_ptr, config, nn_instance, &image, &places);
    if (last_reason != ATONC_RELOC_OK) {
        return atonc_reloc_error_of(last_reason);
    }
    bool copy = (config->mode & AI_RELOC_RT_LOAD_MODE_COPY) != 0;
    atonc_pools_fill(&image, &places, config->mode);
    write_image(&image, &places, copy);
    put_context(&image, &places, CTX_FILE, (uint32_t)file_ptr);
    put_context(&image, &places, CTX_RAM, (uint32_t)places.ram);
    put_context(&image, &places, CTX_ROM, (uint32_t)places.rom);
    put_context(&image, &places, CTX_CALLBACKS, (uint32_t)(uintptr_t)atonc_callbacks_for(&image));
    put_context(&image, &places, CTX_INSTANCE, (uint32_t)(uintptr_t)nn_instance);
    put_context(&image, &places, CTX_STATE, CTX_INITIALISED | (copy ? 0 : CTX_IN_PLACE));
    LL_ATON_Cache_MCU_Clean_Invalidate_Range(config->exec_ram_addr, places.exec_size);
    LL_ATON_Cache_NPU_Clean_Invalidate_Range(config->exec_ram_addr, places.exec_size);
    forget_instructions();

    uint32_t interface = atonc_image_context(&image, CTX_INTERFACE);
    (void)resolve(&image, &places, &interface);
    memset(&nn_instance->exec_state, 0, sizeof nn_instance->exec_state);
    nn_instance->network = (const NN_Interface_TypeDef *)(uintptr_t)interface;
    nn_instance->exec_state.inst_reloc = places.ram + image.context;
    return AI_RELOC_RT_ERR_NONE;
}
#endif
