/* SPDX-License-Identifier: Apache-2.0
 * Runs the networks of an application (`atonc app build`) on the virtual board through the table and the functions that
 * were generated for it, as often and in the order that the host says.
 */
#include "app_networks.h"
#include "board_network.h"

static void run(NN_Instance_TypeDef *network, uint32_t index) {
    const uint32_t start = board_cycles();
    app_network_run((int)index);
    if (board_failed(network))
        return;
    board_print("ATONC RUN ");
    board_print_number(index);
    board_print(" OK ");
    board_print_number(board_cycles() - start);
    board_print("\n");
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
    NN_Instance_TypeDef *networks[APP_NETWORKS];
    int bad = board_failed(NULL);
    for (uint32_t k = 0; k < APP_NETWORKS; k++) {
        networks[k] = app_networks[k].instance;
        board_describe(k, networks[k]->network);
        bad = bad || board_failed(networks[k]);
    }
    board_obey(networks, APP_NETWORKS, run);
    app_networks_deinit();
    return bad;
}
