/* SPDX-License-Identifier: Apache-2.0
 * The custom operator "atonc-npu" for TFLite Micro (atonc_npu_kernel.h).
 */
#include "atonc_npu_kernel.h"

#include <stdint.h>
#include <string.h>

#include "tensorflow/lite/c/common.h"
#include "tensorflow/lite/micro/kernels/kernel_util.h"
#include "tensorflow/lite/micro/micro_context.h"
#include "tensorflow/lite/micro/micro_log.h"

#include "ll_aton_reloc_network.h"
#include "ll_aton_runtime.h"
#include "mcu_cache.h"

extern "C" __attribute__((weak)) void *atonc_npu_external_ram(size_t) { return nullptr; }

namespace atonc {
namespace {

/* In front of the image, as atonc writes it. */
struct Header {
    char magic[4];
    uint32_t version;
    uint32_t start; /* of the image */
    uint32_t length;
    uint32_t size; /* of all */
    uint32_t inputs, outputs;
};

struct Data {
    NN_Instance_TypeDef network;
    uintptr_t image;
    int inputs, outputs;
    bool installed;
};

constexpr uint32_t kVersion = 1;
constexpr size_t kExecAlignment = 32;
constexpr int kMostPools = 10;

bool runtime_is_up = false;

uint32_t Address(const void *pointer) { return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(pointer)); }

bool Failed(const NN_Instance_TypeDef *network, const char *when) {
    const atonc_status_t status = atonc_rt_status(network);
    if (status.code == ATONC_OK)
        return false;
    MicroPrintf("atonc-npu: %s: %s, epoch %d", when, atonc_error_name(status.code), static_cast<int>(status.epoch));
    return true;
}

/* What the operator's data say; nothing of it is followed before it was compared with their size. */
bool Read(const char *buffer, size_t length, Data *data) {
    Header header;
    if (buffer == nullptr || length < sizeof header)
        return false;
    memcpy(&header, buffer, sizeof header);
    if (memcmp(header.magic, "ATNO", 4) != 0 || header.version != kVersion || header.size != length)
        return false;
    if (header.start > length || header.length > length - header.start || header.inputs > 256 || header.outputs > 256)
        return false;
    data->image = reinterpret_cast<uintptr_t>(buffer) + header.start;
    data->inputs = static_cast<int>(header.inputs);
    data->outputs = static_cast<int>(header.outputs);
    return true;
}

void *Init(TfLiteContext *context, const char *buffer, size_t length) {
    void *place = context->AllocatePersistentBuffer(context, sizeof(Data));
    if (place == nullptr)
        return nullptr;
    Data *data = static_cast<Data *>(place);
    memset(place, 0, sizeof *data);
    if (!Read(buffer, length, data)) {
        MicroPrintf("atonc-npu: the operator's data are damaged, or of another version");
        return nullptr;
    }
    return data;
}

const LL_Buffer_InfoTypeDef *NextBuffer(const LL_Buffer_InfoTypeDef *info) {
    while (info != nullptr && info->name != nullptr && info->is_param) /* constants are listed among the inputs */
        info++;
    return info != nullptr && info->name != nullptr ? info : nullptr;
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
            MicroPrintf("atonc-npu: %s %d has another size in the network", outputs ? "output" : "input", k);
            return false;
        }
    }
    return NextBuffer(info) == nullptr;
}

bool Install(TfLiteContext *context, Data *data) {
    if (data->image % ATONC_NPU_LINE != 0) {
        MicroPrintf("atonc-npu: the model must lie at a multiple of %d bytes", ATONC_NPU_LINE);
        return false;
    }
    if (!runtime_is_up) {
        LL_ATON_RT_RuntimeInit();
        if (Failed(nullptr, "start of the runtime"))
            return false;
        runtime_is_up = true;
    }
    ll_aton_reloc_info info;
    if (ll_aton_reloc_get_info(data->image, &info) != AI_RELOC_RT_ERR_NONE) {
        MicroPrintf("atonc-npu: image refused: %s", atonc_reloc_reason_name(atonc_reloc_reason()));
        return false;
    }
    void *ram = context->AllocatePersistentBuffer(context, info.rt_ram_xip + kExecAlignment);
    void *external = info.ext_ram_sz != 0 ? atonc_npu_external_ram(info.ext_ram_sz) : nullptr;
    if (ram == nullptr || (info.ext_ram_sz != 0 && external == nullptr)) {
        MicroPrintf("atonc-npu: %d bytes of the arena and %d of external RAM are wanted",
                    static_cast<int>(info.rt_ram_xip + kExecAlignment), static_cast<int>(info.ext_ram_sz));
        return false;
    }
    ll_aton_reloc_config config = {};
    config.exec_ram_addr = (reinterpret_cast<uintptr_t>(ram) + kExecAlignment - 1) / kExecAlignment * kExecAlignment;
    config.exec_ram_size = info.rt_ram_xip;
    config.ext_ram_addr = reinterpret_cast<uintptr_t>(external);
    config.ext_ram_size = info.ext_ram_sz;
    config.mode = AI_RELOC_RT_LOAD_MODE_XIP;
    if (ll_aton_reloc_install(data->image, &config, &data->network) != AI_RELOC_RT_ERR_NONE) {
        MicroPrintf("atonc-npu: image refused: %s", atonc_reloc_reason_name(atonc_reloc_reason()));
        return false;
    }
    LL_ATON_RT_Init_Network(&data->network);
    data->installed = true;
    return !Failed(&data->network, "start of the network");
}

TfLiteStatus Prepare(TfLiteContext *context, TfLiteNode *node) {
    Data *data = static_cast<Data *>(node->user_data);
    if (data == nullptr || node->inputs->size != data->inputs || node->outputs->size != data->outputs)
        return kTfLiteError;
    if (!data->installed && !Install(context, data))
        return kTfLiteError;
    const NN_Instance_TypeDef *network = &data->network;
    const bool same =
        SameSizes(context, node, ll_aton_reloc_get_input_buffers_info(network, -1), data->inputs, false) &&
        SameSizes(context, node, ll_aton_reloc_get_output_buffers_info(network, -1), data->outputs, true);
    return same ? kTfLiteOk : kTfLiteError;
}

/* The runtime sleeps only while the NPU works. */
bool Run(NN_Instance_TypeDef *network) {
    LL_ATON_RT_RetValues_t state;
    do {
        state = LL_ATON_RT_RunEpochBlock(network);
        if (state == LL_ATON_RT_WFE)
            LL_ATON_OSAL_WFE();
    } while (state != LL_ATON_RT_DONE);
    const bool failed = Failed(network, "inference");
    LL_ATON_RT_Reset_Network(network);
    return !failed;
}

/* A tensor in memory of the network would be written over while it runs; the loader knows nothing of tensors. */
bool Apart(const Data *data, const void *tensor, size_t bytes) {
    const uint32_t start = Address(tensor);
    for (int k = 0; k < kMostPools; k++) {
        const ll_aton_reloc_mem_pool_desc *pool = ll_aton_reloc_get_mem_pool_desc(data->image, k);
        if (pool == nullptr)
            break;
        if (pool->dst != 0 && start < pool->dst + pool->size && pool->dst < start + bytes) {
            MicroPrintf("atonc-npu: the arena lies over memory of the network, from 0x%x on",
                        static_cast<unsigned>(pool->dst));
            return false;
        }
    }
    return true;
}

TfLiteStatus Eval(TfLiteContext *context, TfLiteNode *node) {
    Data *data = static_cast<Data *>(node->user_data);
    const LL_Buffer_InfoTypeDef *info = ll_aton_reloc_get_input_buffers_info(&data->network, -1);
    for (int k = 0; k < data->inputs; k++, info++) {
        info = NextBuffer(info);
        const TfLiteEvalTensor *tensor = tflite::micro::GetEvalInput(context, node, k);
        unsigned char *place = LL_Buffer_addr_start(info);
        if (!Apart(data, tensor->data.raw, LL_Buffer_len(info)))
            return kTfLiteError;
        memcpy(place, tensor->data.raw, LL_Buffer_len(info));
        mcu_cache_clean_range(Address(place), Address(place) + LL_Buffer_len(info));
    }
    if (!Run(&data->network))
        return kTfLiteError;
    info = ll_aton_reloc_get_output_buffers_info(&data->network, -1);
    for (int k = 0; k < data->outputs; k++, info++) {
        info = NextBuffer(info);
        TfLiteEvalTensor *tensor = tflite::micro::GetEvalOutput(context, node, k);
        const unsigned char *place = LL_Buffer_addr_start(info);
        if (!Apart(data, tensor->data.raw, LL_Buffer_len(info)))
            return kTfLiteError;
        mcu_cache_invalidate_range(Address(place), Address(place) + LL_Buffer_len(info));
        memcpy(tensor->data.raw, place, LL_Buffer_len(info));
    }
    return kTfLiteOk;
}

void Free(TfLiteContext *, void *buffer) {
    Data *data = static_cast<Data *>(buffer);
    if (data != nullptr && data->installed) {
        LL_ATON_RT_DeInit_Network(&data->network);
        data->installed = false;
    }
}

} // namespace

TFLMRegistration *Register_NPU() {
    static TFLMRegistration registration = tflite::micro::RegisterOp(Init, Prepare, Eval, Free);
    return &registration;
}

} // namespace atonc
