/* SPDX-License-Identifier: Apache-2.0
 * A firmware for a board in development mode, loaded into AXISRAM1 by a debugger: no vendor code, clocks as after reset,
 * constants of the networks inside it. An application that exists calls the same functions instead.
 */
#include "atonc_wire.h"
#include "npu_power.h"
#include "uart_usart1.h"
#include "wire_constants.h"

#include "ll_aton_version.h"

#ifndef ATONC_WIRE_BAUD
#define ATONC_WIRE_BAUD 921600u
#endif

static void print(const char *text) {
    for (; *text; text++)
        atonc_uart_send((uint8_t)*text);
}

int main(void) {
    npu_power_on();
    uart_usart1_open(ATONC_WIRE_BAUD);
    print("ATONC BOARD runtime " LL_ATON_VERSION_NAME ", validation protocol\r\n");
    wire_load_constants();
    if (!atonc_wire_start()) {
        print("ATONC ERROR ");
        print(atonc_wire_complaint());
        print("\r\n");
        return 1;
    }
    print("ATONC READY\r\n");
    atonc_wire_serve();
    return 0;
}
