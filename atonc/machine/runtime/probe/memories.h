/* SPDX-License-Identifier: Apache-2.0
 * Which memories answer, and the NPU's cache in front of those outside the chip.
 */
#ifndef MEMORIES_H
#define MEMORIES_H

#include <stdbool.h>
#include <stdint.h>

void memories_on(void); /* on the chip */
bool flash_is_mapped(void);
bool hyperram_is_mapped(void);
bool hyperram_answers(uint32_t address);

#endif
