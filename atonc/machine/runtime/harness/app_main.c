/* SPDX-License-Identifier: Apache-2.0
 * Runs the networks of an application (`atonc app build`) on the virtual board through the table and the functions that
 * were generated for it, as often and in the order that the host says.
 */
#include "app_networks.h"
#include "board_network.h"

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

static void describe(uint32_t index) {
    board_describe(index, app_networks[index].name, app_network_inputs((int)index), app_network_outputs((int)index));
}

#ifdef LL_ATON_RT_RELOC
/* The image that the host has put to an address. */
static void install(const board_host_t *command) {
    const int result = app_network_install((int)command->network, command->address);
    board_print("ATONC INSTALL ");
    board_print_number((uint32_t)-result);
    board_print("\n");
    if (result == 0)
        describe(command->network);
}
#else
static void install(const board_host_t *command) {
    (void)command;
    board_print("ATONC ERROR no network is an image\n");
}
#endif

static void act(const board_host_t *command) {
    const int network = (int)command->network;
    void *buffer = (void *)(uintptr_t)command->address;
    if (command->command == BOARD_RUN)
        run(command->network);
    else if (command->command == BOARD_INSTALL)
        install(command);
    else
        board_print_buffer_result(command->command == BOARD_SET_INPUT
                                      ? app_network_set_input(network, command->index, buffer, command->size)
                                      : app_network_set_output(network, command->index, buffer, command->size));
}

int main(void) {
    board_print("ATONC BOARD runtime " LL_ATON_VERSION_NAME "\n");
    const int wrong = app_networks_init();
    if (wrong >= 0) {
        board_print("ATONC ERROR what belongs to ");
        board_print(app_networks[wrong].name);
        board_print(" is not in flash\n");
        board_stop(BOARD_FAILED);
        return 1;
    }
    int bad = board_failed(NULL);
    for (uint32_t k = 0; k < APP_NETWORKS; k++) {
        describe(k);
        bad = bad || board_failed(app_networks[k].instance);
    }
    board_obey(APP_NETWORKS, act);
    app_networks_deinit();
    return bad;
}
