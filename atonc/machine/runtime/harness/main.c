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

#ifndef ATONC_RESETS
#define ATONC_RESETS NULL
#endif
static void (*const resets[NETWORKS])(void) = {ATONC_RESETS}; /* NULL: it keeps no state */

static void act(const board_host_t *command) {
    NN_Instance_TypeDef *one = networks[command->network];
    void *buffer = (void *)(uintptr_t)command->address;
    if (command->command == BOARD_RUN)
        board_run(one, command->network);
    else if (command->command == BOARD_RESET) {
        if (resets[command->network])
            resets[command->network]();
    } else
        board_print_buffer_result(command->command == BOARD_SET_INPUT
                                      ? one->network->input_setter(command->index, buffer, command->size)
                                      : one->network->output_setter(command->index, buffer, command->size));
}

int main(void) {
    board_print("ATONC BOARD runtime " LL_ATON_VERSION_NAME "\n");
    LL_ATON_RT_RuntimeInit();
    int bad = board_failed(NULL);
    for (uint32_t k = 0; k < NETWORKS && !bad; k++) {
        LL_ATON_RT_Init_Network(networks[k]);
        const NN_Interface_TypeDef *one = networks[k]->network;
        board_describe(k, one->network_name, one->input_buffers_info(), one->output_buffers_info());
        bad = board_failed(networks[k]);
    }
    board_obey(NETWORKS, act);
    for (uint32_t k = 0; k < NETWORKS; k++)
        LL_ATON_RT_DeInit_Network(networks[k]);
    LL_ATON_RT_RuntimeDeInit();
    return bad;
}
