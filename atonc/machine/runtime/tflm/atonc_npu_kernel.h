/* SPDX-License-Identifier: Apache-2.0
 * The custom operator "atonc-npu" for TFLite Micro: it installs the relocatable image that its data hold and runs it.
 *
 *     resolver.AddCustom(ATONC_NPU_CODE, atonc::Register_NPU());
 *
 * Build it and the runtime with LL_ATON_RT_RELOC. The model must lie at a multiple of 64, where the NPU can
 * read it: weights and programs are run from there.
 */
#ifndef ATONC_NPU_KERNEL_H
#define ATONC_NPU_KERNEL_H

#include <stddef.h>

#include "tensorflow/lite/micro/micro_common.h"

#define ATONC_NPU_CODE "atonc-npu"

namespace atonc {
TFLMRegistration *Register_NPU();
}

/* RAM outside the chip for networks that want some: so many bytes, at a multiple of 64. The weak default has none.
 * Networks of several operators may share it: nothing stays there between two runs. */
extern "C" void *atonc_npu_external_ram(size_t bytes);

#endif
