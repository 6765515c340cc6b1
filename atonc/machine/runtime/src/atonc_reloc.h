/* SPDX-License-Identifier: Apache-2.0
 * Inside the loader of relocatable images.
 *
 * An image is data of somebody else: its header, its lists and its tables are read as words at checked places, never
 * through structs laid over memory, and nothing that an image names is followed before its place was compared with
 * what the image has. Sizes and offsets have 28 bits, so sums of a few of them cannot overflow.
 */
#ifndef ATONC_RELOC_H
#define ATONC_RELOC_H

#include "ll_aton_reloc_network.h"

#define RELOC_OFFSET(word) ((word)&0x0FFFFFFFUL)
#define RELOC_SEGMENT(word) ((word) >> 28)
enum { RELOC_FLASH = 2, RELOC_RAM = 4, RELOC_PARAM_0 = 8, RELOC_PARAM_1 = 9 };

/* Words of the header in front of the entry points. */
enum {
    HDR_MAGIC, HDR_FLAGS, HDR_DATA_START, HDR_DATA_END, HDR_DATA_DATA, HDR_BSS_START, HDR_BSS_END, HDR_GOT_START,
    HDR_GOT_END, HDR_REL_START, HDR_REL_END, HDR_POOLS, HDR_PARAMS, HDR_ENTRIES
};
/* Entry points, as in the header up to here; the rest depends on the release. */
enum {
    ENTRY_NETWORK_INIT, ENTRY_INFERENCE_INIT, ENTRY_SET_INPUT, ENTRY_GET_INPUT, ENTRY_SET_OUTPUT, ENTRY_GET_OUTPUT,
    ENTRY_EPOCHS, ENTRY_OUTPUTS, ENTRY_INPUTS, ENTRY_INTERNALS
};
/* Words of the context. */
enum {
    CTX_STATE, CTX_FILE, CTX_RAM, CTX_ROM, CTX_CALLBACKS, CTX_NAME, CTX_ACTIVATIONS, CTX_PARAMS, CTX_EXT_RAM,
    CTX_RUNTIME, CTX_VERSION, CTX_DEV, CTX_PARAMS_FILE, CTX_PARAMS_CRC, CTX_STRUCTS, CTX_INSTANCE, CTX_INTERFACE,
    CTX_WORDS
};
#define CTX_INITIALISED 1u
#define CTX_IN_PLACE 2u

/* Words of the note that images of ours have behind the header. */
enum { NOTE_MAGIC, NOTE_VERSION, NOTE_CODE_BYTES, NOTE_CODE_CRC, NOTE_CALLBACKS, NOTE_HASH, NOTE_WORDS = 10 };
#define NOTE_MAGIC_WORD 0x434E5441UL /* "ATNC" */

#define RELOC_MAX_POOLS 10u
#define RELOC_POOL_WORDS 5u
#define RELOC_EXTERNAL 0x60000000UL /* from here on addresses are outside the chip */

/* An image whose header holds together. Offsets are bytes from the start of the file, or of the data in RAM. */
typedef struct {
    uintptr_t file;
    uint32_t readable; /* bytes from there on */
    uint32_t flags;
    uint32_t ro;          /* code and constants; data begin here */
    uint32_t copied;      /* data that come from the file; what follows in RAM is cleared */
    uint32_t rw;          /* all of the data in RAM */
    uint32_t got, got_end; /* in the data */
    uint32_t rel, rel_end; /* in the file */
    uint32_t pools;        /* in the data */
    uint32_t context;      /* in the data */
    uint32_t params;       /* in the file; 0: elsewhere */
    uint32_t entry_words;
    uint32_t note; /* in the file; 0: none */
} atonc_image_t;

/* Where the parts of an image are or will be. */
typedef struct {
    uintptr_t rom, ram; /* code and constants, data */
    uint32_t exec_size; /* of the RAM that they take */
    uintptr_t params;   /* start of the parameters */
    uint32_t params_size;
    uintptr_t param_0; /* base of the pool that stays there */
    uintptr_t ext_ram;
    uint32_t ext_ram_size;
} atonc_places_t;

uint32_t atonc_image_word(const atonc_image_t *image, uint32_t offset); /* of the file; the caller knows it is inside */
uint32_t atonc_image_context(const atonc_image_t *image, uint32_t word);
const char *atonc_image_text(const atonc_image_t *image, uint32_t address); /* NULL if it is none */

/* Header, machine, runtime: everything that does not depend on where the image goes. */
atonc_reloc_reason_t atonc_image_examine(uintptr_t file, atonc_image_t *image);
/* Checksums and model. */
atonc_reloc_reason_t atonc_image_verify(const atonc_image_t *image, const atonc_places_t *places);
/* The table of pools against the places; `mine` is memory that no pool may touch. */
typedef struct {
    uintptr_t start;
    uint32_t size;
} atonc_range_t;
atonc_reloc_reason_t atonc_pools_check(const atonc_image_t *image, atonc_places_t *places, uint32_t mode,
                                       const atonc_range_t *mine, unsigned count);
void atonc_pools_fill(const atonc_image_t *image, const atonc_places_t *places, uint32_t mode);
bool atonc_ranges_meet(uintptr_t a, uint32_t a_size, uintptr_t b, uint32_t b_size);

/* The functions that an image of this release may call; NULL if its table is not known. */
const struct ll_aton_reloc_callback *atonc_callbacks_for(const atonc_image_t *image);

/* Ends the call of an image's function that is under way, with this error. */
void atonc_reloc_abandon(atonc_error_t code, uint32_t detail);

void atonc_reloc_set_reason(atonc_reloc_reason_t reason);
int atonc_reloc_error_of(atonc_reloc_reason_t reason);

#endif
