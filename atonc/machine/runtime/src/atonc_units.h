/* SPDX-License-Identifier: Apache-2.0
 * What the unit drivers share.
 *
 * Releases of LL_ATON write some registers in another order. The version that the runtime is built for
 * (ll_aton_version.h) decides; it makes no difference to the result.
 */
#ifndef ATONC_UNITS_H
#define ATONC_UNITS_H

#include "atonc_internal.h"
#include "ll_aton_version.h"

#define ATONC_LL_FIRST (LL_ATON_VERSION_MICRO < 3)
#define ATONC_LL_WRITES_KFILT (!ATONC_LL_FIRST) /* the kernel filter is written even if it is not used */
#define ATONC_LL_SWITCH_RESET_FIRST (ATONC_LL_FIRST || LL_ATON_VERSION_DEV < 100) /* when linking, not at the end */

extern uint32_t atonc_convacc_control[ATONC_CONVACC_NUM];

/* Element `index` of a packed vector of `bits` wide elements, sign extended. */
int32_t atonc_vector_element(const void *vector, unsigned bits, unsigned index);

#endif
