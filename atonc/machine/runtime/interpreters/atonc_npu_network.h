/* SPDX-License-Identifier: Apache-2.0
 * What kernels for interpreters share: the network that an operator's or a delegate's data hold, installed and run.
 *
 * Before it is included, ATONC_SAY(format, ...) is defined: it prints a line.
 */
#ifndef ATONC_NPU_NETWORK_H
#define ATONC_NPU_NETWORK_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "atonc_runtime.h"
#include "ll_aton_reloc_network.h"
#include "ll_aton_runtime.h"
#include "mcu_cache.h"

#define ATONC_NPU_LINE 64

/* RAM outside the chip for networks that want some: so many bytes, at a multiple of ATONC_NPU_LINE. The weak default
 * has none. Networks of several operators may share it: nothing stays there between two runs. */
extern "C" void *atonc_npu_external_ram(size_t bytes);

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
    uint32_t unused[8];
    uint32_t check; /* CRC-32 of what is above and of what follows the image, which has its own */
};

struct Data {
    NN_Instance_TypeDef network;
    uintptr_t image;
    int inputs, outputs;
    bool installed;
};

constexpr uint32_t kVersion = 2;
constexpr size_t kExecAlignment = 32;
constexpr int kMostPools = 10;

bool runtime_is_up = false;

uint32_t Address(const void *pointer) { return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(pointer)); }

bool Failed(const NN_Instance_TypeDef *network, const char *when) {
    const atonc_status_t status = atonc_rt_status(network);
    if (status.code == ATONC_OK)
        return false;
    ATONC_SAY("%s: %s, epoch %d", when, atonc_error_name(status.code), static_cast<int>(status.epoch));
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
    if (header.start != sizeof header || header.length > length - header.start || header.inputs > 256 ||
        header.outputs > 256)
        return false;
    const uint32_t behind = header.start + header.length;
    const uint32_t front = atonc_crc32(&header, offsetof(Header, check), 0);
    if (atonc_crc32(buffer + behind, header.size - behind, front) != header.check)
        return false;
    data->image = reinterpret_cast<uintptr_t>(buffer) + header.start;
    data->inputs = static_cast<int>(header.inputs);
    data->outputs = static_cast<int>(header.outputs);
    return true;
}

const LL_Buffer_InfoTypeDef *NextBuffer(const LL_Buffer_InfoTypeDef *info) {
    while (info != nullptr && info->name != nullptr && info->is_param) /* constants are listed among the inputs */
        info++;
    return info != nullptr && info->name != nullptr ? info : nullptr;
}

/* Looks at the image; what it wants of memory is in `info`. */
bool Look(const Data *data, ll_aton_reloc_info *info) {
    if (data->image % ATONC_NPU_LINE != 0) {
        ATONC_SAY("the model must lie at a multiple of %d bytes", ATONC_NPU_LINE);
        return false;
    }
    if (!runtime_is_up) {
        LL_ATON_RT_RuntimeInit();
        if (Failed(nullptr, "start of the runtime"))
            return false;
        runtime_is_up = true;
    }
    if (ll_aton_reloc_get_info(data->image, info) != AI_RELOC_RT_ERR_NONE) {
        ATONC_SAY("image refused: %s", atonc_reloc_reason_name(atonc_reloc_reason()));
        return false;
    }
    return true;
}

/* `ram`: as many bytes as the image wants, and kExecAlignment more. */
bool Install(Data *data, const ll_aton_reloc_info *info, void *ram) {
    void *external = info->ext_ram_sz != 0 ? atonc_npu_external_ram(info->ext_ram_sz) : nullptr;
    if (ram == nullptr || (info->ext_ram_sz != 0 && external == nullptr)) {
        ATONC_SAY("%d bytes of the arena and %d of external RAM are wanted",
                  static_cast<int>(info->rt_ram_xip + kExecAlignment), static_cast<int>(info->ext_ram_sz));
        return false;
    }
    ll_aton_reloc_config config = {};
    config.exec_ram_addr = (reinterpret_cast<uintptr_t>(ram) + kExecAlignment - 1) / kExecAlignment * kExecAlignment;
    config.exec_ram_size = info->rt_ram_xip;
    config.ext_ram_addr = reinterpret_cast<uintptr_t>(external);
    config.ext_ram_size = info->ext_ram_sz;
    config.mode = AI_RELOC_RT_LOAD_MODE_XIP;
    if (ll_aton_reloc_install(data->image, &config, &data->network) != AI_RELOC_RT_ERR_NONE) {
        ATONC_SAY("image refused: %s", atonc_reloc_reason_name(atonc_reloc_reason()));
        return false;
    }
    LL_ATON_RT_Init_Network(&data->network);
    data->installed = true;
    return !Failed(&data->network, "start of the network");
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
            ATONC_SAY("the arena lies over memory of the network, from 0x%x on",
                      static_cast<unsigned>(pool->dst));
            return false;
        }
    }
    return true;
}

/* Values into a buffer of the network, and out of it; false where they lie in its memory. */
bool PutIn(const Data *data, const LL_Buffer_InfoTypeDef *info, const void *values) {
    unsigned char *place = LL_Buffer_addr_start(info);
    if (!Apart(data, values, LL_Buffer_len(info)))
        return false;
    memcpy(place, values, LL_Buffer_len(info));
    mcu_cache_clean_range(Address(place), Address(place) + LL_Buffer_len(info));
    return true;
}

bool TakeOut(const Data *data, const LL_Buffer_InfoTypeDef *info, void *values) {
    const unsigned char *place = LL_Buffer_addr_start(info);
    if (!Apart(data, values, LL_Buffer_len(info)))
        return false;
    mcu_cache_invalidate_range(Address(place), Address(place) + LL_Buffer_len(info));
    memcpy(values, place, LL_Buffer_len(info));
    return true;
}

void Remove(Data *data) {
    if (data->installed) {
        LL_ATON_RT_DeInit_Network(&data->network);
        data->installed = false;
    }
}

} // namespace
} // namespace atonc

#endif
