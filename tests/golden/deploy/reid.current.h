/* app_config.h: written by atonc 0.1.0 for the model that it names; changes will be lost. */
#ifndef APP_CONFIG
#define APP_CONFIG

#include "arm_math.h"
#include "app_od.h"

#define USE_DCACHE
#define CAMERA_FLIP                                      CMW_MIRRORFLIP_NONE

/* Who is followed, and for how long */
#define APP_MAX_OBJECT_DETECT                            (20)
#define APP_MAX_OBJECT_TRACKING                          (10)
#define APP_SCORE_THRESHOLD                              (0.5)
#define APP_LOST_TIME_IN_MS                              (60000)
#define APP_START_TRACKING_CONF_THRESHOLD                (0.9)

/* Display */
#define WELCOME_MSG_1                                    "reid.tflite"
#define WELCOME_MSG_2                                    "Model Running in STM32 MCU internal memory"

#endif /* APP_CONFIG */
