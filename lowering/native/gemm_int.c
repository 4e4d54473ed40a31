/* c = a b of integers of 32 and of 64 bits: gemm.c's kernels, whose sums wrap.  Numbers are unsigned, for
 * overflow of signed ones is undefined in C; the low bits of a product are the same.  Narrower integers
 * are widened before.
 */
#include "gemm.h"

#define R uint32_t
#define R_BYTES 4
#define RBITS int32_t
#define UBITS uint32_t
#define SUM_SUFFIX i32
#include "gemm_tile.h"

#define T uint32_t
#define BITS uint32_t
#define SUFFIX i32
#define WIDEN(bits, U, F) (F)(bits)
#include "gemm.inc.h"

#ifdef __SSE4_1__ /* numbers of 8 and 16 bits, two at a time */
#include <immintrin.h>
#if defined(__AVX512F__)
#define MULTIPLIED(x, b) _mm512_madd_epi16(_mm512_set1_epi32(x), (__m512i)(b))
#elif defined(__AVX2__)
#define MULTIPLIED(x, b) _mm256_madd_epi16(_mm256_set1_epi32(x), (__m256i)(b))
#else
#define MULTIPLIED(x, b) _mm_madd_epi16(_mm_set1_epi32(x), (__m128i)(b))
#endif
#undef EXTEND /* step by step: GCC makes scalar code of one that quadruples */
#define EXTEND(x, H, U) __builtin_convertvector(__builtin_convertvector(x, H), U)
#define T int8_t
#define SUFFIX i8
#define TARGET
#define ADDED(sum, x, b) ((sum) + (V)MULTIPLIED(x, b))
#include "gemm_pairs.inc.h"
#define T uint8_t
#define SUFFIX u8
#define TARGET
#define ADDED(sum, x, b) ((sum) + (V)MULTIPLIED(x, b))
#include "gemm_pairs.inc.h"
#define T int16_t
#define SUFFIX i16
#define TARGET
#define ADDED(sum, x, b) ((sum) + (V)MULTIPLIED(x, b))
#include "gemm_pairs.inc.h"
#undef EXTEND
#define EXTEND(x, H, U) __builtin_convertvector(x, U)
#endif

#undef R
#undef R_BYTES
#undef RBITS
#undef UBITS
#undef SUM_SUFFIX
#undef VL
#undef COLUMNS
#undef V
#undef QUAD
#undef SECONDS
#undef LANES_OF_VECTOR
#undef LDC

#define R uint64_t
#define R_BYTES 8
#define RBITS int64_t
#define UBITS uint64_t
#define SUM_SUFFIX i64
#include "gemm_tile.h"

#define T uint64_t
#define BITS uint64_t
#define SUFFIX i64
#define WIDEN(bits, U, F) (F)(bits)
#include "gemm.inc.h"
