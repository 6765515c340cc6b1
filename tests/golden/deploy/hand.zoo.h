/* ai_model_config.h: written by atonc 0.1.0 for the model that it names; changes will be lost. */
#ifndef __AI_MODEL_CONFIG_H__
#define __AI_MODEL_CONFIG_H__

#define NB_CLASSES                                       (2)
#define INPUT_HEIGHT                                     (8)
#define INPUT_WIDTH                                      (8)
#define INPUT_CHANNELS                                   (2)
#define CLASSES_TABLE                                    const char* classes_table[NB_CLASSES] = { \
  "None", "Like" };
#define EVK_LABEL_TABLE                                  const int evk_label_table[NB_CLASSES] = {0, 21};
#define BACKGROUND_REMOVAL                               (120)
#define MAX_DISTANCE                                     (400)
#define MIN_DISTANCE                                     (100)

#endif /* __AI_MODEL_CONFIG_H__ */
