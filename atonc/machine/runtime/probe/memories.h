/* SPDX-License-Identifier: Apache-2.0
 * Memories that somebody else has to make ready, and the NPU's cache in front of them.
 */
#ifndef MEMORIES_H
#define MEMORIES_H

#include <stdbool.h>
#include <stdint.h>

/* Clocks, pins and controllers of flash and external RAM belong to code that atonc does not have: a board support
 * package. Write this function around it and give its file to make (HOOK=file.c); without it nothing happens here, and
 * what a first-stage loader has set up is used. Called before anything else. */
void probe_board_init(void);

void memories_on(void); /* on the chip */
bool flash_is_mapped(void);
bool hyperram_is_mapped(void);
bool hyperram_answers(uint32_t address);

#endif
