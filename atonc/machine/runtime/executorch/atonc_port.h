/* SPDX-License-Identifier: Apache-2.0
 * What runs the network of a delegate: on the STM32N6 our loader and runtime (port_npu.cc), on a computer the emulator
 * (port_emulator.cc). A program is linked with one of them.
 */
#ifndef ATONC_PORT_H
#define ATONC_PORT_H

#include <stddef.h>
#include <stdint.h>

#include <executorch/runtime/core/event_tracer_hooks_delegate.h>
#include <executorch/runtime/core/memory_allocator.h>
#include <executorch/runtime/platform/log.h>

#define ATONC_SAY(...) ET_LOG(Error, "AtonBackend: " __VA_ARGS__)

namespace atonc {

struct Operand {
    void *data;
    size_t bytes;
};

/* For the profile: one block of epochs, which has the number of its first epoch. */
inline void LogBlock(executorch::runtime::EventTracer *tracer, int32_t epoch, uint64_t start, uint64_t end) {
    executorch::runtime::event_tracer_log_profiling_delegate(tracer, nullptr, static_cast<uint32_t>(epoch), start, end);
}

namespace port {

/* Installs the network that `data` holds; null where it is refused, and the log says why. `memory` and `data` live as
 * long as the method. */
void *Install(executorch::runtime::MemoryAllocator *memory, const void *data, size_t bytes);

/* One inference: inputs, then outputs, as the network has them. False where it is refused or failed. */
bool Run(void *network, const Operand *operands, size_t count, executorch::runtime::EventTracer *tracer);

void Remove(void *network);

} // namespace port
} // namespace atonc

#endif
