/* @name@_selftest.h: whether a board is set up for this network, written by @tool@. Do not edit. */
#ifndef ATONC_@NET@_SELFTEST_H
#define ATONC_@NET@_SELFTEST_H

#include "atonc_selftest.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Call it when clocks, memories and security are set up and before LL_ATON_RT_RuntimeInit(). 0: everything is sound,
 * else the number of findings, of which at most `most` are written. atonc_selftest_cause(), _register() and _fix() have the
 * text of a code. With ATONC_NO_SELFTEST it is 0 and takes no memory. */
#ifdef ATONC_NO_SELFTEST
static inline uint32_t @name@_selftest(atonc_finding_t *findings, uint32_t most) {
  return atonc_selftest(0, findings, most);
}
#else
uint32_t @name@_selftest(atonc_finding_t *findings, uint32_t most);
#endif

#ifdef __cplusplus
}
#endif

#endif
