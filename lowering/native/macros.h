/* What every kernel of this folder is written with: names by type, functions that are always or never
 * inlined, loops that are unrolled, the bytes of a vector, and small functions.
 */
#ifndef MACROS_H
#define MACROS_H

#include <stdint.h>

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

/* Elements of two vectors in another order, numbered through both. */
#if defined(__clang__) || __GNUC__ >= 12
#define MIX(order, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define MIX(order, a, b, ...) __builtin_shuffle(a, b, (order){__VA_ARGS__})
#endif

INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
INLINE int64_t parts(int64_t n, int64_t most) { return (n + most - 1) / most; }

/* A function that adds up the floats of a vector, by halves. */
#define SUM_OF_LANES(name, vector, lanes)               \
  INLINE float name(vector x) {                         \
    float part[lanes];                                  \
    UNROLL for (int i = 0; i < (lanes); i++) part[i] = x[i]; \
    UNROLL for (int h = (lanes) / 2; h > 0; h /= 2)     \
      for (int i = 0; i < h; i++) part[i] += part[i + h]; \
    return part[0];                                     \
  }

#endif
