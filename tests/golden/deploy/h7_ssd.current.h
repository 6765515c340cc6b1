/* ai_model_config.h: written by atonc 0.1.0 for the model that it names; changes will be lost. */
#ifndef __AI_MODEL_CONFIG_H__
#define __AI_MODEL_CONFIG_H__

#define NB_CLASSES                                       (2)
#define INPUT_HEIGHT                                     (64)
#define INPUT_WIDTH                                      (64)
#define INPUT_CHANNELS                                   (3)
#define CLASSES_TABLE                                    const char* classes_table[NB_CLASSES] = { \
  "background", "person" }
#define ASPECT_RATIO_FIT                                 (1)
#define ASPECT_RATIO_CROP                                (2)
#define ASPECT_RATIO_PADDING                             (3)
#define ASPECT_RATIO_MODE                                ASPECT_RATIO_CROP

/* Post-processing */
#define POSTPROCESS_CENTER_NET                           (1)
#define POSTPROCESS_YOLO_V2                              (2)
#define POSTPROCESS_ST_SSD                               (3)
#define POSTPROCESS_SSD                                  (4)
#define POSTPROCESS_ST_YOLO_X                            (5)
#define POSTPROCESS_TYPE                                 POSTPROCESS_ST_SSD
#define AI_OBJDETECT_SSD_ST_PP_NB_CLASSES                (2)
#define AI_OBJDETECT_SSD_ST_PP_IOU_THRESHOLD             (0.5)
#define AI_OBJDETECT_SSD_ST_PP_CONF_THRESHOLD            (0.6)
#define AI_OBJDETECT_SSD_ST_PP_MAX_BOXES_LIMIT           (10)
#define AI_OBJDETECT_SSD_ST_PP_TOTAL_DETECTIONS          (96)
#define RGB_FORMAT                                       (1)
#define BGR_FORMAT                                       (2)
#define GRAYSCALE_FORMAT                                 (3)
#define PP_COLOR_MODE                                    RGB_FORMAT
#define UINT8_FORMAT                                     (1)
#define INT8_FORMAT                                      (2)
#define FLOAT32_FORMAT                                   (3)
#define QUANT_INPUT_TYPE                                 UINT8_FORMAT
#define QUANT_OUTPUT_TYPE                                FLOAT32_FORMAT

#endif /* __AI_MODEL_CONFIG_H__ */
