/* SPDX-License-Identifier: Apache-2.0
 * The log in RAM, for a debugger: no UART is needed. After every line the firmware calls `atonc_checkpoint`, an empty
 * function for a breakpoint, so that nobody has to read the memory of a running core.
 */
#ifndef MAILBOX_H
#define MAILBOX_H

#include <stdint.h>

#define MAILBOX_MAGIC 0x4D4E5441u   /* "ATNM" */
#define MAILBOX_REQUEST 0x51544E41u /* "ANTQ": the debugger has written first_probe and options */
#define MAILBOX_VERSION 1u
#define MAILBOX_LOG 0xE000u /* 230 answers at their longest */

enum { MAILBOX_RUNS = 1, MAILBOX_ENDED = 2, MAILBOX_FAULT = 3 }; /* state */

enum {                       /* options */
    MAILBOX_SEMIHOSTING = 1, /* print every line through the debugger too; it must have semihosting enabled */
    MAILBOX_EMULATED = 2,    /* an emulator: probes whose setting it does not know are skipped */
    MAILBOX_ON_CHIP = 4,     /* leave flash and external RAM as they are */
};

typedef struct {
    uint32_t magic;
    uint32_t version;
    uint32_t state;
    uint32_t request;     /* before the start; the firmware clears it */
    uint32_t first_probe; /* before the start: those in front of it are not asked */
    uint32_t options;     /* before the start */
    uint32_t probe;       /* that is asked now, or was when a fault came */
    uint32_t length;      /* of the log */
    uint32_t capacity;
    uint32_t lost;  /* lines that did not fit */
    char asked[64]; /* its name; empty: none yet */
    char board[64]; /* that the firmware was built for */
    char log[MAILBOX_LOG];
} mailbox_t;

extern mailbox_t atonc_mailbox;

void mailbox_open(const char *board);
void mailbox_ask(uint32_t probe, const char *name);
void mailbox_line(const char *line);
void mailbox_stop(uint32_t state); /* and the last checkpoint */
void atonc_checkpoint(void);

#endif
