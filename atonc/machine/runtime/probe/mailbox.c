/* SPDX-License-Identifier: Apache-2.0
 * See the header.
 */
#include "mailbox.h"

#include <string.h>

#define SEMIHOSTING_WRITE0 4u

/* Start-up does not clear it: the debugger writes its request before the first instruction. */
__attribute__((section(".noinit"), used)) mailbox_t atonc_mailbox;

static void name_into(char *place, const char *name) {
    uint32_t k = 0;
    for (; k + 1u < sizeof atonc_mailbox.asked && name[k]; k++) {
        place[k] = name[k];
    }
    place[k] = 0;
}

void mailbox_open(const char *board) {
    mailbox_t *box = &atonc_mailbox;
    if (box->request != MAILBOX_REQUEST) { /* nobody asked: all of them */
        box->first_probe = 0;
        box->options = 0;
    }
    box->request = 0; /* a reset without the debugger begins at the beginning */
    box->probe = box->length = box->lost = 0;
    box->capacity = MAILBOX_LOG;
    box->asked[0] = 0;
    name_into(box->board, board);
    box->version = MAILBOX_VERSION;
    box->state = MAILBOX_RUNS;
    box->magic = MAILBOX_MAGIC;
}

void mailbox_ask(uint32_t probe, const char *name) {
    atonc_mailbox.probe = probe;
    name_into(atonc_mailbox.asked, name);
}

__attribute__((noinline, used)) void atonc_checkpoint(void) { __asm volatile("nop" ::: "memory"); }

/* A breakpoint instruction that stops the core for ever where no debugger answers it: only on request. */
static void semihosting(const char *text) {
    register uint32_t operation __asm("r0") = SEMIHOSTING_WRITE0;
    register const char *argument __asm("r1") = text;
    __asm volatile("bkpt 0xAB" : "+r"(operation) : "r"(argument) : "memory");
}

void mailbox_line(const char *line) {
    mailbox_t *box = &atonc_mailbox;
    const uint32_t size = (uint32_t)strlen(line);
    if (box->length + size + 1u <= MAILBOX_LOG) {
        memcpy(box->log + box->length, line, size);
        box->log[box->length + size] = '\n';
        box->length += size + 1u;
    } else {
        box->lost++;
    }
    __asm volatile("dsb" ::: "memory");
    if (box->options & MAILBOX_SEMIHOSTING) {
        semihosting(line);
        semihosting("\n");
    }
    atonc_checkpoint();
}

void mailbox_stop(uint32_t state) {
    atonc_mailbox.state = state;
    __asm volatile("dsb" ::: "memory");
    atonc_checkpoint();
}
