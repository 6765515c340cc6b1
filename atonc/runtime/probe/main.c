/* SPDX-License-Identifier: Apache-2.0
 * Runs every probe of this image and prints what the silicon made of it, one line each, on USART1 (115200 8N1).
 *
 * ATONC PROBE <name> PASS <cycles>
 * ATONC PROBE <name> FAIL byte <index> is <found> not <expected>, <count> of <size> differ
 * ATONC PROBE <name> ERROR <code> epoch <number> <name of the error>     (a hang is "timeout")
 * ATONC PROBES <passed> of <count> passed
 */
#include <stdint.h>
#include <string.h>

#include "ll_aton_caches_interface.h"
#include "ll_aton_runtime.h"
#include "npu_power.h"
#include "probes.h"
#include "uart.h"

#define UNTOUCHED 0xA5 /* what the output holds before a probe: bytes that no writer may touch keep it */
#ifndef WATCHDOG_POLLS
#define WATCHDOG_POLLS 2000000u /* looks at the NPU before a probe counts as hanging */
#endif
#define DEMCR (*(volatile uint32_t *)0xE000EDFCu)
#define DWT_CTRL (*(volatile uint32_t *)0xE0001000u)
#define DWT_CYCCNT (*(volatile uint32_t *)0xE0001004u)

volatile uint32_t probes_passed, probes_done; /* for those who look with a debugger */

static void run(NN_Instance_TypeDef *network) {
    LL_ATON_RT_RetValues_t state;
    do {
        state = LL_ATON_RT_RunEpochBlock(network);
        if (state == LL_ATON_RT_WFE)
            LL_ATON_OSAL_WFE();
    } while (state != LL_ATON_RT_DONE);
}

static int failed(const NN_Instance_TypeDef *network) {
    const atonc_status_t status = atonc_rt_status(network);
    if (status.code == ATONC_OK)
        return 0;
    uart_print("ERROR ");
    uart_number((uint32_t)status.code);
    uart_print(" epoch ");
    uart_number(status.epoch);
    uart_print(" ");
    uart_print(atonc_error_name(status.code));
    uart_print("\n");
    return 1;
}

static int equal(const uint8_t *found, const uint8_t *expected, uint32_t size) {
    uint32_t first = size, count = 0;
    for (uint32_t k = 0; k < size; k++) {
        if (found[k] == expected[k])
            continue;
        if (first == size)
            first = k;
        count++;
    }
    if (count == 0)
        return 1;
    uart_print("FAIL byte ");
    uart_number(first);
    uart_print(" is ");
    uart_number(found[first]);
    uart_print(" not ");
    uart_number(expected[first]);
    uart_print(", ");
    uart_number(count);
    uart_print(" of ");
    uart_number(size);
    uart_print(" differ\n");
    return 0;
}

static int probe(const probe_t *one) {
    NN_Instance_TypeDef *network = one->network;
    uart_print("ATONC PROBE ");
    uart_print(one->name);
    uart_print(" ");
    npu_power_on(); /* also ends what a probe before this one left hanging */
    if (one->load != NULL)
        one->load();
    LL_ATON_RT_RuntimeInit();
    LL_ATON_RT_Init_Network(network);
    if (failed(NULL) || failed(network))
        return 0;
    void *input = LL_Buffer_addr_start(network->network->input_buffers_info());
    void *output = LL_Buffer_addr_start(network->network->output_buffers_info());
    memcpy(input, one->stimulus, one->stimulus_size);
    memset(output, UNTOUCHED, one->expected_size);
    LL_ATON_Cache_MCU_Clean_Range((uintptr_t)input, one->stimulus_size);
    LL_ATON_Cache_MCU_Clean_Invalidate_Range((uintptr_t)output, one->expected_size);
    const uint32_t start = DWT_CYCCNT;
    run(network);
    const uint32_t cycles = DWT_CYCCNT - start;
    LL_ATON_Cache_MCU_Invalidate_Range((uintptr_t)output, one->expected_size);
    const int good = !failed(network) && equal(output, one->expected, one->expected_size);
    LL_ATON_RT_DeInit_Network(network);
    LL_ATON_RT_RuntimeDeInit();
    if (good) {
        uart_print("PASS ");
        uart_number(cycles);
        uart_print("\n");
    }
    return good;
}

int main(void) {
    uart_open();
    DEMCR |= 1u << 24;
    DWT_CTRL |= 1u;
    atonc_set_watchdog(WATCHDOG_POLLS, 0);
    for (; probes_done < probes_count; probes_done++)
        probes_passed += (uint32_t)probe(&probes[probes_done]);
    uart_print("ATONC PROBES ");
    uart_number(probes_passed);
    uart_print(" of ");
    uart_number(probes_count);
    uart_print(" passed\n");
    return 0;
}
