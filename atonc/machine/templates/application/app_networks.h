/* app_networks.h: the networks of this firmware in one table, written by atonc @version@. Do not edit.
 *
 *     app_networks_init();                               once: contents of the flash, the runtime, every network
 *     fill what app_network_input(APP_NETWORK_..., 0) points to
 *     app_network_run(APP_NETWORK_...);                  one inference, to its end
 *     read what app_network_output(APP_NETWORK_..., 0) points to
 *
 * Networks take turns on the NPU and work in the same RAM: a run overwrites what other networks left there. These
 * inputs and outputs have a place of their own, and stay:
@begin kept@
 *   @tensor@ of @network@ while @survives@ runs
@end kept@
@begin nothing_kept@
 *   none
@end nothing_kept@
 * So from filling the inputs of any other to reading its outputs nobody else may run: one lock (app_loop.c).
 */

#ifndef APP_NETWORKS_H
#define APP_NETWORKS_H

#include <stdint.h>

#include "ll_aton_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
@begin networks@
  @number@ = @k@,
@end networks@
  APP_NETWORKS = @count@
};

typedef struct {
  const char *name;
  NN_Instance_TypeDef *instance;
  float per_second; /* as the application file says */
  int after;        /* the network whose results it works on, or -1 */
  uint32_t flash_address;
  uint32_t flash_bytes; /* constants, from the start of the slot; 0: an image, which its loader checks */
  uint32_t flash_crc32;
} app_network_t;

extern const app_network_t app_networks[APP_NETWORKS];

/* The first network whose constants are not in flash as they were built, or -1. */
int app_networks_check(void);

/* Checks, initialises the runtime once and every network; -1, or the network whose constants or image are wrong: then
 * nothing was initialised. */
int app_networks_init(void);
void app_networks_deinit(void);

void *app_network_input(int network, uint32_t index);
void *app_network_output(int network, uint32_t index);
uint32_t app_network_input_bytes(int network, uint32_t index);
uint32_t app_network_output_bytes(int network, uint32_t index);

/* Lists of all inputs and outputs: names, shapes, scales, zero points; the last has no name. */
const LL_Buffer_InfoTypeDef *app_network_inputs(int network);
const LL_Buffer_InfoTypeDef *app_network_outputs(int network);

/* Memory of the application, for networks that were compiled without memory for inputs or outputs. */
LL_ATON_User_IO_Result_t app_network_set_input(int network, uint32_t index, void *buffer, uint32_t bytes);
LL_ATON_User_IO_Result_t app_network_set_output(int network, uint32_t index, void *buffer, uint32_t bytes);

/* One inference; the network is then ready for the next. */
void app_network_run(int network);
@begin install@

/* Installs the image at an address for a network that is relocatable (@names@): 0, or what
 * ll_aton_reloc_install says. Its pools must lie in RAM of the plan that is nobody else's, and its inputs and outputs
 * must be as large as those of this build (else AI_RELOC_RT_ERR_NOT_SUPPORTED). Behind an error nothing is installed,
 * and runs do nothing, until another image is. app_networks_init installs what is in the slots for networks that have
 * nothing yet; later images are installed between two inferences. */
int app_network_install(int network, uintptr_t image);
@end install@

#ifdef __cplusplus
}
#endif

#endif
