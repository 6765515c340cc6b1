/* SPDX-License-Identifier: Apache-2.0
 * Messages of a validation client, cut into packets. Both forms of header are understood: which one is spoken
 * shows in the first byte of a message, and answers have the same.
 */
#ifndef WIRE_PACKETS_H
#define WIRE_PACKETS_H

#include <stdbool.h>
#include <stdint.h>

/* Reading: the length of the next message, then its bytes. False: the line failed, and the message is lost. */
bool wire_begin(uint32_t *length);
bool wire_byte(uint8_t *byte);
bool wire_varint(uint64_t *number, uint32_t *used); /* `used` is how many bytes it took, added */

/* Writing: bytes of an answer, and its end. */
void wire_put(const void *data, uint32_t size);
void wire_end(void);

bool wire_is_narrow(void); /* one byte of header: the older form */

#endif
