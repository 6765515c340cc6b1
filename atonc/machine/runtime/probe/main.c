/* SPDX-License-Identifier: Apache-2.0
 * Runs every probe of this image and tells what the silicon made of it, one line each, in the mailbox (mailbox.h) and,
 * built with UART=1, on USART1 (115200 8N1):
 *
 * ATONC-PROBE 1 <name> <pass|wrong|hang|skipped> <key>=<value> ... *<checksum>
 *
 * cycles: of the NPU's clock, least of the runs, with the processor's part of starting and ending the program
 * first, got, want: the first byte that differs, and up to 32 bytes from there on
 * why: the answer of several that came, what was missing, or the error
 */
#include <stdint.h>
#include <string.h>

#include "board_start.h"
#include "dma.h"
#include "line.h"
#include "ll_aton.h"
#include "ll_aton_caches_interface.h"
#include "ll_aton_runtime.h"
#include "mailbox.h"
#include "memories.h"
#include "npu_cache.h"
#include "npu_power.h"
#include "probes.h"
#include "self_test.h"
#ifdef UART
#include "uart.h"
#endif
#include "wire_chip.h"

#define UNTOUCHED 0xA5 /* what the output holds before a probe: bytes that no writer may touch keep it */
#define SHOWN 32u
#ifndef RUNS
#define RUNS 3u
#endif
#ifndef WATCHDOG_POLLS
#define WATCHDOG_POLLS 2000000u /* looks at the NPU before a probe counts as hanging */
#endif
#define DWT_CYCCNT (*(volatile uint32_t *)0xE0001004u)

static uint32_t answered; /* lines, so that a reader of the log sees which are lost */
static const probe_t *current;

/* ---- every probe is the same network with another program ---- */

static LL_ATON_RT_EpochBlockItem_t blocks[2] = {
    {.flags = EpochBlock_Flags_epoch_start | EpochBlock_Flags_epoch_end | EpochBlock_Flags_blob |
              EpochBlock_Flags_pure_hw},
    {.flags = EpochBlock_Flags_last_eb},
};

static const LL_ATON_RT_EpochBlockItem_t *probe_blocks(void) {
    blocks[0].blob_address = (uintptr_t)current->program;
    return blocks;
}

static const NN_Interface_TypeDef interface = {.network_name = "probe", .epoch_block_items = probe_blocks};
static NN_Instance_TypeDef network = {.network = &interface};

/* ---- keys ---- */

/* The same made-up key in both bus interfaces; no file and no line has it, and the next start makes up another. */
static void set_keys(void) {
    uint64_t half[2];
    for (uint32_t k = 0; k < 2; k++) {
        half[k] = 0;
        for (uint32_t bits = 0; bits < 64; bits += 8) {
            half[k] = half[k] << 8 | ((DWT_CYCCNT * 2654435761u) >> 24);
        }
    }
    for (int id = 0; id < 2; id++) {
        LL_Busif_SetKeys(id, 0, half[0], half[1]);
    }
}

/* ---- one run ---- */

/* The moment at which the counter moves on: virtual boards count in steps. */
static uint32_t now(void) {
    const uint32_t before = DWT_CYCCNT;
    uint32_t value;
    do {
        value = DWT_CYCCNT;
    } while (value == before);
    return value;
}

static uint32_t npu_cycles(uint32_t cpu_cycles) {
    const uint32_t cpu = wire_cpu_hz(), npu = wire_npu_hz();
    return cpu == 0 ? cpu_cycles : (uint32_t)(((uint64_t)cpu_cycles * npu + cpu / 2u) / cpu);
}

static void load(const probe_t *one) {
    for (uint32_t k = 0; k < one->constant_count; k++) {
        const probe_constant_t *part = &one->constants[k];
        if (part->data != NULL) {
            memcpy((void *)(uintptr_t)part->address, part->data, part->size);
            LL_ATON_Cache_MCU_Clean_Range(part->address, part->size);
        }
    }
    memcpy((void *)(uintptr_t)one->input, one->stimulus, one->stimulus_size);
    memset((void *)(uintptr_t)one->output, UNTOUCHED, one->output_size);
    LL_ATON_Cache_MCU_Clean_Range(one->input, one->stimulus_size);
    LL_ATON_Cache_MCU_Clean_Invalidate_Range(one->output, one->output_size);
    npu_cache_invalidate();
}

/* NPU cycles; an error is in the status of the network. */
static uint32_t run(const probe_t *one) {
    load(one);
    LL_ATON_RT_Init_Network(&network);
    const uint32_t start = now();
    dma_start(&one->transfer);
    LL_ATON_RT_RetValues_t state;
    do {
        state = LL_ATON_RT_RunEpochBlock(&network);
        if (!dma_running() && state == LL_ATON_RT_WFE) {
            LL_ATON_OSAL_WFE();
        }
    } while (state != LL_ATON_RT_DONE);
    dma_finish();
    const uint32_t cycles = one->transfer.size ? dma_cycles() : now() - start;
    LL_ATON_Cache_MCU_Invalidate_Range(one->output, one->output_size);
    return npu_cycles(cycles);
}

/* ---- answers ---- */

static uint32_t first_difference(const uint8_t *found, const uint8_t *expected, uint32_t size) {
    uint32_t k = 0;
    while (k < size && found[k] == expected[k]) {
        k++;
    }
    return k;
}

static void show(const char *key, const uint8_t *bytes, uint32_t first, uint32_t size) {
    line_bytes(key, bytes + first, size - first < SHOWN ? size - first : SHOWN);
}

static void say_cycles(const char *verdict, uint32_t cycles, uint32_t runs) {
    line_word(verdict);
    line_number("cycles", cycles);
    line_number("runs", runs);
}

/* The one output that must not come did. */
static int unwanted(const probe_t *one, uint32_t cycles, uint32_t runs) {
    say_cycles("wrong", cycles, runs);
    line_number("first", 0);
    show("got", (const uint8_t *)(uintptr_t)one->output, 0, one->output_size);
    line_text("why", one->answers[0].name);
    return 0;
}

/* Whether the output is the one that is expected, or one of several that are possible; else says what came. */
static int right(const probe_t *one, uint32_t cycles, uint32_t runs, const char **answer) {
    const uint8_t *found = (const uint8_t *)(uintptr_t)one->output;
    uint32_t first = 0;
    for (uint32_t k = 0; k < one->answer_count; k++) {
        first = first_difference(found, one->answers[k].data, one->output_size);
        if (first == one->output_size) {
            *answer = one->answers[k].name;
            return (one->needs & PROBE_MUST_DIFFER) ? unwanted(one, cycles, runs) : 1;
        }
    }
    if (one->needs & PROBE_MUST_DIFFER) {
        return 1;
    }
    const int single = one->answer_count == 1;
    first = single ? first : 0;
    say_cycles("wrong", cycles, runs);
    line_number("first", first);
    show("got", found, first, one->output_size);
    if (single) {
        show("want", one->answers[0].data, first, one->output_size);
    } else {
        line_text("why", "none of the answers that were thought of");
    }
    return 0;
}

static const char *missing(const probe_t *one) {
    if ((one->needs & PROBE_NOT_EMULATED) && (atonc_mailbox.options & MAILBOX_EMULATED)) {
        return "unknown to the emulator";
    }
    if ((one->needs & PROBE_NEEDS_FLASH) && !flash_is_mapped()) {
        return "flash is not mapped";
    }
    if ((one->needs & PROBE_NEEDS_HYPERRAM) && !hyperram_is_mapped()) {
        return "hyperram is not mapped";
    }
    for (uint32_t k = 0; k < one->constant_count; k++) {
        const probe_constant_t *part = &one->constants[k];
        const void *there = (const void *)(uintptr_t)part->address;
        if (part->data == NULL && atonc_crc32(there, part->size, 0) != part->crc32) {
            return "flash image not programmed";
        }
        if ((one->needs & PROBE_NEEDS_HYPERRAM) && part->data != NULL && !hyperram_answers(part->address)) {
            return "hyperram does not answer";
        }
    }
    return NULL;
}

static int failed(uint32_t runs) {
    atonc_status_t status = atonc_rt_status(NULL);
    if (status.code == ATONC_OK) {
        status = atonc_rt_status(&network);
    }
    if (status.code == ATONC_OK) {
        return 0;
    }
    line_word("hang");
    line_number("runs", runs);
    line_text("why", atonc_error_name(status.code));
    return 1;
}

static void ask(const probe_t *one) {
    uint32_t least = UINT32_MAX, runs = 0;
    const char *answer = "";
    current = one;
    npu_power_on(); /* also ends what a probe before this one left hanging */
    LL_ATON_RT_RuntimeInit();
    if (one->needs & PROBE_NEEDS_KEYS) {
        set_keys();
    }
    while (runs < RUNS) {
        const uint32_t cycles = run(one);
        runs++;
        least = cycles < least ? cycles : least;
        const int stopped = failed(runs) || !right(one, least, runs, &answer);
        LL_ATON_RT_DeInit_Network(&network);
        if (stopped) {
            LL_ATON_RT_RuntimeDeInit();
            return;
        }
    }
    LL_ATON_RT_RuntimeDeInit();
    say_cycles("pass", least, runs);
    if (one->answer_count > 1 || (one->needs & PROBE_MUST_DIFFER)) {
        line_number("first", 0);
        show("got", (const uint8_t *)(uintptr_t)one->output, 0, one->output_size);
        line_text("why", (one->needs & PROBE_MUST_DIFFER) ? "other bytes" : answer);
    }
}

static void probe(const probe_t *one) {
    const char *why = missing(one);
    line_begin(one->name);
    if (why != NULL) {
        line_word("skipped");
        line_text("why", why);
    } else {
        ask(one);
    }
    line_end();
    answered++;
}

/* What a fault leaves (startup.c): the probe that was asked gets its answer, and the debugger starts again behind it. */
void atonc_fault(uint32_t pc, uint32_t cause, uint32_t address) {
    line_begin(atonc_mailbox.asked[0] ? atonc_mailbox.asked : "start-up");
    line_word("hang");
    line_number("runs", 0);
    line_text("why", "fault");
    line_hex("pc", pc);
    line_hex("cfsr", cause);
    line_hex("bfar", address);
    line_end();
    mailbox_stop(MAILBOX_FAULT);
}

static void begin(void) {
    line_begin("begin");
    line_text("board", probes_board);
    line_text("version", probes_version);
    line_number("probes", probes_count);
    line_number("cpu_hz", wire_cpu_hz());
    line_number("npu_hz", wire_npu_hz());
    line_number("ram_hz", wire_npu_ram_hz());
    line_text("clocks", board_clocks);
    line_text("external", board_external);
    line_text("fuses", "untouched");
    line_text("on", atonc_mailbox.options & MAILBOX_EMULATED ? "emulator" : "chip");
    line_end();
}

int main(void) {
    mailbox_open(probes_board);
    probe_board_init();
#ifdef UART
    uart_open();
#endif
    wire_chip_start();
    npu_power_on();
    memories_on();
    atonc_set_watchdog(WATCHDOG_POLLS, 0);
    begin();
    self_test();
    answered = atonc_mailbox.first_probe; /* in an earlier start */
    for (uint32_t number = atonc_mailbox.first_probe; number < probes_count; number++) {
        mailbox_ask(number, probes[number].name);
        probe(&probes[number]);
    }
    line_begin("end");
    line_number("answered", answered);
    line_end();
    mailbox_stop(MAILBOX_ENDED);
    return 0;
}
