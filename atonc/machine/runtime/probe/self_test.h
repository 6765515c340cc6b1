/* SPDX-License-Identifier: Apache-2.0
 * The self-test over all memories that probes use, as lines of the log. A set-up that is not sound is named before any
 * probe can be blamed for it.
 */
#ifndef SELF_TEST_H
#define SELF_TEST_H

/* ATONC-SELFTEST 1 <code> <name> detail=.. place=.. found=.. wanted=.. register=<name> | <cause> | <fix> *<checksum>
 * for every finding, then ATONC-SELFTEST 1 findings=<count> *<checksum> */
void self_test(void);

#endif
