/* SPDX-License-Identifier: Apache-2.0
 * Runs the networks of an application (`atonc app build`) on the virtual board through the table and the functions that
 * were generated for it, as often and in the order that the host says.
 */
#include "app_networks.h"
#include "board_network.h"

static void describe(uint32_t index) {
    const NN_Interface_TypeDef *network = app_networks[index].instance->network;
    board_print("ATONC NET ");
    board_print_number(index);
    board_print(" ");
    board_print(app_networks[index].name);
    board_print("\n");
    board_print_buffers("ATONC IN ", index, network->input_buffers_info());
    board_print_buffers("ATONC OUT ", index, network->output_buffers_info());
}

static void run(uint32_t index) {
    const uint32_t start = board_cycles();
    app_network_run((int)index);
    if (board_failed(app_networks[index].instance))
        return;
    board_print("ATONC RUN ");
    board_print_number(index);
    board_print(" OK ");
    board_print_number(board_cycles() - start);
    board_print("\n");
}

static void set_buffer(const board_host_t *command) {
    const NN_Interface_TypeDef *network = app_networks[command->network].instance->network;
    void *buffer = (void *)(uintptr_t)command->address;
    board_print_buffer_result(command->command == BOARD_SET_INPUT
                                  ? network->input_setter(command->index, buffer, command->size)
                                  : network->output_setter(command->index, buffer, command->size));
}

static void obey(void) {
    const board_host_t command = board_host;
    if (command.network >= APP_NETWORKS)
        board_print("ATONC ERROR no such network\n");
    else if (command.command == BOARD_RUN)
        run(command.network);
    else
        set_buffer(&command);
}

int main(void) {
    board_print("ATONC BOARD runtime " LL_ATON_VERSION_NAME "\n");
    const int wrong = app_networks_init();
    if (wrong >= 0) {
        board_print("ATONC ERROR constants of ");
        board_print(app_networks[wrong].name);
        board_print(" are not in flash\n");
        board_stop(BOARD_FAILED);
        return 1;
    }
    int bad = board_failed(NULL);
    for (uint32_t k = 0; k < APP_NETWORKS && !bad; k++) {
        describe(k);
        bad = board_failed(app_networks[k].instance);
    }
    for (;;) {
        board_stop(BOARD_READY);
        if (board_host.command == BOARD_QUIT)
            break;
        obey();
    }
    app_networks_deinit();
    return bad;
}
