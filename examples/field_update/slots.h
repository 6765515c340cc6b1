/* Which of two slots holds the model to run: a record of six words in two erase blocks, written by turns.
 *
 * Whatever moment power fails at, the record that was not being written is still whole, and says either the old model
 * or the new one. A new model is on trial until the application has seen it work; after SLOT_TRIES starts without that
 * the other slot comes back. Plain C, no heap, no runtime: see docs/reloc.md, and tests/reloc/test_slots.py for every
 * moment at which power can fail. */
#ifndef SLOTS_H
#define SLOTS_H

#include <stdbool.h>
#include <stdint.h>

#define SLOT_TRIES 3u

enum slot_state { SLOT_GOOD = 1, SLOT_ON_TRIAL = 2 };

struct slot_record {
    uint32_t magic;
    uint32_t sequence; /* the larger one holds */
    uint32_t slot;     /* 0 or 1 */
    uint32_t state;
    uint32_t tries;    /* starts that are left to a slot on trial */
    uint32_t crc;      /* of the words before */
};

/* Given by the application. `copy` is 0 or 1: two erase blocks. Writing erases first; false when the flash refuses. */
void slots_read_flash(uint32_t copy, struct slot_record *record);
bool slots_write_flash(uint32_t copy, const struct slot_record *record);

/* Once at every start: the slot to install. Counts a try when that one is on trial; gives up on it after the last. */
struct slot_record slots_start(void);

/* After a new image is whole in the slot that slots_start did not give, and atonc_reloc_check has accepted it. */
bool slots_begin_trial(uint32_t slot);

bool slots_accept(void); /* the slot on trial works */
bool slots_reject(void); /* it does not: the other one from now on; install it, or restart */

#endif
