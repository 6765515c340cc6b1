/* SPDX-License-Identifier: Apache-2.0
 * From a chip in reset to a board at its own clocks, by registers alone. No fuse is read or written: the fuse
 * controller's address is in no file of this folder.
 */
#ifndef BOARD_START_H
#define BOARD_START_H

/* Clocks, pins and controllers of another board belong to code that atonc does not have: a board support package. Write
 * this function around it and give its file to make (HOOK=file.c); it takes the place of the one here, which knows the
 * STM32N6570-DK and the NUCLEO-N657X0-Q and leaves the clocks of any other board as they are. Called before anything
 * else. */
void probe_board_init(void);

/* For the first line of the log. */
extern const char *board_clocks;   /* "board", "as_found", or what went wrong: then all runs from the 64 MHz oscillator */
extern const char *board_external; /* "slow": flash and external RAM mapped here, below the board's speed; "as_found" */

#endif
