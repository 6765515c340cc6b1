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
#define POSTPROCESS_TYPE                                 POSTPROCESS_OD_YOLO_V8_UI

/* Picture of the network */
#define NN_HEIGHT                                        (64)
#define NN_WIDTH                                         (64)
#define NN_BPP                                           3
#define COLOR_BGR                                        (0)
#define COLOR_RGB                                        (1)
#define COLOR_MODE                                       COLOR_RGB

/* Classes */
#define NB_CLASSES                                       (2)
#define CLASSES_TABLE                                    const char* classes_table[NB_CLASSES] = { \
  "cat", "dog" }

/* Numbers of the post-processing */
#define AI_OD_YOLOV8_PP_NB_CLASSES                       (2)
#define AI_OD_YOLOV8_PP_TOTAL_BOXES                      (84)
#define AI_OD_YOLOV8_PP_MAX_BOXES_LIMIT                  (10)
#define AI_OD_YOLOV8_PP_CONF_THRESHOLD                   (0.6)
#define AI_OD_YOLOV8_PP_IOU_THRESHOLD                    (0.5)
#define AI_OD_YOLOV8_PP_SCALE                            (0.019999999552965164)
#define AI_OD_YOLOV8_PP_ZERO_POINT                       (-3)

/* Display */
#define WELCOME_MSG_1                                    "yolo_v8.tflite"
#define WELCOME_MSG_2                                    "Model Running in STM32 MCU internal memory"

#endif /* APP_CONFIG */
