/* SPDX-License-Identifier: Apache-2.0
 * The NPU and its memories, switched on without vendor code.
 */
#ifndef NPU_POWER_H
#define NPU_POWER_H

/* Clock and power for the NPU and AXISRAM3 to 6, also while the processor sleeps; the NPU as a secure bus master. The NPU
 * is reset each time. */
void npu_power_on(void);

#endif
