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
#define POSTPROCESS_TYPE                                 POSTPROCESS_FD_YUNET_UI

/* Picture of the network */
#define NN_HEIGHT                                        (64)
#define NN_WIDTH                                         (64)
#define NN_BPP                                           3
#define COLOR_BGR                                        (0)
#define COLOR_RGB                                        (1)
#define COLOR_MODE                                       COLOR_RGB

/* Numbers of the post-processing */
#define AI_FD_YUNET_PP_NB_KEYPOINTS                      (5)
#define AI_FD_YUNET_PP_NB_CLASSES                        (1)
#define AI_FD_YUNET_PP_IMG_SIZE                          (64)
#define AI_FD_YUNET_PP_OUT_32_NB_BOXES                   (4)
#define AI_FD_YUNET_PP_OUT_16_NB_BOXES                   (16)
#define AI_FD_YUNET_PP_OUT_8_NB_BOXES                    (64)
#define AI_FD_YUNET_PP_MAX_BOXES_LIMIT                   (10)
#define AI_FD_YUNET_PP_CONF_THRESHOLD                    (0.6)
#define AI_FD_YUNET_PP_IOU_THRESHOLD                     (0.5)

/* Display */
#define WELCOME_MSG_1                                    "yunet.tflite"
#define WELCOME_MSG_2                                    "Model Running in STM32 MCU internal memory"

#endif /* APP_CONFIG */
