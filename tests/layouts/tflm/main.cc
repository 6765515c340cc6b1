/* SPDX-License-Identifier: Apache-2.0
 * The kernel on the virtual board: as little of an interpreter as calls it the way TFLite Micro does.
 *
 * The host puts the operator's data into flash and fills in `given`; then it changes inputs and reads outputs.
 */
#include <stdint.h>
#include <string.h>

#include "tensorflow/lite/micro/kernels/kernel_util.h"
#include "tensorflow/lite/micro/micro_log.h"

#include "atonc_npu_kernel.h"

extern "C" {
#include "board_io.h"
#include "mcu_cache.h"
uint32_t atonc_tick_ms(void) { return board_milliseconds(); }
int main(void);
}

#define MOST 4

extern "C" struct {
    uint32_t data, length, inputs, outputs, input_bytes[MOST], output_bytes[MOST];
    uint32_t place[2]; /* of the first input and output, where they lie elsewhere */
} volatile given;
extern "C" char tensors[2 * MOST][8192];
char tensors[2 * MOST][8192];
decltype(given) given;

static char arena[1 << 16];
static size_t used;
static TfLiteTensor temporary;
static TfLiteEvalTensor eval[2 * MOST];

static void *Persistent(TfLiteContext *, size_t bytes) {
    const size_t start = (used + 15) / 16 * 16;
    if (start + bytes > sizeof arena)
        return nullptr;
    used = start + bytes;
    return arena + start;
}

namespace tflite {
TfLiteTensor *MicroContext::AllocateTempInputTensor(const TfLiteNode *, int index) {
    temporary.bytes = given.input_bytes[index];
    return &temporary;
}
TfLiteTensor *MicroContext::AllocateTempOutputTensor(const TfLiteNode *, int index) {
    temporary.bytes = given.output_bytes[index];
    return &temporary;
}
void MicroContext::DeallocateTempTfLiteTensor(TfLiteTensor *) {}
namespace micro {
TFLMRegistration RegisterOp(void *(*init)(TfLiteContext *, const char *, size_t),
                            TfLiteStatus (*prepare)(TfLiteContext *, TfLiteNode *),
                            TfLiteStatus (*invoke)(TfLiteContext *, TfLiteNode *),
                            void (*free)(TfLiteContext *, void *), void (*reset)(TfLiteContext *, void *)) {
    return {init, free, prepare, invoke, reset, 0, nullptr};
}
const TfLiteEvalTensor *GetEvalInput(const TfLiteContext *, const TfLiteNode *, int index) { return &eval[index]; }
TfLiteEvalTensor *GetEvalOutput(const TfLiteContext *, const TfLiteNode *, int index) { return &eval[MOST + index]; }
} // namespace micro
} // namespace tflite

void MicroPrintf(const char *format, ...) {
    board_print("SAID ");
    board_print(format);
    board_print("\n");
}

int main(void) {
    static struct {
        TfLiteIntArray head;
        int rest[MOST];
    } inputs, outputs;
    board_stop(BOARD_READY);
    for (int k = 0; k < 2 * MOST; k++)
        eval[k].data.raw = tensors[k];
    for (int k = 0; k < 2; k++)
        if (given.place[k] != 0)
            eval[k * MOST].data.raw = reinterpret_cast<char *>(given.place[k]);
    TfLiteContext context = {nullptr, Persistent};
    TfLiteNode node = {};
    inputs.head.size = static_cast<int>(given.inputs);
    outputs.head.size = static_cast<int>(given.outputs);
    node.inputs = &inputs.head;
    node.outputs = &outputs.head;
    TFLMRegistration *kernel = atonc::Register_NPU();
    node.user_data = kernel->init(&context, reinterpret_cast<const char *>(given.data), given.length);
    board_print(kernel->prepare(&context, &node) == kTfLiteOk ? "PREPARED\n" : "REFUSED\n");
    for (int turn = 0; turn < 2 && node.user_data != nullptr; turn++) {
        board_stop(BOARD_READY);
        board_print(kernel->invoke(&context, &node) == kTfLiteOk ? "RUN\n" : "FAILED\n");
        const uint32_t start = reinterpret_cast<uintptr_t>(tensors); /* the host reads memory, not the cache */
        mcu_cache_clean_range(start, start + sizeof tensors);
    }
    board_stop(BOARD_READY);
    kernel->free(&context, node.user_data);
    return 0;
}
