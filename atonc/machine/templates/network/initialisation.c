/* Once, when the network is initialised. */
bool LL_ATON_EC_Network_Init_@net@(void)
{
#if defined(ATONC_RUNTIME)
  if (!atonc_check_version(LL_ATON_VERSION_MAJOR, LL_ATON_VERSION_MINOR, LL_ATON_VERSION_MICRO) ||
      !atonc_check_memories(atonc_memories)) {
    return false;
  }
#endif
@begin relocated@
  memcpy(@blob@_ptr, @blob@ + @prefix_pairs@, @blob_bytes@U);
@begin relocations@
@begin of_application@
  @key@_base = 0U;
@end of_application@
@begin of_network@
  atonc_relocate(@blob@_ptr, @key@_words, @count@U, (uint32_t)(uintptr_t)@key@_BASE_SYMBOL);
@end of_network@
@end relocations@
@begin for_good@
  LL_ATON_Cache_NPU_Clean_Invalidate_Range((uintptr_t)@blob@_ptr, @runtime_bytes@U);
  LL_ATON_Cache_MCU_Clean_Range((uintptr_t)@blob@_ptr, @runtime_bytes@U);
@end for_good@
@end relocated@
@begin encrypted@
  ATONC_Set_Keys_@net@();
@end encrypted@
@begin resident@
  ATONC_Load_Resident_@net@();
@end resident@
@begin has_states@
  if (!atonc_states_ready) {
    @name@_reset();
  }
@end has_states@
  return true;
}

/* Before each inference. */
bool LL_ATON_EC_Inference_Init_@net@(void)
{
@begin has_users@
  if (@missing@) {
    return false; /* the application has not set its buffers */
  }
@end has_users@
@begin relocated@
@begin moves_again@
@begin relocations@
@begin of_application@
  atonc_relocate(@blob@_ptr, @key@_words, @count@U, (uint32_t)(uintptr_t)@key@_BASE_SYMBOL - @key@_base);
  @key@_base = (uint32_t)(uintptr_t)@key@_BASE_SYMBOL;
@end of_application@
@end relocations@
  LL_ATON_Cache_NPU_Clean_Invalidate_Range((uintptr_t)@blob@_ptr, @runtime_bytes@U);
  LL_ATON_Cache_MCU_Clean_Range((uintptr_t)@blob@_ptr, @runtime_bytes@U);
@end moves_again@
@end relocated@
@begin resident@
  if (!atonc_resident_ready) {
    ATONC_Load_Resident_@net@();
  }
@end resident@
  return true;
}
