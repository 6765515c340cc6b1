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
#define POSTPROCESS_TYPE                                 POSTPROCESS_OD_YOLO_V2_UF

/* Picture of the network */
#define NN_HEIGHT                                        (64)
#define NN_WIDTH                                         (128)
#define NN_BPP                                           3
#define COLOR_BGR                                        (0)
#define COLOR_RGB                                        (1)
#define COLOR_MODE                                       COLOR_RGB

/* Classes */
#define NB_CLASSES                                       (1)
#define CLASSES_TABLE                                    const char* classes_table[NB_CLASSES] = { \
  "person" }

/* Numbers of the post-processing */
#define AI_OBJDETECT_YOLOV2_PP_NB_CLASSES                (1)
#define AI_OBJDETECT_YOLOV2_PP_NB_ANCHORS                (5)
#define AI_OBJDETECT_YOLOV2_PP_GRID_WIDTH                (4)
#define AI_OBJDETECT_YOLOV2_PP_GRID_HEIGHT               (2)
#define AI_OBJDETECT_YOLOV2_PP_CONF_THRESHOLD            (0.6)
#define AI_OBJDETECT_YOLOV2_PP_IOU_THRESHOLD             (0.5)
#define AI_OBJDETECT_YOLOV2_PP_MAX_BOXES_LIMIT           (10)
#define AI_OBJDETECT_YOLOV2_PP_NB_INPUT_BOXES            (AI_OBJDETECT_YOLOV2_PP_GRID_WIDTH * AI_OBJDETECT_YOLOV2_PP_GRID_HEIGHT)
static const float32_t AI_OBJDETECT_YOLOV2_PP_ANCHORS[2*AI_OBJDETECT_YOLOV2_PP_NB_ANCHORS] = {0.304092, 0.517016, 0.652124, 0.827062, 0.939076, 1.405170, 1.708216, 1.431784, 2.992616, 1.714184};

/* Display */
#define WELCOME_MSG_1                                    "yolo_v2.tflite"
#define WELCOME_MSG_2                                    "Model Running in STM32 MCU internal memory"

#endif /* APP_CONFIG */
