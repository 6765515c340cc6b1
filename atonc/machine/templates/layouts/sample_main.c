/* @licence@
 * One inference of @name@ on inputs of zeros, written by @tool@.
 */
#include <stdint.h>
#include <string.h>

@includes@
#include "atonc_runtime.h"
#include "ll_aton_runtime.h"
#include "mcu_cache.h"

LL_ATON_DECLARE_NAMED_NN_INSTANCE_AND_INTERFACE(@suffix@)

static uint32_t first(const LL_Buffer_InfoTypeDef *one) { return (uint32_t)(uintptr_t)LL_Buffer_addr_start(one); }

static int failed(const char *when) {
    const atonc_status_t status = atonc_rt_status(&NN_Instance_@suffix@);
    if (status.code != ATONC_OK)
        @say@("%s: %s, epoch %u, detail %#x\n", when, atonc_error_name(status.code), (unsigned)status.epoch,
              (unsigned)status.detail);
    return status.code != ATONC_OK;
}

static void infer(void) {
    LL_ATON_RT_RetValues_t state;
    do {
        state = LL_ATON_RT_RunEpochBlock(&NN_Instance_@suffix@);
        if (state == LL_ATON_RT_WFE)
            LL_ATON_OSAL_WFE();
    } while (state != LL_ATON_RT_DONE);
}

static void show(const LL_Buffer_InfoTypeDef *output) {
    for (; output->name != NULL; output++) {
        if (output->is_param)
            continue;
        mcu_cache_invalidate_range(first(output), first(output) + LL_Buffer_len(output));
        @say@("%s:", output->name);
        for (uint32_t k = 0; k < LL_Buffer_len(output) && k < 16; k++)
            @say@(" %02x", LL_Buffer_addr_start(output)[k]);
        @say@("\n");
    }
}

int main(void) {
    LL_ATON_RT_RuntimeInit();
    LL_ATON_RT_Init_Network(&NN_Instance_@suffix@);
    if (failed("initialisation"))
        return 0;
    for (const LL_Buffer_InfoTypeDef *input = LL_ATON_Input_Buffers_Info_@suffix@(); input->name != NULL; input++) {
        if (input->is_param)
            continue;
        memset(LL_Buffer_addr_start(input), 0, LL_Buffer_len(input));
        mcu_cache_clean_range(first(input), first(input) + LL_Buffer_len(input));
    }
@begin timed@
    const unsigned start = @now@;
    infer();
    @say@("@name@: %u us\n", @now@ - start);
@end timed@
@begin untimed@
    infer();
@end untimed@
    if (!failed("inference"))
        show(LL_ATON_Output_Buffers_Info_@suffix@());
    LL_ATON_RT_DeInit_Network(&NN_Instance_@suffix@);
    LL_ATON_RT_RuntimeDeInit();
    return 0;
}
