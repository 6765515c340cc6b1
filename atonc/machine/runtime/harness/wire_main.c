/* SPDX-License-Identifier: Apache-2.0
 * A firmware that does nothing but answer validation clients on USART1.
 */
#include "atonc_wire.h"
#include "board_io.h"
#include "uart_usart1.h"

#include "ll_aton_version.h"

#ifndef ATONC_WIRE_BAUD
#define ATONC_WIRE_BAUD 921600u
#endif

int main(void) {
    uart_usart1_open(ATONC_WIRE_BAUD);
    board_print("ATONC BOARD runtime " LL_ATON_VERSION_NAME ", validation protocol\n");
    if (!atonc_wire_start()) {
        board_print("ATONC ERROR ");
        board_print(atonc_wire_complaint());
        board_print("\n");
        board_stop(BOARD_FAILED);
    }
    board_print("ATONC READY\n");
    atonc_wire_serve();
}
