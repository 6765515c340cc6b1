/* ST's runner loads this library beside that of a network and asks for one function; no events come here. */
#include <stdint.h>

void stai_callback_per_layer(void *cookie, int32_t event, void *payload)
{
    (void)cookie;
    (void)event;
    (void)payload;
}
