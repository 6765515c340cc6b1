/* ai_model_config.h: written by atonc 0.1.0 for the model that it names; changes will be lost. */
#ifndef AI_MODEL_CONFIG_H
#define AI_MODEL_CONFIG_H

#ifdef __cplusplus
extern "C" {
#endif

#define CTRL_X_CUBE_AI_MODE_NB_OUTPUT                    (1U)
#define CTRL_X_CUBE_AI_MODE_OUTPUT_1                     (CTRL_AI_CLASS_DISTRIBUTION)
#define CTRL_X_CUBE_AI_MODE_CLASS_NUMBER                 (2U)
#define CTRL_X_CUBE_AI_MODE_CLASS_LIST                   {"Walking","Biking"}
#define CTRL_X_CUBE_AI_SENSOR_TYPE                       (COM_TYPE_ACC)
#define CTRL_X_CUBE_AI_SENSOR_ODR                        (26.0F)
#define CTRL_X_CUBE_AI_SENSOR_FS                         (4.0F)
#define CTRL_X_CUBE_AI_NB_SAMPLES                        (0U)
#define CTRL_X_CUBE_AI_PREPROC                           (CTRL_AI_GRAV_ROT_SUPPR)

#ifdef __cplusplus
}
#endif

#endif /* AI_MODEL_CONFIG_H */
