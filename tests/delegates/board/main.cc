/* SPDX-License-Identifier: Apache-2.0
 * The port for the STM32N6 on the virtual board, called as the backend calls it. What it uses of ExecuTorch's runtime
 * beside headers stands here: a log, a clock and the end.
 *
 * The host puts a delegate's data into flash and fills in `given`; then it changes inputs and reads outputs.
 */
#include <stdarg.h>

#include "atonc_port.h"

extern "C" {
#include "board_io.h"
#include "mcu_cache.h"
uint32_t atonc_tick_ms(void) { return board_milliseconds(); }
et_timestamp_t et_pal_current_ticks(void) { return board_cycles(); }
int main(void);
}

#define MOST 4

extern "C" struct {
    uint32_t data, length, operands, bytes[MOST];
} volatile given;
extern "C" char tensors[MOST][8192];
decltype(given) given;
char tensors[MOST][8192];

void operator delete(void *) noexcept {} /* nothing here comes from a heap */
void operator delete(void *, size_t) noexcept {}

namespace executorch::runtime {
void runtime_abort() {
    board_print("ABORT\n");
    for (;;) {
    }
}
namespace internal {
et_timestamp_t get_log_timestamp() { return 0; }
void vlogf(LogLevel, et_timestamp_t, const char *, const char *, size_t, const char *format, va_list) {
    board_print("SAID ");
    board_print(format);
    board_print("\n");
}
} // namespace internal
} // namespace executorch::runtime

int main(void) {
    static uint8_t arena[1 << 16];
    executorch::runtime::MemoryAllocator memory(sizeof arena, arena);
    board_stop(BOARD_READY);
    void *network = atonc::port::Install(&memory, reinterpret_cast<const void *>(given.data), given.length);
    board_print(network != nullptr ? "INSTALLED\n" : "REFUSED\n");
    while (network != nullptr) {
        board_stop(BOARD_READY);
        atonc::Operand operands[MOST];
        for (uint32_t k = 0; k < given.operands; k++)
            operands[k] = {tensors[k], given.bytes[k]};
        board_print(atonc::port::Run(network, operands, given.operands, nullptr) ? "RUN\n" : "FAILED\n");
        const uint32_t start = reinterpret_cast<uintptr_t>(tensors); /* the host reads memory, not the cache */
        mcu_cache_clean_range(start, start + sizeof tensors);
    }
    board_stop(BOARD_READY);
    return 0;
}
