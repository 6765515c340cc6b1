/* SPDX-License-Identifier: Apache-2.0
 * Two networks that take turns: the second runs twice on every picture of the first, whose results stay meanwhile.
 */
#include <stdint.h>
#include <string.h>

#include "app_networks.h"
#include "npu_power.h"

#define PICTURES 5
#define CHECKS 2u

static const int8_t image[] = {
#include ATONC_IMAGE
};

volatile int answers[APP_NETWORKS];
volatile uint32_t runs[APP_NETWORKS];
volatile uint32_t lost;  /* results of the first network that did not stay */
volatile int error;      /* 1 + the network that is not in flash, or an error code of the runtime */

void app_loop(void);

/* This example has no timer: a moment passes between two calls of the loop. */
static uint32_t now;
uint32_t app_milliseconds(void) { return now; }

/* int8 where the model has codes at its end, float where it has not */
static float score(const LL_Buffer_InfoTypeDef *output, int k) {
    const void *scores = LL_Buffer_addr_start(output);
    return output->type == DataType_FLOAT ? ((const float *)scores)[k] : (float)((const int8_t *)scores)[k];
}

static int strongest(int network) {
    const LL_Buffer_InfoTypeDef *output = app_networks[network].instance->network->output_buffers_info();
    int classes = (int)(LL_Buffer_len(output) * 8u / output->nbits), best = 0;
    for (int k = 1; k < classes; k++)
        best = score(output, k) > score(output, best) ? k : best;
    return best;
}

int app_fill_inputs(int network, uint32_t turn) {
    if (network == APP_NETWORK_CHECK && turn == CHECKS)
        return 0;
    memcpy(app_network_input(network, 0), image, app_network_input_bytes(network, 0));
    return 1;
}

void app_use_outputs(int network, uint32_t turn) {
    (void)turn;
    runs[network]++;
    error = (int)atonc_rt_status(app_networks[network].instance).code;
    answers[network] = strongest(network);
    if (strongest(APP_NETWORK_DIGITS) != answers[APP_NETWORK_DIGITS])
        lost++;
}

int main(void) {
    npu_power_on();
    const int wrong = app_networks_init();
    if (wrong >= 0) {
        error = 1 + wrong;
        return 1;
    }
    for (now = 0; now < PICTURES * 50u; now += 10u) /* digits runs 20 times a second */
        app_loop();
    app_networks_deinit();
    return 0;
}
