/* SPDX-License-Identifier: Apache-2.0
 * Text on USART1, and the few functions that the C library asks for.
 */
#include "board_io.h"

#include <stddef.h>

#define USART1 0x52001000u
#define WORD(address) (*(volatile uint32_t *)(address))

volatile board_host_t board_host;

void board_print(const char *text) {
    for (; *text; text++) {
        while (!(WORD(USART1 + 0x1Cu) & (1u << 7))) {
        }
        WORD(USART1 + 0x28u) = (uint8_t)*text;
    }
}

void board_print_number(uint32_t value) {
    char digits[11];
    char *at = digits + sizeof digits - 1;
    *at = 0;
    do {
        *--at = (char)('0' + value % 10u);
        value /= 10u;
    } while (value);
    board_print(at);
}

void board_print_hex(uint32_t value) {
    char digits[11] = "0x";
    for (int k = 0; k < 8; k++)
        digits[2 + k] = "0123456789abcdef"[value >> (28 - 4 * k) & 15u];
    digits[10] = 0;
    board_print(digits);
}

/* The C library's own output and exits: only linked when something uses them. */
int _write(int file, const char *text, int size);
int _write(int file, const char *text, int size) {
    (void)file;
    for (int k = 0; k < size; k++) {
        char one[2] = {text[k], 0};
        board_print(one);
    }
    return size;
}

void __assert_func(const char *file, int line, const char *function, const char *what);
void __assert_func(const char *file, int line, const char *function, const char *what) {
    (void)file;
    board_print("ATONC ERROR assertion ");
    board_print(what ? what : "?");
    board_print(" in ");
    board_print(function ? function : "?");
    board_print(" line ");
    board_print_number((uint32_t)line);
    board_print("\n");
    for (;;)
        board_stop(BOARD_FAILED);
}

void _exit(int code);
void _exit(int code) {
    board_print("ATONC ERROR exit ");
    board_print_number((uint32_t)code);
    board_print("\n");
    for (;;)
        board_stop(BOARD_FAILED);
}

void *_sbrk(ptrdiff_t bytes);
void *_sbrk(ptrdiff_t bytes) {
    static char heap[4096] __attribute__((aligned(8)));
    static size_t used;
    if (bytes < 0 || used + (size_t)bytes > sizeof heap)
        return (void *)-1;
    void *start = heap + used;
    used += (size_t)bytes;
    return start;
}

int _close(int file);
int _close(int file) {
    (void)file;
    return -1;
}
int _fstat(int file, void *status);
int _fstat(int file, void *status) {
    (void)file;
    (void)status;
    return -1;
}
int _isatty(int file);
int _isatty(int file) {
    (void)file;
    return 1;
}
int _lseek(int file, int offset, int from);
int _lseek(int file, int offset, int from) {
    (void)file;
    (void)offset;
    (void)from;
    return -1;
}
int _read(int file, char *into, int size);
int _read(int file, char *into, int size) {
    (void)file;
    (void)into;
    (void)size;
    return 0;
}
int _kill(int process, int signal);
int _kill(int process, int signal) {
    (void)process;
    (void)signal;
    return -1;
}
int _getpid(void);
int _getpid(void) { return 1; }
