/* --- layers on the CPU: what this network needs of atonc's kernels, Apache-2.0 --- */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#endif
@prologue@@kernels@
@functions@

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif
