/* SPDX-License-Identifier: Apache-2.0
 * The port for the STM32N6: our loader installs the image where it lies in the .pte, which must be memory that CPU and
 * NPU can read, such as the flash. Build it and the runtime with LL_ATON_RT_RELOC and LL_ATON_EB_DBG_INFO.
 */
#include <executorch/runtime/platform/platform.h>

#include "atonc_port.h"

#include "atonc_npu_network.h"

extern "C" __attribute__((weak)) void *atonc_npu_external_ram(size_t) { return nullptr; }

namespace atonc {
namespace {

executorch::runtime::EventTracer *listener; /* of the inference that runs */
uint64_t block_start;

void OnEpoch(LL_ATON_RT_Callbacktype_t what, const NN_Instance_TypeDef *, const LL_ATON_RT_EpochBlockItem_t *block) {
    if (what == LL_ATON_RT_Callbacktype_PRE_START)
        block_start = et_pal_current_ticks();
    else if (what == LL_ATON_RT_Callbacktype_POST_END)
        LogBlock(listener, static_cast<int32_t>(block->epoch_num), block_start, et_pal_current_ticks());
}

/* The buffers of one side against operands; how many there are, or -1. */
int SameSizes(const LL_Buffer_InfoTypeDef *info, const Operand *operands, int count) {
    int k = 0;
    for (info = NextBuffer(info); info != nullptr; info = NextBuffer(info + 1), k++) {
        if (k >= count || operands[k].bytes != LL_Buffer_len(info))
            return -1;
    }
    return k;
}

} // namespace

namespace port {

void *Install(executorch::runtime::MemoryAllocator *memory, const void *data, size_t bytes) {
    void *place = memory->allocate(sizeof(Data), alignof(Data));
    if (place == nullptr)
        return nullptr;
    memset(place, 0, sizeof(Data));
    Data *made = static_cast<Data *>(place);
    if (!Read(static_cast<const char *>(data), bytes, made)) {
        ATONC_SAY("the delegate's data are damaged, or of another version");
        return nullptr;
    }
    ll_aton_reloc_info info;
    if (!Look(made, &info))
        return nullptr;
    void *ram = memory->allocate(info.rt_ram_xip + kExecAlignment);
    return atonc::Install(made, &info, ram) ? made : nullptr;
}

bool Run(void *network, const Operand *operands, size_t count, executorch::runtime::EventTracer *tracer) {
    Data *data = static_cast<Data *>(network);
    const LL_Buffer_InfoTypeDef *inputs = ll_aton_reloc_get_input_buffers_info(&data->network, -1);
    const LL_Buffer_InfoTypeDef *outputs = ll_aton_reloc_get_output_buffers_info(&data->network, -1);
    const int most = static_cast<int>(count);
    const bool same = data->inputs + data->outputs == most &&
                      SameSizes(inputs, operands, data->inputs) == data->inputs &&
                      SameSizes(outputs, operands + data->inputs, data->outputs) == data->outputs;
    if (!same) {
        ATONC_SAY("the delegate's operands have other sizes in the network");
        return false;
    }
    for (int k = 0; k < data->inputs; k++, inputs++) {
        inputs = NextBuffer(inputs);
        if (!PutIn(data, inputs, operands[k].data))
            return false;
    }
    listener = tracer;
    LL_ATON_RT_SetNetworkCallback(&data->network, tracer != nullptr ? OnEpoch : nullptr);
    if (!atonc::Run(&data->network))
        return false;
    for (int k = 0; k < data->outputs; k++, outputs++) {
        outputs = NextBuffer(outputs);
        if (!TakeOut(data, outputs, operands[data->inputs + k].data))
            return false;
    }
    return true;
}

void Remove(void *network) { atonc::Remove(static_cast<Data *>(network)); }

} // namespace port
} // namespace atonc
