/* SPDX-License-Identifier: Apache-2.0
 * See the header. Clocks are those of ST's applications for both boards: CPU 800, bus 400, NPU 1000, NPU RAM 900 MHz,
 * from the 64 MHz internal oscillator.
 */
#include "board_start.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "external.h"
#include "mailbox.h"
#include "probes.h"

#define WORD(address) (*(volatile uint32_t *)(uintptr_t)(address))
#define RCC 0x56028000u
#define RCC_CONTROL (RCC + 0x000u)
#define RCC_STATUS (RCC + 0x004u)
#define RCC_SWITCHES (RCC + 0x020u)
#define RCC_PRESCALERS (RCC + 0x024u)
#define RCC_PLL(number) (RCC + 0x080u + 0x10u * ((number) - 1u))
#define RCC_DIVIDER(number) (RCC + 0x0C4u + 4u * ((number) - 1u))
#define RCC_DIVIDERS_ON (RCC + 0xA40u)
#define RCC_SET 0x800u
#define RCC_CLEAR 0x1000u
#define RCC_AHB4_ON (RCC + 0xA5Cu)
#define RCC_AHB4 (RCC + 0x25Cu)
#define HSI (1u << 3)
#define PLL(number) (1u << (7u + (number)))
#define SWITCH_FIELDS 0x03030000u
#define ALL_ON_DIVIDERS 0x03030000u /* CPU from divider 1; bus, NPU and NPU RAM from 2, 6 and 11 */
#define PWR_CLOCK (1u << 18)
#define PWR_VOLTAGE 0x56024820u
#define VOLTAGE_HIGH (1u << 0)
#define VOLTAGE_READY (1u << 1)
#define GPIO(port) (0x56020000u + 0x400u * (port))
#define LOOKS 200000u       /* at a flag: some 30 ms at 64 MHz, and a PLL locks in less than one */
#define SUPPLY_LOOPS 64000u /* at least 1 ms for the external regulator to reach 0.9 V */

typedef struct {
    const char *name;
    uint8_t port, pin; /* high: the external regulator gives 0.9 V for the core, which these clocks need */
} board_t;

static const board_t boards[] = {{"stm32n6570-dk", 5, 4}, {"nucleo-n657x0-q", 1, 12}};

const char *board_clocks = "as_found";
const char *board_external = "as_found";

static bool waited_for(uint32_t address, uint32_t mask, uint32_t wanted) {
    for (uint32_t looks = 0; looks < LOOKS; looks++) {
        if ((WORD(address) & mask) == wanted) {
            return true;
        }
    }
    return false;
}

static bool switched_to(uint32_t sources) {
    WORD(RCC_SWITCHES) = (WORD(RCC_SWITCHES) & ~SWITCH_FIELDS) | sources;
    return waited_for(RCC_SWITCHES, SWITCH_FIELDS << 4, sources << 4);
}

static bool voltage_is_high(const board_t *board) {
    WORD(RCC_AHB4_ON) = PWR_CLOCK | 1u << board->port;
    (void)WORD(RCC_AHB4);
    WORD(GPIO(board->port) + 0x18u) = 1u << board->pin; /* the level first, then the output */
    WORD(GPIO(board->port)) = (WORD(GPIO(board->port)) & ~(3u << 2u * board->pin)) | 1u << 2u * board->pin;
    WORD(PWR_VOLTAGE) |= VOLTAGE_HIGH;
    for (uint32_t k = 0; k < SUPPLY_LOOPS; k++) {
        __asm volatile("nop");
    }
    return waited_for(PWR_VOLTAGE, VOLTAGE_READY, VOLTAGE_READY);
}

/* 64 MHz / m * n / (p1 * p2), no fraction, no spread. */
static bool pll_locked(uint32_t number, uint32_t m, uint32_t n, uint32_t p1p2) {
    WORD(RCC_CONTROL + RCC_CLEAR) = PLL(number);
    if (!waited_for(RCC_STATUS, PLL(number), 0)) {
        return false;
    }
    WORD(RCC_PLL(number)) = m << 20 | n << 8;
    WORD(RCC_PLL(number) + 4u) = 0;
    WORD(RCC_PLL(number) + 8u) = 1u << 30 | p1p2 << 24 | 1u << 2 | 1u; /* outputs on; modulation off and in reset */
    WORD(RCC_CONTROL + RCC_SET) = PLL(number);
    return waited_for(RCC_STATUS, PLL(number), PLL(number));
}

static const char *clocks_of(const board_t *board) {
    WORD(RCC_CONTROL + RCC_SET) = HSI;
    if (!waited_for(RCC_STATUS, HSI, HSI) || !switched_to(0)) {
        return "oscillator_not_ready";
    }
    WORD(RCC + 0x048u) &= ~(3u << 7); /* 64 MHz, undivided */
    if (!voltage_is_high(board)) {
        return "core_voltage_not_ready";
    }
    if (!pll_locked(1, 2, 25, 1u << 3 | 1u)) { /* 800 MHz */
        return "PLL1_did_not_lock";
    }
    if (!pll_locked(2, 8, 125, 1u << 3 | 1u)) { /* 1000 MHz */
        return "PLL2_did_not_lock";
    }
    if (!pll_locked(3, 8, 225, 1u << 3 | 2u)) { /* 900 MHz */
        return "PLL3_did_not_lock";
    }
    WORD(RCC_DIVIDER(1)) = 0;               /* PLL1 */
    WORD(RCC_DIVIDER(2)) = 1u << 16;        /* PLL1 / 2 */
    WORD(RCC_DIVIDER(6)) = 1u << 28;        /* PLL2 */
    WORD(RCC_DIVIDER(11)) = 2u << 28;       /* PLL3 */
    WORD(RCC_DIVIDERS_ON) = 1u | 1u << 1 | 1u << 5 | 1u << 10;
    WORD(RCC_PRESCALERS) = 1u << 20; /* the peripherals' bus at half: 200 MHz */
    __asm volatile("dsb" ::: "memory");
    if (!switched_to(ALL_ON_DIVIDERS)) {
        switched_to(0);
        return "clock_switch_failed";
    }
    return "board";
}

__attribute__((weak)) void probe_board_init(void) {
    for (uint32_t k = 0; k < sizeof boards / sizeof boards[0]; k++) {
        if (strcmp(probes_board, boards[k].name) == 0) {
            board_clocks = clocks_of(&boards[k]);
            const bool wanted = !(atonc_mailbox.options & MAILBOX_ON_CHIP);
            board_external = wanted && external_start(k == 0) ? "slow" : "as_found";
        }
    }
}
