/* SPDX-License-Identifier: Apache-2.0
 * Reads the header of a relocatable image and judges whether it can run here.
 */
#if defined(LL_ATON_RT_RELOC)
#include "atonc_reloc.h"

#include <string.h>

#include "atonc_cpu.h"
#include "atonc_internal.h"
#include "ec.h"

#define HEADER_WORDS_MIN 24u
#define MAX_TEXT 256u

static const uint8_t *expected_model;

void atonc_reloc_expect_model(const uint8_t *hash) { expected_model = hash; }

/* On the chip what there is; behind XSPI what the board has, because reading further may stop the bus. */
LL_ATON_WEAK uint32_t atonc_reloc_readable(uintptr_t address) {
    static const struct {
        uint32_t start, end;
    } windows[] = {
        {0x10000000u, 0x10040000u}, /* ITCM */
        {0x30000000u, 0x30040000u}, /* DTCM */
        {0x34000000u, 0x34420000u}, /* AXISRAM, RAM of the caches and of the video encoder */
        {0x24000000u, 0x24420000u}, /* the same, not secure */
        {0x70000000u, 0x70000000u + ATONC_RELOC_XSPI2_BYTES},
        {0x80000000u, 0x80000000u + ATONC_RELOC_XSPI3_BYTES},
        {0x90000000u, 0x90000000u + ATONC_RELOC_XSPI1_BYTES},
    };
    for (unsigned i = 0; i < sizeof windows / sizeof windows[0]; i++) {
        if (address >= windows[i].start && address < windows[i].end) {
            return windows[i].end - (uint32_t)address;
        }
    }
    return 0;
}

#ifdef ATONC_HOST
uint32_t atonc_host_cpuid(void); /* unit tests stand in for the core */
#define CPUID atonc_host_cpuid()
#define FPU_IS_ON 1
#else
#define CPUID ATONC_CORE_WORD(0xE000ED00UL)
#define FPU_IS_ON ((ATONC_CORE_WORD(0xE000ED88UL) >> 20 & 0xFu) != 0)
#endif

uint32_t atonc_image_word(const atonc_image_t *image, uint32_t offset) {
    uint32_t word;
    memcpy(&word, (const uint8_t *)image->file + offset, sizeof word);
    return word;
}

uint32_t atonc_image_context(const atonc_image_t *image, uint32_t word) {
    return atonc_image_word(image, image->ro + image->context + 4u * word);
}

const char *atonc_image_text(const atonc_image_t *image, uint32_t address) {
    uint32_t start = RELOC_OFFSET(address);
    if (RELOC_SEGMENT(address) != RELOC_FLASH || start >= image->ro) {
        return NULL;
    }
    uint32_t room = image->ro - start;
    const char *text = (const char *)image->file + start;
    return memchr(text, 0, room < MAX_TEXT ? room : MAX_TEXT) != NULL ? text : NULL;
}

/* ---- the header ---- */

static bool in_segment(const uint32_t *header, const uint8_t *names, unsigned count, uint32_t segment) {
    for (unsigned i = 0; i < count; i++) {
        if (RELOC_SEGMENT(header[names[i]]) != segment || (header[names[i]] & 3u) != 0) {
            return false;
        }
    }
    return true;
}

static bool sections_hold(atonc_image_t *image, const uint32_t *header) {
    static const uint8_t in_ram[] = {HDR_DATA_START, HDR_DATA_END,  HDR_BSS_START, HDR_BSS_END,
                                     HDR_GOT_START,  HDR_GOT_END, HDR_POOLS};
    static const uint8_t in_file[] = {HDR_DATA_DATA, HDR_REL_START, HDR_REL_END};
    if (!in_segment(header, in_ram, sizeof in_ram, RELOC_RAM) ||
        !in_segment(header, in_file, sizeof in_file, RELOC_FLASH) || RELOC_OFFSET(header[HDR_DATA_START]) != 0 ||
        header[HDR_PARAMS] >> 28 != 0 || (header[HDR_PARAMS] & 3u) != 0) {
        return false;
    }
    image->ro = RELOC_OFFSET(header[HDR_DATA_DATA]);
    image->copied = RELOC_OFFSET(header[HDR_BSS_START]);
    image->rw = RELOC_OFFSET(header[HDR_BSS_END]);
    image->got = RELOC_OFFSET(header[HDR_GOT_START]);
    image->got_end = RELOC_OFFSET(header[HDR_GOT_END]);
    image->rel = RELOC_OFFSET(header[HDR_REL_START]);
    image->rel_end = RELOC_OFFSET(header[HDR_REL_END]);
    image->pools = RELOC_OFFSET(header[HDR_POOLS]);
    image->params = header[HDR_PARAMS];
    uint32_t data_end = RELOC_OFFSET(header[HDR_DATA_END]);
    return image->copied <= image->rw && data_end <= image->copied && image->got <= image->got_end &&
           image->got_end <= image->copied && image->rel <= image->rel_end && (image->ro & 7u) == 0 &&
           image->ro + image->copied <= image->readable && image->rel_end <= image->readable &&
           image->rel >= image->ro && image->pools + 4u * RELOC_POOL_WORDS <= image->copied &&
           (image->params == 0 || (image->params >= image->rel_end && image->params <= image->readable));
}

/* Ten functions and the context, from 1.1.3 on two functions more: the context is the word that lies in RAM. */
static bool entries_hold(atonc_image_t *image) {
    image->entry_words = RELOC_SEGMENT(atonc_image_word(image, 4u * (HEADER_WORDS_MIN - 1u))) == RELOC_RAM ? 11u : 13u;
    uint32_t header = 4u * (HDR_ENTRIES + image->entry_words);
    if (header > image->ro) {
        return false;
    }
    for (uint32_t i = 0; i + 1u < image->entry_words; i++) {
        uint32_t entry = atonc_image_word(image, 4u * (HDR_ENTRIES + i));
        uint32_t place = RELOC_OFFSET(entry);
        if (RELOC_SEGMENT(entry) != RELOC_FLASH || (entry & 1u) == 0 || place < header || place >= image->ro) {
            return false;
        }
    }
    uint32_t context = atonc_image_word(image, header - 4u);
    image->context = RELOC_OFFSET(context);
    bool note = header + 4u * NOTE_WORDS <= image->ro && atonc_image_word(image, header) == NOTE_MAGIC_WORD;
    image->note = note ? header : 0;
    return RELOC_SEGMENT(context) == RELOC_RAM && (context & 3u) == 0 &&
           image->context + 4u * CTX_WORDS <= image->copied;
}

/* ---- the machine and the runtime ---- */

static atonc_reloc_reason_t suits_machine(uint32_t flags) {
    if (AI_RELOC_RT_GET_MAJOR(flags) != AI_RELOC_RT_VERSION_MAJOR ||
        AI_RELOC_RT_GET_MINOR(flags) > AI_RELOC_RT_VERSION_MINOR) {
        return ATONC_RELOC_FORMAT;
    }
    if ((CPUID >> 4 & 0xFFFu) != AI_RELOC_RT_GET_CPUID(flags)) {
        return ATONC_RELOC_CPU;
    }
    if (AI_RELOC_RT_GET_FPEABI(flags) != AI_RELOC_TOOLCHAIN_FP_ABI_HARD || (AI_RELOC_RT_FPU_USED(flags) && !FPU_IS_ON)) {
        return ATONC_RELOC_FPU;
    }
#if defined(ATONC_SECURE) && !defined(ATONC_RELOC_ALLOW_NONSECURE)
    return AI_RELOC_RT_SECURE(flags) ? ATONC_RELOC_OK : ATONC_RELOC_SECURE;
#elif defined(ATONC_SECURE)
    return ATONC_RELOC_OK;
#else
    return AI_RELOC_RT_SECURE(flags) ? ATONC_RELOC_SECURE : ATONC_RELOC_OK;
#endif
}

/* Code of ST's images depends on the mode that they were built for; code of ours does not. */
static bool suits_build(const atonc_image_t *image) {
    bool asynchronous = LL_ATON_RT_MODE == LL_ATON_RT_ASYNC;
#ifdef LL_ATON_EB_DBG_INFO
    bool debug = true;
#else
    bool debug = false;
#endif
    return (AI_RELOC_RT_DBG_INFO(image->flags) != 0) == debug &&
           (image->note != 0 || (AI_RELOC_RT_ASYNC_MODE(image->flags) != 0) == asynchronous);
}

/* Releases 1.1.1 to 1.1.3 hand over the same structs; 1.1.0 numbers data types differently. */
static atonc_reloc_reason_t suits_runtime(const atonc_image_t *image) {
    uint32_t version = atonc_image_context(image, CTX_VERSION) >> 8;
    if (version < 0x010101u || version > 0x010103u || (version == 0x010103u) != (image->entry_words == 13u)) {
        return ATONC_RELOC_VERSION;
    }
    uint32_t sizes = atonc_image_context(image, CTX_STRUCTS);
#ifndef ATONC_HOST /* where pointers have another size nothing of the image can run */
    if ((sizes & 0xFFu) != sizeof(LL_Buffer_InfoTypeDef) || (sizes >> 8 & 0xFFu) != sizeof(LL_ATON_RT_EpochBlockItem_t)) {
        return ATONC_RELOC_STRUCTS;
    }
#else
    if (sizes == 0) {
        return ATONC_RELOC_STRUCTS;
    }
#endif
    if (atonc_callbacks_for(image) == NULL) {
        return ATONC_RELOC_CALLBACKS;
    }
    return ATONC_RELOC_OK;
}

static bool names_hold(const atonc_image_t *image) {
    uint32_t interface = atonc_image_context(image, CTX_INTERFACE);
    uint32_t place = RELOC_OFFSET(interface);
    uint32_t segment = RELOC_SEGMENT(interface);
    uint32_t end = segment == RELOC_RAM ? image->rw : segment == RELOC_FLASH ? image->ro : 0;
    return place + 4u * 11u <= end && (interface & 3u) == 0 &&
           atonc_image_text(image, atonc_image_context(image, CTX_NAME)) != NULL &&
           atonc_image_text(image, atonc_image_context(image, CTX_RUNTIME)) != NULL;
}

atonc_reloc_reason_t atonc_image_examine(uintptr_t file, atonc_image_t *image) {
    uint32_t header[HDR_ENTRIES];
    memset(image, 0, sizeof *image);
    image->file = file;
    if (file == 0 || (file & 3u) != 0) {
        return ATONC_RELOC_ADDRESS;
    }
    image->readable = atonc_reloc_readable(file);
    if (image->readable < 4u * HEADER_WORDS_MIN) {
        return ATONC_RELOC_ADDRESS;
    }
    memcpy(header, (const void *)file, sizeof header);
    if (header[HDR_MAGIC] != AI_RELOC_MAGIC) {
        return ATONC_RELOC_MAGIC;
    }
    image->flags = header[HDR_FLAGS];
    atonc_reloc_reason_t reason = suits_machine(image->flags);
    if (reason != ATONC_RELOC_OK) {
        return reason;
    }
    if (!sections_hold(image, header) || !entries_hold(image)) {
        return ATONC_RELOC_SECTIONS;
    }
    if (!suits_build(image)) {
        return ATONC_RELOC_BUILD;
    }
    reason = suits_runtime(image);
    if (reason != ATONC_RELOC_OK) {
        return reason;
    }
    return names_hold(image) ? ATONC_RELOC_OK : ATONC_RELOC_SECTIONS;
}

/* ---- checksums and model ---- */

static bool code_is_whole(const atonc_image_t *image) {
    static const uint32_t zero;
    const uint8_t *bytes = (const uint8_t *)image->file;
    uint32_t size = atonc_image_word(image, image->note + 4u * NOTE_CODE_BYTES);
    uint32_t end = image->params != 0 ? image->params : size;
    uint32_t at = image->note + 4u * NOTE_CODE_CRC;
    if (size != end || size < image->rel_end || size > image->readable || size < at + 4u) {
        return false;
    }
    uint32_t crc = atonc_crc32(bytes, at, 0);
    crc = atonc_crc32(&zero, sizeof zero, crc);
    return atonc_crc32(bytes + at + 4u, size - at - 4u, crc) == atonc_image_word(image, at);
}

/* Where ST's tool puts programs in front of the parameters the checksum does not cover them, nor say where it begins. */
static bool begins_with_programs(const atonc_places_t *places) {
    uint32_t word;
    memcpy(&word, (const void *)places->params, sizeof word);
    return word == ECASM_BLOB_MAGIC || word == ECASM_BINARY_MAGIC_20 || word == ECASM_BINARY_MAGIC_30 ||
           word == ECASM_BINARY_MAGIC_50;
}

static bool params_are_whole(const atonc_image_t *image, const atonc_places_t *places) {
    uint32_t size = atonc_image_context(image, CTX_PARAMS_FILE);
    uint32_t crc = atonc_image_context(image, CTX_PARAMS_CRC);
    if (size == 0) {
        return true;
    }
    if (size > places->params_size) {
        return false;
    }
    if (image->note == 0 && size >= 4u && begins_with_programs(places)) {
        return true;
    }
    return atonc_crc32((const void *)places->params, size, 0) == crc;
}

atonc_reloc_reason_t atonc_image_verify(const atonc_image_t *image, const atonc_places_t *places) {
    if (expected_model != NULL) {
        const uint8_t *hash = atonc_reloc_model_hash(image->file);
        if (hash == NULL || memcmp(hash, expected_model, ATONC_MODEL_HASH_BYTES) != 0) {
            return ATONC_RELOC_MODEL;
        }
    }
    if (image->note != 0 && !code_is_whole(image)) {
        return ATONC_RELOC_CODE_CRC;
    }
    return params_are_whole(image, places) ? ATONC_RELOC_OK : ATONC_RELOC_PARAMS_CRC;
}

const uint8_t *atonc_reloc_model_hash(uintptr_t file_ptr) {
    atonc_image_t image;
    if (atonc_image_examine(file_ptr, &image) != ATONC_RELOC_OK || image.note == 0) {
        return NULL;
    }
    return (const uint8_t *)file_ptr + image.note + 4u * NOTE_HASH;
}
#endif
