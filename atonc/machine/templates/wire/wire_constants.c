/* Written by atonc. Do not edit. */
#include "wire_constants.h"

#include "mcu_cache.h"

#include <string.h>

@begin parts@
static const unsigned char part_@k@[@size@] = {
@values@};

@end parts@
void wire_load_constants(void) {
@begin parts@
    memcpy((void *)@start@u, part_@k@, sizeof part_@k@);
    mcu_cache_clean_range(@start@u, @end@u);
@end parts@
}
