/* SPDX-License-Identifier: Apache-2.0
 * What every firmware of the virtual board says about its networks, and how it runs one.
 */
#ifndef BOARD_NETWORK_H
#define BOARD_NETWORK_H

#include "board_io.h"

#include "ll_aton_runtime.h"
#include "ll_aton_version.h"

/* "ATONC ERROR ..." if the network (NULL: the runtime) has one. */
int board_failed(const NN_Instance_TypeDef *network);
void board_print_buffers(const char *what, uint32_t network, const LL_Buffer_InfoTypeDef *list);
/* Name, inputs and outputs of a network. */
void board_describe(uint32_t index, const char *name, const LL_Buffer_InfoTypeDef *inputs,
                    const LL_Buffer_InfoTypeDef *outputs);
/* One inference and its line "ATONC RUN ..."; the network is then ready for the next. */
void board_run(NN_Instance_TypeDef *network, uint32_t index);
void board_print_buffer_result(LL_ATON_User_IO_Result_t result);
/* Lets `act` do what the host says with one of so many networks, until it quits. */
typedef void board_act_t(const board_host_t *command);
void board_obey(uint32_t count, board_act_t *act);

#endif
