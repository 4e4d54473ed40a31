/* What every kernel of this folder is written with: names by type, functions that are always or never
 * inlined, loops that are unrolled, and the bytes of a vector.
 */
#ifndef MACROS_H
#define MACROS_H

#ifndef __clang__ /* vectors that are returned: of functions that are always inlined */
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define INLINE static inline __attribute__((always_inline))
#define UNUSED __attribute__((unused))
#ifdef __clang__
#define ONCE static UNUSED __attribute__((noinline))
#else /* one body: GCC would make a copy for every constant argument */
#define ONCE static UNUSED __attribute__((noinline, noclone))
#endif
#define UNROLL _Pragma("GCC unroll 16")

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

#endif
