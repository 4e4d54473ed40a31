/* c = a b: products of matrices of f32, f64, bf16 and f16, whose sums are f32 or f64.
 *
 * Operands of any strides are packed, b to panels of a tile's columns and a to panels of its rows,
 * block by block, so that the innermost loops read memory as it lies; a tile of c stays in registers
 * (gemm_tile.h).  K. Goto, R. van de Geijn, "Anatomy of high-performance matrix multiplication",
 * ACM TOMS 34 (2008); F. Van Zee, R. van de Geijn, "BLIS: a framework for rapidly instantiating BLAS
 * functionality", ACM TOMS 41 (2015).  Few rows are not worth packing b for: they are added up in
 * strips (stream); so is a matrix times a vector (gemv.inc.h).  What the windows of a convolution see is an operand, too: its elements are found
 * by their places (gemm_windows.inc.h).  Conventions: README.md.
 */
#include "gemm.h"

#define R float
#define R_BYTES 4
#define RBITS int32_t
#define UBITS uint32_t
#define SUM_SUFFIX f32
#include "gemm_tile.h"

#define T float
#define BITS uint32_t
#define SUFFIX f32
#define WIDEN(bits, U, F) (F)(bits)
#include "gemm.inc.h"

/* bfloat16 is the upper half of a float */
#define T uint16_t
#define BITS uint16_t
#define SUFFIX bf16
#define WIDEN(bits, U, F) (F)((bits) << 16)
#include "gemm.inc.h"

#ifdef __AVX512F__
/* the same two at a time, of processors that have that */
#include <immintrin.h>
#define T uint16_t
#define SUFFIX bf16
#define TARGET __attribute__((target("avx512bf16")))
#define ADDED(sum, x, b) \
  (V) _mm512_dpbf16_ps((__m512)(sum), (__m512bh)_mm512_set1_epi32(x), (__m512bh)(b))
#include "gemm_pairs.inc.h"
#endif

/* IEEE half precision: 5 bits of exponent become 8; what is below 2^-14 by a subtraction, so that no
 * operand is subnormal, which some processors take for zero */
#define T uint16_t
#define BITS uint16_t
#define SUFFIX f16
#ifdef __F16C__
#include <immintrin.h>
#ifdef __AVX512F__
#define LOAD(at) (V) _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(at)))
#else
#define LOAD(at) (V) _mm256_cvtph_ps(_mm_loadu_si128((const void *)(at)))
#endif
#define LOAD_FOUR(at) (QUAD) _mm_cvtph_ps(_mm_loadl_epi64((const void *)(at)))
#endif
#define WIDEN(bits, U, F)                                                                   \
  ({                                                                                        \
    U from = (bits), size = (from & 0x7fff) << 13, exponent = size & 0x0f800000;            \
    U most = (U)(exponent == 0x0f800000), least = (U)(exponent == 0);                       \
    U normal = size + 0x38000000 + (most & 0x38000000);                                     \
    F small = (F)(size + 0x38800000) - 0x1p-14f;                                            \
    (F)((((U)small & least) | (normal & ~least)) | (from & 0x8000) << 16);                  \
  })
#include "gemm.inc.h"

/* matrices of integers times vectors only */
#undef UBITS
#define UBITS int32_t
#define T int8_t
#define BITS int8_t
#define SUFFIX i8
#define WIDEN(bits, U, F) __builtin_convertvector(bits, F)
#undef EXTEND /* step by step: GCC makes scalar code of one that quadruples */
#define EXTEND(x, H, U) __builtin_convertvector(__builtin_convertvector(x, H), U)
#include "gemm_load.inc.h"
#include "gemv.inc.h"
#undef EXTEND
#define EXTEND(x, H, U) __builtin_convertvector(x, U)

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

#define R double
#define R_BYTES 8
#define RBITS int64_t
#define UBITS uint64_t
#define SUM_SUFFIX f64
#include "gemm_tile.h"

#define T double
#define BITS uint64_t
#define SUFFIX f64
#define WIDEN(bits, U, F) (F)(bits)
#include "gemm.inc.h"
