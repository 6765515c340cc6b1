/* app_config.h: written by atonc 0.1.0 for the model that it names; changes will be lost. */
#ifndef APP_CONFIG
#define APP_CONFIG

#include "arm_math.h"

#define USE_DCACHE
#define CAMERA_FLIP                                      CMW_MIRRORFLIP_NONE

/* How the camera's picture becomes the network's: cut, stretched, or stretched and shown whole */
#define ASPECT_RATIO_CROP                                (2)
#define ASPECT_RATIO_FIT                                 (1)
#define ASPECT_RATIO_FULLSCREEN                          (3)
#define ASPECT_RATIO_MODE                                ASPECT_RATIO_CROP
#define CAPTURE_FORMAT                                   DCMIPP_PIXEL_PACKER_FORMAT_RGB565_1
#define CAPTURE_BPP                                      2
#define CAMERA_WIDTH                                     0
#define CAMERA_HEIGHT                                    0
#define LCD_FG_WIDTH                                     800
#define LCD_FG_HEIGHT                                    480
#define LCD_FG_FRAMEBUFFER_SIZE                          (LCD_FG_WIDTH * LCD_FG_HEIGHT * 2)

/* Post-processing */
#define POSTPROCESS_TYPE                                 POSTPROCESS_FD_BLAZEFACE_UI

/* Picture of the network */
#define NN_HEIGHT                                        (128)
#define NN_WIDTH                                         (128)
#define NN_BPP                                           3
#define COLOR_BGR                                        (0)
#define COLOR_RGB                                        (1)
#define COLOR_MODE                                       COLOR_RGB

/* Numbers of the post-processing */
#define AI_FD_BLAZEFACE_PP_NB_KEYPOINTS                  (6)
#define AI_FD_BLAZEFACE_PP_NB_CLASSES                    (1)
#define AI_FD_BLAZEFACE_PP_IMG_SIZE                      (128)
#define AI_FD_BLAZEFACE_PP_OUT_0_NB_BOXES                (512)
#define AI_FD_BLAZEFACE_PP_OUT_1_NB_BOXES                (384)
#define AI_FD_BLAZEFACE_PP_MAX_BOXES_LIMIT               (10)
#define AI_FD_BLAZEFACE_PP_CONF_THRESHOLD                (0.6)
#define AI_FD_BLAZEFACE_PP_IOU_THRESHOLD                 (0.5)

/* Display */
#define WELCOME_MSG_1                                    "blazeface.tflite"
#define WELCOME_MSG_2                                    "Model Running in STM32 MCU internal memory"

#endif /* APP_CONFIG */
