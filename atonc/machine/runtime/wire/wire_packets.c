/* SPDX-License-Identifier: Apache-2.0
 * See the header.
 */
#include "wire_packets.h"

#include "atonc_wire.h"
#include "wire_chip.h"

#define PAYLOAD 32u
#define GO_ON 0xAAu
#define LAST 0x80u
#define GAP_MS 400u /* between two bytes of a packet, and between packets of a message */

static uint32_t header_bytes = 2;

static struct {
    uint8_t bytes[PAYLOAD];
    uint32_t count, at;
    bool open; /* a message has begun */
} in;

static struct {
    uint8_t bytes[PAYLOAD];
    uint32_t count;
} out;

bool wire_is_narrow(void) { return header_bytes == 1; }

/* Waits for ever for the first byte of a message; the others come soon or not at all. */
static bool receive(uint8_t *byte, bool patient) {
    if (atonc_uart_receive(byte))
        return true;
    const uint64_t gap = (uint64_t)GAP_MS * (wire_cpu_hz() / 1000u);
    const uint64_t began = wire_cycles();
    while (!atonc_uart_receive(byte))
        if (wire_cycles() - began > gap && !patient)
            return false;
    return true;
}

static bool read_packet(bool first) {
    uint8_t byte;
    if (!receive(&byte, first))
        return false;
    if (first)
        header_bytes = byte ? 1 : 2;
    in.count = byte;
    if (header_bytes == 2) {
        if (!receive(&byte, false))
            return false;
        in.count = in.count << 8 | byte;
    }
    for (uint32_t k = 0; k < PAYLOAD; k++)
        if (!receive(&in.bytes[k], false))
            return false;
    in.at = 0;
    return in.count <= PAYLOAD;
}

bool wire_begin(uint32_t *length) {
    uint64_t number;
    uint32_t used = 0;
    in.open = false;
    if (!wire_varint(&number, &used) || number > 0x7FFFFFFFu)
        return false;
    *length = (uint32_t)number;
    return true;
}

bool wire_byte(uint8_t *byte) {
    if (!in.open) {
        if (!read_packet(true))
            return false;
        in.open = true;
    }
    while (in.at == in.count) {
        atonc_uart_send(GO_ON);
        if (!read_packet(false))
            return false;
    }
    *byte = in.bytes[in.at++];
    return true;
}

bool wire_varint(uint64_t *number, uint32_t *used) {
    uint8_t byte;
    *number = 0;
    for (uint32_t shift = 0; shift < 70; shift += 7) {
        if (!wire_byte(&byte))
            return false;
        (*used)++;
        *number |= (uint64_t)(byte & 0x7Fu) << shift;
        if (byte < 0x80u)
            return true;
    }
    return false;
}

static void write_packet(uint32_t flag) {
    if (header_bytes == 2)
        atonc_uart_send((uint8_t)flag);
    atonc_uart_send((uint8_t)(header_bytes == 2 ? out.count : out.count | flag));
    for (uint32_t k = 0; k < PAYLOAD; k++)
        atonc_uart_send(k < out.count ? out.bytes[k] : 0);
    out.count = 0;
}

void wire_put(const void *data, uint32_t size) {
    const uint8_t *from = data;
    while (size--) {
        out.bytes[out.count++] = *from++;
        if (out.count == PAYLOAD)
            write_packet(0);
    }
}

void wire_end(void) { write_packet(LAST); }
