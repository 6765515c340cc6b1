/* @name@.h: inputs and outputs of the network, written by @tool@. Do not edit. */

#ifndef @prefix@_H
#define @prefix@_H

#define @prefix@_C_MODEL_NAME "@net@"
#define @prefix@_ORIGIN_MODEL_NAME "@origin@"

@begin edges@
#define @prefix@_@short@_NUM (@count@)
@begin buffers@
/* @direction@ @number@: @label@ */
#define @prefix@_@short@_@number@_ALIGNMENT (@line@)
#define @prefix@_@short@_@number@_SIZE_BYTES (@size@)
@end buffers@
@begin supplied@

/* @direction@ buffers that the application allocates, in whole cache lines */
#define @prefix@_USER_ALLOCATED_@DIRECTION@S (@users_count@)
@begin users@
#define @prefix@_USER_@short@_@number@_INDEX (@index@) /* for the setter */
#define @prefix@_USER_@short@_@number@_ALIGNMENT (@alignment@)
#define @prefix@_USER_@short@_@number@_SIZE_BYTES (@padded@)
@begin npu_ram_only@
/* place it in the RAM of the NPU (AXISRAM3 to 6): elsewhere it was never seen to work */
@end npu_ram_only@
@end users@
@end supplied@

@end edges@
@begin ram_constants@
/* Constants in RAM: call this once before the network is initialised, or load the .raw images otherwise. */
#ifdef __cplusplus
extern "C"
#endif
void ATONC_Load_Constants_@net@(void);

@end ram_constants@
@begin resident@
/* Weights in RAM: loaded with the network, given up and loaded again by these. */
#define @prefix@_RESIDENT_BYTES (@resident_bytes@)
#define @prefix@_RESIDENT_RANGES (@resident_count@)
@begin resident_ranges@
#define @prefix@_RESIDENT_@number@_ADDRESS @start@
#define @prefix@_RESIDENT_@number@_SIZE_BYTES (@size@)
@end resident_ranges@
#ifdef __cplusplus
extern "C" void ATONC_Load_Resident_@net@(void);
extern "C" void ATONC_Release_Resident_@net@(void);
#else
void ATONC_Load_Resident_@net@(void);
void ATONC_Release_Resident_@net@(void);
#endif

@end resident@
@begin has_states@
/* States: kept from one inference to the next in these memories. Reset them where a sequence begins. */
#define @prefix@_STATES_NUM (@states_count@)
#define @prefix@_STATES_SIZE_BYTES (@states_bytes@)
@begin states@
#define @prefix@_STATE_@number@_ADDRESS @start@ /* @label@ */
#define @prefix@_STATE_@number@_SIZE_BYTES (@size@)
@end states@
#ifdef __cplusplus
extern "C"
#endif
void @name@_reset(void);

@end has_states@
#endif /* @prefix@_H */
