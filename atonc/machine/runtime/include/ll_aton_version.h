/* SPDX-License-Identifier: Apache-2.0
 * The LL_ATON interface that this runtime offers. A network of another release may ask for its own number: give it on
 * the command line (for example -DLL_ATON_VERSION_DEV=8), the declarations here suit all of 1.1.0 to 1.1.3.
 */
#ifndef LL_ATON_VERSION_H
#define LL_ATON_VERSION_H

#if !defined(ATONC_RELOC_IMAGE) /* an image does not know whose runtime will load it */
#define ATONC_RUNTIME 1         /* this is the runtime of atonc */
#endif

#ifndef LL_ATON_VERSION_MAJOR
#define LL_ATON_VERSION_MAJOR 1
#endif
#ifndef LL_ATON_VERSION_MINOR
#define LL_ATON_VERSION_MINOR 1
#endif
#ifndef LL_ATON_VERSION_MICRO
#define LL_ATON_VERSION_MICRO 3
#endif
#ifndef LL_ATON_VERSION_DEV
#define LL_ATON_VERSION_DEV 262
#endif
#ifndef LL_ATON_VERSION_NAME
#define LL_ATON_VERSION_NAME "atonc-runtime-1.1.3"
#endif

#endif
