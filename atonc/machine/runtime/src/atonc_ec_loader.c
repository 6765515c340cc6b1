/* SPDX-License-Identifier: Apache-2.0
 * Reads epoch controller containers and adapts blobs to addresses. See ecloader.h for the order of arguments.
 *
 * Layout of a container, in 32-bit words: magic, offset of the relocation table, [offset of the patch table, not in
 * version 0x20], offset of debug data, offset of the blob. Offsets are in bytes, 0 if absent. A relocation table is a
 * count, then (name offset, number of places, offset of their list) for each; offsets count from the table, places
 * are word numbers in the program, behind the two words that start a blob.
 */
#include <stddef.h>
#include <string.h>

#include "ecloader.h"

#define MAX_TABLE_ENTRIES 1024u
#define RELOC_WORDS 3u
#define PATCH_WORDS 5u /* name offset, shift, mask, number of places, offset of their list */

static bool is_container(const void *data) {
    if (data == NULL) {
        return false;
    }
    uint32_t magic = *(const ec_word_t *)data;
    return magic == ECASM_BINARY_MAGIC_20 || magic == ECASM_BINARY_MAGIC_30 || magic == ECASM_BINARY_MAGIC_50;
}

static bool is_blob(const void *data) { return data != NULL && *(const ec_word_t *)data == ECASM_BLOB_MAGIC; }

/* An offset of the container's head: 0 relocations, 1 patches, 2 debug data, 3 blob. */
static uint32_t head_offset(const void *container, unsigned which) {
    const ec_word_t *words = container;
    if (words[0] != ECASM_BINARY_MAGIC_20) {
        return words[1 + which];
    }
    return which == 0 ? words[1] : which == 1 ? 0 : words[which];
}

const uint64_t *ec_get_blob_ptr(const uint8_t *binary_ptr) {
    const uint8_t *blob = binary_ptr;
    if (is_container(binary_ptr)) {
        uint32_t offset = head_offset(binary_ptr, 3);
        blob = offset == 0 || offset % 4u != 0 ? NULL : binary_ptr + offset;
    }
    return is_blob(blob) ? (const uint64_t *)(const void *)blob : NULL;
}

bool ec_copy_blob(ECInstr *blob, const uint8_t *binary_ptr, unsigned int *size) {
    const ec_word_t *source = (const void *)ec_get_blob_ptr(binary_ptr);
    if (source == NULL || size == NULL) {
        return false;
    }
    uint32_t words = source[1] + 2u;
    if (blob == NULL) {
        *size = words;
        return true;
    }
    if (words < 2u || *size < words || (uintptr_t)blob % 8u != 0) {
        return false;
    }
    memcpy(blob, source, 4u * (size_t)words);
    return true;
}

bool ec_copy_program(const uint8_t *binary_ptr, ECInstr *program, unsigned int *size) {
    return ec_copy_blob(program, binary_ptr, size);
}

static const ECFileEntry *table(const uint8_t *container, unsigned which) {
    uint32_t offset = is_container(container) ? head_offset(container, which) : 0;
    return offset == 0 || offset % 4u != 0 ? NULL : (const ECFileEntry *)(const void *)(container + offset);
}

const ECFileEntry *ec_get_reloc_table_ptr(const uint8_t *binary_ptr) { return table(binary_ptr, 0); }
const ECFileEntry *ec_get_patch_table_ptr(const uint8_t *binary_ptr) { return table(binary_ptr, 1); }

bool ec_copy_reloc_table(const void *first, const void *second, unsigned int *size) {
    const uint8_t *container = is_container(first) ? first : second;
    uint32_t *target = (uint32_t *)(uintptr_t)(container == first ? second : first);
    const ECFileEntry *source = ec_get_reloc_table_ptr(container);
    if (source == NULL || size == NULL) {
        return false;
    }
    uint32_t end = head_offset(container, 3);
    for (unsigned which = 2; which >= 1; which--) { /* the nearest section behind the table */
        uint32_t offset = head_offset(container, which);
        end = offset != 0 && offset < end ? offset : end;
    }
    uint32_t words = (end - head_offset(container, 0)) / 4u;
    if (target == NULL) {
        *size = words;
        return true;
    }
    if (*size < words) {
        return false;
    }
    memcpy(target, source, 4u * (size_t)words);
    return true;
}

static unsigned entries(const ECFileEntry *list) {
    return list == NULL || list[0] > MAX_TABLE_ENTRIES ? 0 : list[0];
}

static const char *name_of(const ECFileEntry *list, unsigned idx, unsigned words) {
    return idx < entries(list) ? (const char *)list + list[1 + words * idx] : NULL;
}

unsigned int ec_get_num_relocs(const ECFileEntry *list) { return entries(list); }
unsigned int ec_get_num_patches(const ECFileEntry *list) { return entries(list); }
const char *ec_get_reloc_id(const ECFileEntry *list, unsigned int idx) { return name_of(list, idx, RELOC_WORDS); }
const char *ec_get_patch_id(const ECFileEntry *list, unsigned int idx) { return name_of(list, idx, PATCH_WORDS); }

int32_t ec_get_patch_shr(const ECFileEntry *list, unsigned int idx) {
    return idx < entries(list) ? (int32_t)list[2 + PATCH_WORDS * idx] : 0;
}

uint32_t ec_get_patch_mask(const ECFileEntry *list, unsigned int idx) {
    return idx < entries(list) ? list[3 + PATCH_WORDS * idx] : 0;
}

typedef struct {
    ec_word_t *program;
    const ec_word_t *list;
    const ec_word_t *places;
    uint32_t count;
} job_t;

/* Finds blob, table and places among the arguments; checks that every place is inside the program. */
static bool prepare(job_t *job, const void *first, const void *second, unsigned idx, unsigned words) {
    const ec_word_t *blob = is_blob(first) ? first : second;
    job->list = blob == first ? second : first;
    if (!is_blob(blob) || idx >= entries(job->list)) {
        return false;
    }
    const ec_word_t *entry = job->list + 1 + words * idx;
    job->program = (ec_word_t *)(uintptr_t)blob + 2;
    job->count = entry[words - 2];
    job->places = job->list + entry[words - 1] / 4u;
    if (entry[words - 1] % 4u != 0) {
        return false;
    }
    for (uint32_t i = 0; i < job->count; i++) {
        if (job->places[i] >= blob[1]) {
            return false;
        }
    }
    return true;
}

bool ec_reloc(const void *first, const void *second, unsigned int idx, ECAddr base, ECAddr *prev_base) {
    job_t job;
    if (prev_base == NULL || !prepare(&job, first, second, idx, RELOC_WORDS)) {
        return false;
    }
    for (uint32_t i = 0; i < job.count; i++) {
        job.program[job.places[i]] += base - *prev_base;
    }
    *prev_base = base;
    return true;
}

bool ec_patch(const void *first, const void *second, unsigned int idx, uint64_t value) {
    job_t job;
    if (!prepare(&job, first, second, idx, PATCH_WORDS)) {
        return false;
    }
    int32_t shift = ec_get_patch_shr(job.list, idx);
    uint64_t mask = ec_get_patch_mask(job.list, idx);
    if (shift < -63 || shift > 63) {
        return false;
    }
    value = shift >= 0 ? value >> shift : value << -shift;
    mask = shift >= 0 ? mask : mask << -shift;
    for (uint32_t i = 0; i < job.count; i++) {
        ec_word_t *word = job.program + job.places[i];
        *word = (*word & ~(uint32_t)mask) | (uint32_t)(value & mask);
    }
    return true;
}

/* The number of an entry by its name, or the number of entries. */
static unsigned find(const void *first, const void *second, const char *id, unsigned words) {
    const ECFileEntry *list = is_blob(first) ? second : first;
    unsigned count = entries(list);
    for (unsigned i = 0; i < count; i++) {
        if (strcmp(id, name_of(list, i, words)) == 0) {
            return i;
        }
    }
    return count;
}

bool ec_reloc_by_id(const void *first, const void *second, const char *id, ECAddr base, ECAddr *prev_base) {
    return ec_reloc(first, second, find(first, second, id, RELOC_WORDS), base, prev_base);
}

bool ec_patch_by_id(const void *first, const void *second, const char *id, uint64_t value) {
    return ec_patch(first, second, find(first, second, id, PATCH_WORDS), value);
}
