/* SPDX-License-Identifier: Apache-2.0
 * Stand-in. */
#ifndef STAND_IN_MICRO_LOG_H
#define STAND_IN_MICRO_LOG_H

void MicroPrintf(const char *format, ...);

#endif
