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

#undef R
#undef R_BYTES
#undef RBITS
#undef UBITS
#undef SUM_SUFFIX
#undef VL
#undef COLUMNS
#undef V
#undef QUAD

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
