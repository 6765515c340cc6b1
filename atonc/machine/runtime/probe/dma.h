/* SPDX-License-Identifier: Apache-2.0
 * One transfer of the chip's DMA (HPDMA1, channel 0) beside a program of the NPU, and how long it took.
 */
#ifndef DMA_H
#define DMA_H

#include "probes.h"

#include <stdbool.h>
#include <stdint.h>

void dma_start(const probe_transfer_t *transfer); /* nothing where its size is 0 */
bool dma_running(void);                           /* notes the moment at which it ends: to be asked all the time */
void dma_finish(void);                            /* waits for the end, with a limit, and stops the channel */
uint32_t dma_cycles(void);                        /* of the CPU, from start to end */

#endif
