/* The probes of this image, written by atonc @version@. Do not edit. */
#include "probes.h"

#include <stddef.h>

const char probes_board[] = "@board@";
const char probes_version[] = "@version@";

@begin arrays@
static const uint8_t @name@[@size@] = {
@values@};

@end arrays@
@begin probes@
static const uint64_t __attribute__((aligned(@line@))) @name@_program[@pairs@] = {
@program@};
static const probe_answer_t @name@_answers[] = {
@begin answers@
    {"@answer@", @data@},
@end answers@
};
@begin has_constants@
static const probe_constant_t @name@_constants[] = {
@begin constants@
    {@address@u, @bytes@u, @crc32@u, @data@},
@end constants@
};
@end has_constants@
@end probes@
const probe_t probes[] = {
@begin probes@
    {"@probe@", @name@_program, @stimulus@, @name@_answers, @constants_name@,
     @stimulus_bytes@u, @expected_bytes@u, @places@, {@transfer@}, @answers_count@, @constants_count@, @needs@},
@end probes@
};
const uint32_t probes_count = sizeof probes / sizeof probes[0];
