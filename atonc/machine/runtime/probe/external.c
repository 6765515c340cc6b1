/* SPDX-License-Identifier: Apache-2.0
 * See the header. Both run far below what the board's applications reach: pads at 1.8 V are fast only where fuses say so,
 * which nobody here reads or writes. Flash answers to the one-line commands that every such chip has after its reset;
 * the RAM is set up as ST's drivers do it. Speeds measured this way say nothing about an application, and the log's first
 * line tells (external=slow).
 */
#include "external.h"

#ifndef EXTERNAL_MEMORIES
#define EXTERNAL_MEMORIES 1
#endif

#if EXTERNAL_MEMORIES

#include <stdint.h>

#define WORD(address) (*(volatile uint32_t *)(uintptr_t)(address))
#define RCC 0x56028000u
#define RCC_KERNEL_CLOCKS (RCC + 0x158u)
#define RCC_AHB4_ON (RCC + 0xA5Cu)
#define RCC_AHB5_RESET_ON (RCC + 0xA20u)
#define RCC_AHB5_RESET_OFF (RCC + 0x1220u)
#define RCC_AHB5_ON (RCC + 0xA60u)
#define RCC_AHB5 (RCC + 0x260u)
#define RCC_AHB5_SLEEP_ON (RCC + 0xAA0u)
#define PWR_CLOCK (1u << 18)
#define PADS 0x5602483Cu
#define PADS_OF_RAM (1u << 8)
#define PADS_OF_FLASH (1u << 9)
#define PORT_N 13u
#define PORT_O 14u
#define PORT_P 15u
#define GPIO(port) (0x56020000u + 0x400u * (port))
#define FUNCTION 9u
#define IO_MANAGER_CLOCK (1u << 13)
#define RAM_CLOCK (1u << 5)
#define FLASH_CLOCK (1u << 12)
#define RAM_CONTROLLER 0x58025000u
#define FLASH_CONTROLLER 0x5802A000u
#define CONTROL 0x000u
#define SHAPE 0x008u
#define PRESCALER 0x00Cu
#define BOUNDARY 0x010u
#define REFRESH 0x014u
#define STATUS 0x020u
#define CLEAR 0x024u
#define LENGTH 0x040u
#define ADDRESS 0x048u
#define DATA 0x050u
#define FORMAT 0x100u /* of a command; +8 its timing, +0x10 its code; those of mapped writes lie 0x80 higher */
#define WRITES 0x80u
#define DATA_EDGES (1u << 27) /* of a format: data on both edges, delayed by a quarter of a cycle (QUARTER) */
#define QUARTER (1u << 28)    /* of a timing */
#define COMPLETE (1u << 1)
#define ROOM (1u << 2)
#define BUSY (1u << 5)
#define ON 1u
#define READS (1u << 28)
#define MAPPED (3u << 28)
#define LOOKS 200000u
#define TRIES 100u      /* the flash may have been erasing when it was reset: up to 100 ms */
#define TRY_LOOPS 300000u /* about 1 ms */

static bool waited_for(uint32_t address, uint32_t mask, uint32_t wanted) {
    for (uint32_t looks = 0; looks < LOOKS; looks++) {
        if ((WORD(address) & mask) == wanted) {
            return true;
        }
    }
    return false;
}

static void pins(uint32_t port, uint32_t which) {
    WORD(RCC_AHB4_ON) = 1u << port | PWR_CLOCK;
    (void)WORD(RCC + 0x25Cu);
    for (uint32_t pin = 0; pin < 16; pin++) {
        if (which >> pin & 1u) {
            volatile uint32_t *function = &WORD(GPIO(port) + 0x20u + 4u * (pin / 8u));
            *function = (*function & ~(0xFu << 4u * (pin % 8u))) | FUNCTION << 4u * (pin % 8u);
            WORD(GPIO(port) + 0x08u) |= 3u << 2u * pin; /* the fastest edges */
            WORD(GPIO(port)) = (WORD(GPIO(port)) & ~(3u << 2u * pin)) | 2u << 2u * pin;
        }
    }
}

static bool controller_on(uint32_t controller, uint32_t clock, uint32_t shape, uint32_t prescaler) {
    WORD(RCC_AHB5_ON) = clock | IO_MANAGER_CLOCK;
    (void)WORD(RCC_AHB5);
    WORD(RCC_AHB5_RESET_ON) = clock;
    WORD(RCC_AHB5_RESET_OFF) = clock;
    WORD(RCC_AHB5_SLEEP_ON) = clock | IO_MANAGER_CLOCK;
    WORD(controller + SHAPE) = shape;
    WORD(controller + PRESCALER) = prescaler; /* starts a calibration */
    if (!waited_for(controller + STATUS, BUSY, 0)) {
        return false;
    }
    WORD(controller + CONTROL) = ON;
    return true;
}

/* An indirect command that writes `size` bytes of `data`, lowest first; 0: without data. */
static bool sent(uint32_t controller, uint32_t format, uint32_t code, uint32_t address, uint32_t data, uint32_t size) {
    if (!waited_for(controller + STATUS, BUSY, 0)) {
        return false;
    }
    WORD(controller + CONTROL) = ON;
    if (size) {
        WORD(controller + LENGTH) = size - 1u;
    }
    WORD(controller + FORMAT + 8u) = format & DATA_EDGES ? QUARTER : 0;
    WORD(controller + FORMAT) = format;
    WORD(controller + FORMAT + 0x10u) = code;
    if (format >> 8 & 7u) {
        WORD(controller + ADDRESS) = address;
    }
    for (uint32_t k = 0; k < size; k++) {
        if (!waited_for(controller + STATUS, ROOM, ROOM)) {
            return false;
        }
        *(volatile uint8_t *)(uintptr_t)(controller + DATA) = (uint8_t)(data >> 8u * k);
    }
    const bool done = waited_for(controller + STATUS, COMPLETE, COMPLETE);
    WORD(controller + CLEAR) = COMPLETE;
    return done;
}

static void mapped_with(uint32_t controller, uint32_t kind, uint32_t format, uint32_t code, uint32_t dummies) {
    WORD(controller + FORMAT + kind + 8u) = dummies;
    WORD(controller + FORMAT + kind) = format;
    WORD(controller + FORMAT + kind + 0x10u) = code;
}

/* ---- flash: one line, 25 MHz ---- */

#define ONE_LINE 1u
#define ADDRESS_ON_ONE_LINE (1u << 8 | 3u << 12) /* of 32 bits */
#define DATA_ON_ONE_LINE (1u << 24)
#define EIGHT_LINES (4u | 1u << 4) /* codes of 16 bits */
#define BOTH_EDGES (1u << 3 | DATA_EDGES)

/* By its status register: no write in progress. Lines that nobody drives read as ones. */
static bool flash_is_ready(void) {
    WORD(FLASH_CONTROLLER + CONTROL) = ON | READS;
    WORD(FLASH_CONTROLLER + LENGTH) = 0;
    WORD(FLASH_CONTROLLER + FORMAT + 8u) = 0;
    WORD(FLASH_CONTROLLER + FORMAT) = ONE_LINE | DATA_ON_ONE_LINE;
    WORD(FLASH_CONTROLLER + FORMAT + 0x10u) = 0x05u;
    if (!waited_for(FLASH_CONTROLLER + STATUS, COMPLETE, COMPLETE)) {
        return false;
    }
    const uint8_t status = *(volatile uint8_t *)(uintptr_t)(FLASH_CONTROLLER + DATA);
    WORD(FLASH_CONTROLLER + CLEAR) = COMPLETE;
    return !(status & 1u);
}

/* Whatever mode a loader has left it in: reset and ready by one line, by eight, and by eight on both edges. */
static bool flash_reset(void) {
    const uint32_t formats[] = {ONE_LINE, EIGHT_LINES, EIGHT_LINES | BOTH_EDGES};
    for (uint32_t k = 0; k < 3; k++) {
        if (!sent(FLASH_CONTROLLER, formats[k], k ? 0x6699u : 0x66u, 0, 0, 0) ||
            !sent(FLASH_CONTROLLER, formats[k], k ? 0x9966u : 0x99u, 0, 0, 0)) {
            return false;
        }
    }
    for (uint32_t tries = 0; tries < TRIES; tries++) {
        for (uint32_t k = 0; k < TRY_LOOPS; k++) {
            __asm volatile("nop");
        }
        if (flash_is_ready()) {
            return true;
        }
    }
    return false;
}

static bool flash_start(void) {
    pins(PORT_N, 0xF7Fu); /* 0 to 6, 8 to 11 */
    WORD(PADS) |= PADS_OF_FLASH;
    if (!controller_on(FLASH_CONTROLLER, FLASH_CLOCK, 1u << 24 | 26u << 16 | 1u << 8, 7) || !flash_reset()) {
        return false;
    }
    const uint32_t format = ONE_LINE | ADDRESS_ON_ONE_LINE | DATA_ON_ONE_LINE;
    mapped_with(FLASH_CONTROLLER, 0, format, 0x0Cu, 8); /* reads with eight idle cycles; nothing is ever written */
    WORD(FLASH_CONTROLLER + CONTROL) = ON | MAPPED;
    return true;
}

/* ---- RAM: sixteen lines on both edges, 50 MHz ---- */

#define RAM_COMMAND (4u | 4u << 8 | 1u << 11 | 3u << 12 | DATA_EDGES) /* eight lines; address and data on both edges */
#define RAM_DATA_8 (4u << 24)
#define RAM_DATA_16 (5u << 24)
#define STROBE (1u << 29)
#define RAM_DUMMIES 6u

static bool ram_start(void) {
    pins(PORT_O, 1u | 1u << 2 | 1u << 3 | 1u << 4);
    pins(PORT_P, 0xFFFFu);
    WORD(PADS) |= PADS_OF_RAM;
    if (!controller_on(RAM_CONTROLLER, RAM_CLOCK, 6u << 24 | 24u << 16 | 4u << 8, 3)) {
        return false;
    }
    WORD(RAM_CONTROLLER + BOUNDARY) = 11u << 16; /* rows of 2 KB */
    WORD(RAM_CONTROLLER + REFRESH) = 129;        /* cycles after which the chip must be left alone: 2.6 us, 4 at most */
    static const uint8_t modes[][2] = {{0, 0x30}, {4, 0x20}, {8, 0x40}}; /* read and write latency 7, sixteen lines */
    for (uint32_t k = 0; k < 3; k++) {
        if (!sent(RAM_CONTROLLER, RAM_COMMAND | RAM_DATA_8, 0xC0u, modes[k][0], modes[k][1], 2)) {
            return false;
        }
    }
    mapped_with(RAM_CONTROLLER, 0, RAM_COMMAND | RAM_DATA_16 | STROBE, 0x20u, QUARTER | RAM_DUMMIES);
    mapped_with(RAM_CONTROLLER, WRITES, RAM_COMMAND | RAM_DATA_16 | STROBE, 0xA0u, RAM_DUMMIES);
    WORD(RAM_CONTROLLER + CONTROL) = ON | MAPPED;
    return true;
}

bool external_start(bool ram) {
    WORD(RCC_KERNEL_CLOCKS) &= ~(3u | 3u << 4); /* both from the peripherals' bus */
    const bool flash = flash_start();
    return (ram && ram_start()) || flash;
}

#else

bool external_start(bool ram) {
    (void)ram;
    return false;
}

#endif
