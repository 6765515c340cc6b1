/* app_addresses.h: where the networks lie, written by atonc @version@. Do not edit. */

#ifndef APP_ADDRESSES_H
#define APP_ADDRESSES_H

@begin slots@
#define APP_FLASH_@name@_ADDRESS @start@UL
#define APP_FLASH_@name@_SLOT_BYTES @slot_bytes@UL
#define APP_FLASH_@name@_BYTES @bytes@UL
#define APP_FLASH_@name@_CRC32 @crc32@UL
@end slots@
@begin reserved@
#define APP_RESERVED_@name@_ADDRESS @start@UL
#define APP_RESERVED_@name@_BYTES @bytes@UL
@end reserved@

/* RAM of all networks: X(address, bytes) for every range */
#define APP_RAM(X) @ram@

#endif
