/* SPDX-License-Identifier: Apache-2.0
 * One line of the log: words, then a checksum (CRC-16 with polynomial 0x1021 from 0xFFFF) behind " *".
 */
#ifndef LINE_H
#define LINE_H

#include <stdint.h>

void line_begin(const char *name); /* ATONC-PROBE 1 <name> */
void line_begin_as(const char *head); /* with another head */
void line_word(const char *word);
void line_text(const char *key, const char *value); /* spaces of the value become underscores */
void line_rest(const char *text); /* as it is, for the end of a line */
void line_number(const char *key, uint32_t value); /* without a key: NULL */
void line_hex(const char *key, uint32_t value);
void line_bytes(const char *key, const uint8_t *bytes, uint32_t count);
void line_end(void); /* into the mailbox, and on the UART where there is one */

#endif
