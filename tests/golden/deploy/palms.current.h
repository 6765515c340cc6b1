/* app_config.h: written by atonc 0.1.0 for the model that it names; changes will be lost. */
#ifndef APP_CONFIG
#define APP_CONFIG

#include "arm_math.h"

#define USE_DCACHE
#define CAMERA_FLIP                                      CMW_MIRRORFLIP_NONE

/* How the camera's picture becomes the network's: cut, stretched, or stretched and shown whole */
#define ASPECT_RATIO_CROP                                (1)
#define ASPECT_RATIO_FIT                                 (2)
#define ASPECT_RATIO_FULLSCREEN                          (3)
#define ASPECT_RATIO_MODE                                ASPECT_RATIO_CROP

/* Post-processing */
#define POSTPROCESS_TYPE                                 POSTPROCESS_MPE_PD_UF

/* Picture of the network */
#define NN_HEIGHT                                        (64)
#define NN_WIDTH                                         (64)
#define NN_BPP                                           3
#define COLOR_BGR                                        (0)
#define COLOR_RGB                                        (1)
#define COLOR_MODE                                       COLOR_RGB

/* Numbers of the post-processing */
#define AI_PD_MODEL_PP_WIDTH                             (64)
#define AI_PD_MODEL_PP_HEIGHT                            (64)
#define AI_PD_MODEL_PP_TOTAL_DETECTIONS                  (96)
#define AI_PD_MODEL_PP_NB_KEYPOINTS                      (7)
#define AI_PD_MODEL_PP_CONF_THRESHOLD                    (0.6)
#define AI_PD_MODEL_PP_IOU_THRESHOLD                     (0.5)
#define AI_PD_MODEL_PP_MAX_BOXES_LIMIT                   (10)

/* Display */
#define WELCOME_MSG_1                                    "palms.tflite"
#define WELCOME_MSG_2                                    "Model Running in STM32 MCU internal memory"

#endif /* APP_CONFIG */
