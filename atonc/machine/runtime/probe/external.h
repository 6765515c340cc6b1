/* SPDX-License-Identifier: Apache-2.0
 * Flash and external RAM of both boards, memory mapped; built with EXTERNAL_MEMORIES=0 the firmware touches neither, and
 * what a loader has mapped is used.
 */
#ifndef EXTERNAL_H
#define EXTERNAL_H

#include <stdbool.h>

/* True: mapped here. `ram`: the board has one. */
bool external_start(bool ram);

#endif
