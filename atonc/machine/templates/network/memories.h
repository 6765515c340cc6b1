/* @name@_memories.h: the memories that the network needs, written by @tool@. Do not edit.
 *
 * A memory that nobody has switched on reads as zeros or stops the bus, and a network on it fails without a word.
 * So before the first inference the firmware
 *   - switches on and maps every memory listed here (clock and power of the AXISRAM banks, XSPI in memory-mapped mode,
 *     NPU cache where a memory lies outside the chip);
 *   - puts the image of each memory with constants at its address;
 *   - keeps its own data, stack and frame buffers out of the ranges marked as working memory.
 *
 * To have this checked by the compiler:
 *   1. define ATONC_CHECK_MEMORIES (for instance -DATONC_CHECK_MEMORIES=1);
 *   2. beside the code that switches a memory on, define its ATONC_HAVE_... as 1, in a header that is included first
 *      or on the command line. A memory that is used but not promised is then an error.
 *   @name@.c includes this file if it finds it.
 * To have fixed addresses of the firmware checked against the working memory:
 *   ATONC_@NET@_KEEPS_CLEAR(0x34200000, 0x34300000);
 * At run time: ATONC_@NET@_MEMORIES(X) expands X(name, address, bytes, initialised, crc32) for every range, to fill
 * tables of MPU or RIF regions for instance. With atonc's own runtime the network checks address, contents and version
 * when it is initialised (atonc_runtime.h).
 */

#ifndef ATONC_@NET@_MEMORIES_H
#define ATONC_@NET@_MEMORIES_H

@begin relative@
@relative_pools@

@end relative@
/* What the network takes of RAM, in bytes that some buffer has at some time: in all, and by use. The ranges
 * of working memory below go from the first such byte of a memory to the last. */
#define ATONC_@NET@_RAM_BYTES @ram_bytes@UL
@begin uses@
#define ATONC_@NET@_RAM_@USE@_BYTES @bytes@UL
@end uses@
#define ATONC_@NET@_SPILLED_BYTES @spilled_bytes@UL /* of the activations, outside the chip */

@begin pools@
/* @pool@: @advice@ */
@begin parts@
#define ATONC_@NET@_@key@_ADDRESS @start@
#define ATONC_@NET@_@key@_BYTES @size@UL
@begin initialised@
#define ATONC_@NET@_@key@_CRC32 @crc32@UL
@end initialised@
@end parts@

@end pools@
#define ATONC_@NET@_MEMORIES(X)@list@

#define ATONC_@NET@_KEEPS_CLEAR(start, end) \
  _Static_assert( \
    @clear@, \
    "the range overlaps the working memory of network @NET@")

#if defined(ATONC_CHECK_MEMORIES) && ATONC_CHECK_MEMORIES
@begin pools@
#  if !defined(@have@)
#    error "network @name@ uses @pool@@at@: switch it on, define @have@"
#  endif
@end pools@
#endif

#endif
