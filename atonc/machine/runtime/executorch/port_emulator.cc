/* SPDX-License-Identifier: Apache-2.0
 * The port for a computer: networks are run by whoever gave three functions, which is the emulator of atonc.
 */
#include <stdint.h>
#include <string.h>

#include "atonc_port.h"

extern "C" {
typedef struct {
    intptr_t (*install)(const void *data, size_t bytes, char *why, size_t room); /* 0: refused */
    int (*run)(intptr_t network, const atonc::Operand *operands, size_t count, char *why, size_t room); /* 0: done */
    void (*remove)(intptr_t network);
} atonc_emulator_t;

void atonc_use_emulator(const atonc_emulator_t *emulator);
}

static atonc_emulator_t emulator;

void atonc_use_emulator(const atonc_emulator_t *given) { emulator = *given; }

namespace atonc {

void *Install(executorch::runtime::MemoryAllocator *, const void *data, size_t bytes, Reason *why) {
    if (emulator.install == nullptr) {
        strcpy(why->text, "atonc_use_emulator was not called");
        return nullptr;
    }
    return reinterpret_cast<void *>(emulator.install(data, bytes, why->text, sizeof why->text));
}

bool Run(void *network, const Operand *operands, size_t count, Reason *why) {
    const intptr_t number = reinterpret_cast<intptr_t>(network);
    return emulator.run(number, operands, count, why->text, sizeof why->text) == 0;
}

void Remove(void *network) { emulator.remove(reinterpret_cast<intptr_t>(network)); }

} // namespace atonc
