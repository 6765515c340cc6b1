/* SPDX-License-Identifier: Apache-2.0
 * The custom operator "atonc-npu" for TFLite Micro (atonc_npu_kernel.h).
 */
#include "atonc_npu_kernel.h"

#include "tensorflow/lite/c/common.h"
#include "tensorflow/lite/micro/kernels/kernel_util.h"
#include "tensorflow/lite/micro/micro_context.h"
#include "tensorflow/lite/micro/micro_log.h"

#define ATONC_SAY(...) MicroPrintf("atonc-npu: " __VA_ARGS__)
#include "atonc_npu_network.h"

extern "C" __attribute__((weak)) void *atonc_npu_external_ram(size_t) { return nullptr; }

namespace atonc {
namespace {

void *Init(TfLiteContext *context, const char *buffer, size_t length) {
    void *place = context->AllocatePersistentBuffer(context, sizeof(Data));
    if (place == nullptr)
        return nullptr;
    Data *data = static_cast<Data *>(place);
    memset(place, 0, sizeof *data);
    if (!Read(buffer, length, data)) {
        ATONC_SAY("the operator's data are damaged, or of another version");
        return nullptr;
    }
    return data;
}

/* The buffers of one side against the sizes of the node's tensors. */
bool SameSizes(TfLiteContext *context, TfLiteNode *node, const LL_Buffer_InfoTypeDef *info, int count, bool outputs) {
    tflite::MicroContext *micro = tflite::GetMicroContext(context);
    for (int k = 0; k < count; k++, info++) {
        info = NextBuffer(info);
        TfLiteTensor *tensor = outputs ? micro->AllocateTempOutputTensor(node, k) : micro->AllocateTempInputTensor(node, k);
        const bool same = info != nullptr && tensor != nullptr && tensor->bytes == LL_Buffer_len(info);
        if (tensor != nullptr)
            micro->DeallocateTempTfLiteTensor(tensor);
        if (!same) {
            ATONC_SAY("%s %d has another size in the network", outputs ? "output" : "input", k);
            return false;
        }
    }
    return NextBuffer(info) == nullptr;
}

TfLiteStatus Prepare(TfLiteContext *context, TfLiteNode *node) {
    Data *data = static_cast<Data *>(node->user_data);
    if (data == nullptr || node->inputs->size != data->inputs || node->outputs->size != data->outputs)
        return kTfLiteError;
    if (!data->installed) {
        ll_aton_reloc_info info;
        if (!Look(data, &info))
            return kTfLiteError;
        void *ram = context->AllocatePersistentBuffer(context, info.rt_ram_xip + kExecAlignment);
        if (!Install(data, &info, ram))
            return kTfLiteError;
    }
    const NN_Instance_TypeDef *network = &data->network;
    const bool same =
        SameSizes(context, node, ll_aton_reloc_get_input_buffers_info(network, -1), data->inputs, false) &&
        SameSizes(context, node, ll_aton_reloc_get_output_buffers_info(network, -1), data->outputs, true);
    return same ? kTfLiteOk : kTfLiteError;
}

TfLiteStatus Eval(TfLiteContext *context, TfLiteNode *node) {
    Data *data = static_cast<Data *>(node->user_data);
    const LL_Buffer_InfoTypeDef *info = ll_aton_reloc_get_input_buffers_info(&data->network, -1);
    for (int k = 0; k < data->inputs; k++, info++) {
        info = NextBuffer(info);
        if (!PutIn(data, info, tflite::micro::GetEvalInput(context, node, k)->data.raw))
            return kTfLiteError;
    }
    if (!Run(&data->network))
        return kTfLiteError;
    info = ll_aton_reloc_get_output_buffers_info(&data->network, -1);
    for (int k = 0; k < data->outputs; k++, info++) {
        info = NextBuffer(info);
        if (!TakeOut(data, info, tflite::micro::GetEvalOutput(context, node, k)->data.raw))
            return kTfLiteError;
    }
    return kTfLiteOk;
}

void Free(TfLiteContext *, void *buffer) {
    if (buffer != nullptr)
        Remove(static_cast<Data *>(buffer));
}

} // namespace

TFLMRegistration *Register_NPU() {
    static TFLMRegistration registration = tflite::micro::RegisterOp(Init, Prepare, Eval, Free);
    return &registration;
}

} // namespace atonc
