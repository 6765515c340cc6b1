/* SPDX-License-Identifier: Apache-2.0
 * See the header.
 */
#include "line.h"

#include <stddef.h>

#include "mailbox.h"
#ifdef UART
#include "uart.h"
#endif

#define HEAD "ATONC-PROBE 1"

static char line[512];
static uint32_t used;

static void put(char one) {
    if (used < sizeof line - 1) {
        line[used++] = one;
    }
}

static void put_text(const char *text) {
    for (; *text; text++) {
        put(*text == ' ' ? '_' : *text);
    }
}

static void put_hex(uint32_t value, unsigned digits) {
    while (digits-- > 0) {
        put("0123456789ABCDEF"[value >> 4 * digits & 15u]);
    }
}

void line_rest(const char *text) {
    for (; *text; text++) {
        put(*text);
    }
}

void line_begin_as(const char *head) {
    used = 0;
    line_rest(head);
}

void line_begin(const char *name) {
    line_begin_as(HEAD);
    line_word(name);
}

void line_word(const char *word) {
    put(' ');
    put_text(word);
}

static void key_of(const char *key) {
    put(' ');
    if (key != NULL) {
        put_text(key);
        put('=');
    }
}

void line_text(const char *key, const char *value) {
    key_of(key);
    put_text(value);
}

void line_number(const char *key, uint32_t value) {
    char digits[11];
    char *at = digits + sizeof digits - 1;
    *at = 0;
    do {
        *--at = (char)('0' + value % 10u);
        value /= 10u;
    } while (value);
    line_text(key, at);
}

void line_hex(const char *key, uint32_t value) {
    key_of(key);
    put_hex(value, 8);
}

void line_bytes(const char *key, const uint8_t *bytes, uint32_t count) {
    key_of(key);
    for (uint32_t k = 0; k < count; k++) {
        put_hex(bytes[k], 2);
    }
}

static uint32_t checksum(void) {
    uint32_t crc = 0xFFFFu;
    for (uint32_t k = 0; k < used; k++) {
        crc ^= (uint32_t)(uint8_t)line[k] << 8;
        for (unsigned bit = 0; bit < 8; bit++) {
            crc = (crc << 1 ^ (crc & 0x8000u ? 0x1021u : 0u)) & 0xFFFFu;
        }
    }
    return crc;
}

void line_end(void) {
    const uint32_t crc = checksum();
    put(' ');
    put('*');
    put_hex(crc, 4);
    line[used] = 0;
#ifdef UART
    uart_print(line);
    uart_print("\n");
#endif
    mailbox_line(line);
}
