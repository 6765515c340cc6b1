/* A runtime that only counts: enough to see what stai_<name>.c asks of it. */
#ifndef LL_ATON_RT_USER_API_H
#define LL_ATON_RT_USER_API_H

#include <stdint.h>
#include <stddef.h>

typedef enum { LL_ATON_RT_NO_WFE, LL_ATON_RT_WFE, LL_ATON_RT_DONE } LL_ATON_RT_RetValues_t;
typedef enum {
  LL_ATON_User_IO_NOERROR,
  LL_ATON_User_IO_WRONG_ALIGN,
  LL_ATON_User_IO_WRONG_SIZE,
  LL_ATON_User_IO_WRONG_INDEX
} LL_ATON_User_IO_Result_t;
typedef struct { const char *network_name; } NN_Interface_TypeDef;
typedef struct { const NN_Interface_TypeDef *network; int state; } NN_Instance_TypeDef;
typedef struct { const char *name; unsigned char *start; uint32_t size; uint8_t is_user_allocated; } LL_Buffer_InfoTypeDef;

#define LL_ATON_DECLARE_NAMED_NN_INTERFACE(net) \
  const LL_Buffer_InfoTypeDef *LL_ATON_Input_Buffers_Info_##net(void); \
  const LL_Buffer_InfoTypeDef *LL_ATON_Output_Buffers_Info_##net(void); \
  LL_ATON_User_IO_Result_t LL_ATON_Set_User_Input_Buffer_##net(uint32_t, void *, uint32_t); \
  LL_ATON_User_IO_Result_t LL_ATON_Set_User_Output_Buffer_##net(uint32_t, void *, uint32_t); \
  static const NN_Interface_TypeDef NN_Interface_##net = { #net }

unsigned char *LL_Buffer_addr_start(const LL_Buffer_InfoTypeDef *buffer);
uint32_t LL_Buffer_len(const LL_Buffer_InfoTypeDef *buffer);
void LL_ATON_RT_Init_Network(NN_Instance_TypeDef *instance);
void LL_ATON_RT_DeInit_Network(NN_Instance_TypeDef *instance);
void LL_ATON_RT_Reset_Network(NN_Instance_TypeDef *instance);
LL_ATON_RT_RetValues_t LL_ATON_RT_RunEpochBlock(NN_Instance_TypeDef *instance);
void LL_ATON_OSAL_WFE(void);

#endif
