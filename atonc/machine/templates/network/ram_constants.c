/* @name@_ram_constants.c: constants of the network that live in RAM, written by @tool@. Do not edit.
 *
 * Add this file to the firmware and call ATONC_Load_Constants_@net@ once, when these memories are ready and before the network is
 * initialised. Or leave it out, and load @images@ by other means.
 */

#include <stdint.h>
#include <string.h>

#include "ll_aton_caches_interface.h"

@begin relative@
@relative_pools@
@end relative@
void ATONC_Load_Constants_@net@(void);

@begin parts@
static const uint8_t atonc_constants_@k@[@size@] = {
@values@};

@end parts@
void ATONC_Load_Constants_@net@(void)
{
@begin parts@
  memcpy((void *)@start@, atonc_constants_@k@, @size@U); /* @pool@ */
  LL_ATON_Cache_MCU_Clean_Range(@lines@);
  LL_ATON_Cache_NPU_Clean_Invalidate_Range(@lines@);
@end parts@
}
