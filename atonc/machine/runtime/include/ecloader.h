/* SPDX-License-Identifier: Apache-2.0
 * Epoch controller files: a container holds a blob and the places in it that depend on addresses.
 *
 * Releases of LL_ATON order the arguments of some of these functions differently. Blobs, containers and tables are
 * told apart by their contents here, so every order is accepted: `first` and `second` are the two pointers.
 */
#ifndef ATONC_ECLOADER_H
#define ATONC_ECLOADER_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>

#include "ec.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The blob in a container (or a bare blob itself); NULL if it is neither. */
const uint64_t *ec_get_blob_ptr(const uint8_t *binary_ptr);

/* Copies the blob of a container. `size` counts 32-bit words: on entry what `blob` can hold, checked; with `blob`
 * NULL it is set to what is needed. `blob` must be aligned to 8 bytes. */
bool ec_copy_blob(ECInstr *blob, const uint8_t *binary_ptr, unsigned int *size);
bool ec_copy_program(const uint8_t *binary_ptr, ECInstr *program, unsigned int *size);

bool ec_copy_reloc_table(const void *first, const void *second, unsigned int *size);
const ECFileEntry *ec_get_reloc_table_ptr(const uint8_t *binary_ptr);
unsigned int ec_get_num_relocs(const ECFileEntry *table);
const char *ec_get_reloc_id(const ECFileEntry *table, unsigned int idx);
/* Adds `base - *prev_base` to every word that depends on relocation `idx`; `*prev_base` becomes `base`. */
bool ec_reloc(const void *first, const void *second, unsigned int idx, ECAddr base, ECAddr *prev_base);
bool ec_reloc_by_id(const void *first, const void *second, const char *id, ECAddr base, ECAddr *prev_base);

const ECFileEntry *ec_get_patch_table_ptr(const uint8_t *binary_ptr);
unsigned int ec_get_num_patches(const ECFileEntry *table);
const char *ec_get_patch_id(const ECFileEntry *table, unsigned int idx);
int32_t ec_get_patch_shr(const ECFileEntry *table, unsigned int idx);
uint32_t ec_get_patch_mask(const ECFileEntry *table, unsigned int idx);
/* Replaces the masked bits of every word of patch `idx` by `value`, shifted as the table says. */
bool ec_patch(const void *first, const void *second, unsigned int idx, uint64_t value);
bool ec_patch_by_id(const void *first, const void *second, const char *id, uint64_t value);

#ifdef __cplusplus
}
#endif

#endif
