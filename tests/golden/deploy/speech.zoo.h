/* ai_model_config.h: written by atonc 0.1.0 for the model that it names; changes will be lost. */
#ifndef AI_MODEL_CONFIG_H
#define AI_MODEL_CONFIG_H

#ifdef __cplusplus
extern "C" {
#endif

#define CTRL_AI_HW_SELECT                                STM32N6570-DK
#define CTRL_X_CUBE_AI_MODEL_NAME                        "X-CUBE-AI STFT TCN"
#define CTRL_X_CUBE_AI_MODE_NB_OUTPUT                    (1U)
#define CTRL_X_CUBE_AI_MODE_OUTPUT_1                     (CTRL_AI_SPECTROGRAM)
#define CTRL_X_CUBE_AI_SENSOR_TYPE                       (COM_TYPE_MIC)
#define CTRL_X_CUBE_AI_AUDIO_OUT                         (COM_TYPE_HEADSET)
#define CTRL_X_CUBE_AI_SENSOR_NAME                       "imp34dt05"
#define CTRL_X_CUBE_AI_SENSOR_ODR                        (16000.0F)
#define CTRL_X_CUBE_AI_PREPROC                           (CTRL_AI_STFT)
#define CTRL_X_CUBE_AI_POSTPROC                          (CTRL_AI_ISTFT)
#define CTRL_X_CUBE_AI_SPECTROGRAM_HOP_LENGTH            (160U)
#define CTRL_X_CUBE_AI_SPECTROGRAM_NFFT                  (512U)
#define CTRL_X_CUBE_AI_SPECTROGRAM_WINDOW_LENGTH         (400U)
#define CTRL_X_CUBE_AI_SPECTROGRAM_COL_NO_OVL            (30U)
#define CTRL_X_CUBE_AI_SPECTROGRAM_COL_OVL               (5U)
#define CTRL_X_CUBE_AI_SPECTROGRAM_WIN                   (user_win)
#define CTRL_X_CUBE_AI_AUDIO_OUT_DB_THRESHOLD            (-50.0F)
#define CTRL_SEQUENCE                                    {CTRL_CMD_PARAM_AI,0}

#ifdef __cplusplus
}
#endif

#endif /* AI_MODEL_CONFIG_H */
