/* SPDX-License-Identifier: Apache-2.0
 * Networks on the virtual board: what they have, how they run, what went wrong.
 */
#include "board_network.h"

static void print_words(const char *what, uint32_t network, uint32_t index) {
    board_print(what);
    board_print_number(network);
    board_print(" ");
    board_print_number(index);
}

#ifdef ATONC_RUNTIME
uint32_t atonc_tick_ms(void) { return board_milliseconds(); }

/* A memory that the host declares absent before it starts the firmware. */
volatile uint32_t board_missing[2] __attribute__((section(".noinit"))); /* start, end */

bool atonc_memory_ready(uintptr_t base, uint32_t size) {
    return board_missing[1] <= base || base + size <= board_missing[0];
}

int board_failed(const NN_Instance_TypeDef *network) {
    const atonc_status_t status = atonc_rt_status(network);
    if (status.code == ATONC_OK)
        return 0;
    board_print("ATONC ERROR ");
    board_print_number((uint32_t)status.code);
    board_print(" epoch ");
    board_print_number(status.epoch);
    board_print(" detail ");
    board_print_hex(status.detail);
    board_print(" ");
    board_print(atonc_error_name(status.code));
    board_print("\n");
    return 1;
}
#else
int board_failed(const NN_Instance_TypeDef *network) {
    (void)network;
    return 0;
}
#endif

void board_print_buffers(const char *what, uint32_t network, const LL_Buffer_InfoTypeDef *list) {
    for (uint32_t index = 0; list != NULL && list->name != NULL; list++) {
        if (list->is_param) /* constants are listed among the inputs */
            continue;
        print_words(what, network, index++);
        board_print(list->is_user_allocated ? " user " : " ");
        board_print_hex((uint32_t)(uintptr_t)LL_Buffer_addr_start(list));
        board_print(" ");
        board_print_number(LL_Buffer_len(list));
        board_print("\n");
    }
}

void board_run(NN_Instance_TypeDef *network, uint32_t index) {
    const uint32_t start = board_cycles();
    LL_ATON_RT_RetValues_t state;
    do {
        state = LL_ATON_RT_RunEpochBlock(network);
        if (state == LL_ATON_RT_WFE)
            LL_ATON_OSAL_WFE();
    } while (state != LL_ATON_RT_DONE);
    if (!board_failed(network)) {
        board_print("ATONC RUN ");
        board_print_number(index);
        board_print(" OK ");
        board_print_number(board_cycles() - start);
        board_print("\n");
    }
    LL_ATON_RT_Reset_Network(network);
}

void board_print_buffer_result(LL_ATON_User_IO_Result_t result) {
    board_print("ATONC BUFFER ");
    board_print_number((uint32_t)result);
    board_print("\n");
}

void board_describe(uint32_t index, const char *name, const LL_Buffer_InfoTypeDef *inputs,
                    const LL_Buffer_InfoTypeDef *outputs) {
    board_print("ATONC NET ");
    board_print_number(index);
    board_print(" ");
    board_print(name);
    board_print("\n");
    board_print_buffers("ATONC IN ", index, inputs);
    board_print_buffers("ATONC OUT ", index, outputs);
}

void board_obey(uint32_t count, board_act_t *act) {
    for (;;) {
        board_stop(BOARD_READY);
        const board_host_t command = board_host;
        if (command.command == BOARD_QUIT)
            return;
        if (command.network >= count)
            board_print("ATONC ERROR no such network\n");
        else
            act(&command);
    }
}
