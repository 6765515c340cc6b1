/* ai_model_config.h: written by atonc 0.1.0 for the model that it names; changes will be lost. */
#ifndef __AI_MODEL_CONFIG_H__
#define __AI_MODEL_CONFIG_H__

#define NB_CLASSES                                       (2)
#define INPUT_HEIGHT                                     (32)
#define INPUT_WIDTH                                      (32)
#define INPUT_CHANNELS                                   (3)
#define CLASSES_TABLE                                    const char* classes_table[NB_CLASSES] = { \
  "daisy", "roses" }
#define ASPECT_RATIO_FIT                                 (1)
#define ASPECT_RATIO_CROP                                (2)
#define ASPECT_RATIO_PADDING                             (3)
#define ASPECT_RATIO_MODE                                ASPECT_RATIO_CROP
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
