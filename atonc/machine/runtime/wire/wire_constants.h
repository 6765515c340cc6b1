/* SPDX-License-Identifier: Apache-2.0
 * Constants of the networks that lie in RAM of the chip: put there before the networks are initialised.
 */
#ifndef WIRE_CONSTANTS_H
#define WIRE_CONSTANTS_H

void wire_load_constants(void);

#endif
