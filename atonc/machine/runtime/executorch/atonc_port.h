/* SPDX-License-Identifier: Apache-2.0
 * What runs the network of a delegate: on the STM32N6 our loader and runtime (port_npu.cc), on a computer the emulator
 * (port_emulator.cc). A program is linked with one of them.
 */
#ifndef ATONC_PORT_H
#define ATONC_PORT_H

#include <stddef.h>

#include <executorch/runtime/core/memory_allocator.h>

namespace atonc {

struct Operand {
    void *data;
    size_t bytes;
};

/* Why something was refused, for the log. */
struct Reason {
    char text[256];
};

/* Installs the network that `data` holds; null where it is refused. `memory` lives as long as the method. */
void *Install(executorch::runtime::MemoryAllocator *memory, const void *data, size_t bytes, Reason *why);

/* One inference: inputs, then outputs, as the network has them. False where it is refused or failed. */
bool Run(void *network, const Operand *operands, size_t count, Reason *why);

void Remove(void *network);

} // namespace atonc

#endif
