#include "slots.h"

#include <stddef.h>

#define MAGIC 0x544F4C53u /* "SLOT" */

static uint32_t crc32(const uint8_t *bytes, size_t count)
{
    uint32_t crc = 0xFFFFFFFFu;
    while (count--) {
        crc ^= *bytes++;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1u ? 0xEDB88320u : 0u);
    }
    return ~crc;
}

static uint32_t checksum(const struct slot_record *record)
{
    return crc32((const uint8_t *)record, offsetof(struct slot_record, crc));
}

static bool is_whole(const struct slot_record *record)
{
    return record->magic == MAGIC && record->slot < 2u && record->crc == checksum(record)
           && (record->state == SLOT_GOOD || record->state == SLOT_ON_TRIAL);
}

/* Which copy holds; 2 when none does, as on a board that was never updated: slot 0 is good then. */
static uint32_t current(struct slot_record *record)
{
    struct slot_record copies[2];
    slots_read_flash(0, &copies[0]);
    slots_read_flash(1, &copies[1]);
    bool first = is_whole(&copies[0]), second = is_whole(&copies[1]);
    if (!first && !second) {
        *record = (struct slot_record){MAGIC, 0u, 0u, SLOT_GOOD, 0u, 0u};
        return 2u;
    }
    bool later = second && (!first || (int32_t)(copies[1].sequence - copies[0].sequence) > 0);
    *record = copies[later];
    return later;
}

/* Over the copy that does not hold, so that the one that does stays whole meanwhile. */
static bool write_next(struct slot_record *record, uint32_t slot, uint32_t state, uint32_t tries)
{
    struct slot_record before;
    uint32_t copy = current(&before) == 0u;
    *record = (struct slot_record){MAGIC, before.sequence + 1u, slot, state, tries, 0u};
    record->crc = checksum(record);
    return slots_write_flash(copy, record);
}

struct slot_record slots_start(void)
{
    struct slot_record record;
    current(&record);
    if (record.state == SLOT_ON_TRIAL) {
        uint32_t slot = record.slot;
        /* a try that cannot be counted is not made: it might repeat for ever */
        if (record.tries == 0u || !write_next(&record, slot, SLOT_ON_TRIAL, record.tries - 1u))
            (void)write_next(&record, slot ^ 1u, SLOT_GOOD, 0u);
    }
    return record;
}

bool slots_begin_trial(uint32_t slot)
{
    struct slot_record record;
    return write_next(&record, slot, SLOT_ON_TRIAL, SLOT_TRIES);
}

bool slots_accept(void)
{
    struct slot_record record;
    current(&record);
    return record.state == SLOT_GOOD || write_next(&record, record.slot, SLOT_GOOD, 0u);
}

bool slots_reject(void)
{
    struct slot_record record;
    current(&record);
    return record.state == SLOT_GOOD || write_next(&record, record.slot ^ 1u, SLOT_GOOD, 0u);
}
