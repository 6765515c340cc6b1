/* SPDX-License-Identifier: Apache-2.0
 * Runs the networks of this image on the virtual board, as often and in the order that the host says.
 */
#include "board_network.h"

#include "networks.h" /* written by the build: ATONC_NETWORKS(use) names the networks */

#define DECLARE(name) LL_ATON_DECLARE_NAMED_NN_INSTANCE_AND_INTERFACE(name)
#define INSTANCE(name) &NN_Instance_##name,

ATONC_NETWORKS(DECLARE)

static NN_Instance_TypeDef *const networks[] = {ATONC_NETWORKS(INSTANCE)};
#define NETWORKS (sizeof networks / sizeof networks[0])

static void describe(uint32_t index) {
    const NN_Interface_TypeDef *network = networks[index]->network;
    board_print("ATONC NET ");
    board_print_number(index);
    board_print(" ");
    board_print(network->network_name);
    board_print("\n");
    board_print_buffers("ATONC IN ", index, network->input_buffers_info());
    board_print_buffers("ATONC OUT ", index, network->output_buffers_info());
}

static void set_buffer(const board_host_t *command) {
    const NN_Interface_TypeDef *network = networks[command->network]->network;
    void *buffer = (void *)(uintptr_t)command->address;
    board_print_buffer_result(command->command == BOARD_SET_INPUT
                                  ? network->input_setter(command->index, buffer, command->size)
                                  : network->output_setter(command->index, buffer, command->size));
}

static void obey(void) {
    const board_host_t command = board_host;
    if (command.network >= NETWORKS)
        board_print("ATONC ERROR no such network\n");
    else if (command.command == BOARD_RUN)
        board_run(networks[command.network], command.network);
    else
        set_buffer(&command);
}

int main(void) {
    board_print("ATONC BOARD runtime " LL_ATON_VERSION_NAME "\n");
    LL_ATON_RT_RuntimeInit();
    int bad = board_failed(NULL);
    for (uint32_t k = 0; k < NETWORKS && !bad; k++) {
        LL_ATON_RT_Init_Network(networks[k]);
        describe(k);
        bad = board_failed(networks[k]);
    }
    for (;;) {
        board_stop(BOARD_READY);
        if (board_host.command == BOARD_QUIT)
            break;
        obey();
    }
    for (uint32_t k = 0; k < NETWORKS; k++)
        LL_ATON_RT_DeInit_Network(networks[k]);
    LL_ATON_RT_RuntimeDeInit();
    return bad;
}
