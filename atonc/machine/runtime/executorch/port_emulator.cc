/* SPDX-License-Identifier: Apache-2.0
 * The port for a computer: networks are run by whoever gave three functions, which is the emulator of atonc.
 */
#include <executorch/runtime/platform/platform.h>

#include "atonc_port.h"

namespace {
struct Reason {
    char text[256];
};
} // namespace

extern "C" {
/* What an inference is told of the time of one block of epochs, in nanoseconds. */
typedef void (*atonc_block_t)(void *told, int32_t epoch, uint64_t start, uint64_t end);

typedef struct {
    intptr_t (*install)(const void *data, size_t bytes, char *why, size_t room); /* 0: refused */
    int (*run)(intptr_t network, const atonc::Operand *operands, size_t count, atonc_block_t block, void *told, char *why,
               size_t room); /* 0: done; `block` may be null */
    void (*remove)(intptr_t network);
} atonc_emulator_t;

void atonc_use_emulator(const atonc_emulator_t *emulator);
}

static atonc_emulator_t emulator;

void atonc_use_emulator(const atonc_emulator_t *given) { emulator = *given; }

namespace atonc {
namespace {

struct Told {
    executorch::runtime::EventTracer *tracer;
    uint64_t start;
};

void Block(void *told, int32_t epoch, uint64_t start, uint64_t end) {
    const Told *to = static_cast<const Told *>(told);
    LogBlock(to->tracer, epoch, to->start + start, to->start + end);
}

} // namespace

namespace port {

void *Install(executorch::runtime::MemoryAllocator *, const void *data, size_t bytes) {
    if (emulator.install == nullptr) {
        ATONC_SAY("atonc_use_emulator was not called");
        return nullptr;
    }
    Reason why = {};
    const intptr_t network = emulator.install(data, bytes, why.text, sizeof why.text);
    if (network == 0)
        ATONC_SAY("%s", why.text);
    return reinterpret_cast<void *>(network);
}

bool Run(void *network, const Operand *operands, size_t count, executorch::runtime::EventTracer *tracer) {
    Reason why = {};
    Told told = {tracer, et_pal_current_ticks()};
    const intptr_t number = reinterpret_cast<intptr_t>(network);
    const atonc_block_t block = tracer != nullptr ? Block : nullptr;
    if (emulator.run(number, operands, count, block, &told, why.text, sizeof why.text) == 0)
        return true;
    ATONC_SAY("%s", why.text);
    return false;
}

void Remove(void *network) { emulator.remove(reinterpret_cast<intptr_t>(network)); }

} // namespace port
} // namespace atonc
