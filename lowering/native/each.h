/* Includes FAMILY (a template of this folder) once per element type: f32, f64, c64, c128.
 *
 * A template sees T (the element), R (its real type), COMPLEX (0 or 1) and NAME(x), which adds the
 * type's suffix.  Functions of real numbers only are made in the real passes and reached by the
 * complex ones as RNAME(x), so the real types come first.
 */
#include <float.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "macros.h"

#define NAME(x) JOIN(x, SUFFIX)
#define RNAME(x) JOIN(x, REAL_SUFFIX)
/* hidden (FLAGS), so that the linker drops what a program does not call */
#define ENTRY(x) void NAME(calque_##x)

/* The matrices of one workgroup. */
#define FOR_GROUP(b) \
  for (int64_t b = batch * group / groups, b##_end = batch * (group + 1) / groups; b < b##_end; b++)

#if defined(__AVX512F__)
#define TILE_ROWS 8
#elif defined(__AVX__)
#define TILE_ROWS 6
#elif defined(__aarch64__)
#define TILE_ROWS 8
#else
#define TILE_ROWS 6
#endif

/* Elements from row to row of a matrix in workspace: whole vectors of any type, and not a power of
 * two, for the elements of a column would share the sets of the caches (measured: 5x in schur). */
#define WHOLE(n) (((n) + 15) / 16 * 16)
#define STRIDE(n) (WHOLE(n) + (WHOLE(n) % 64 == 0) * 16)

#define COMPLEX 0
#define R float
#define RINT int32_t
#define R_MIN FLT_MIN
#define R_MAX FLT_MAX
#define R_EPSILON (FLT_EPSILON / 2)
#define T float
#define SUFFIX f32
#define REAL_SUFFIX f32
#include "scalar.h"
#include FAMILY
#undef T
#undef SUFFIX
#undef COMPLEX

#define COMPLEX 1
#define T float _Complex
#define SUFFIX c64
#include "scalar.h"
#include FAMILY
#undef T
#undef SUFFIX
#undef COMPLEX
#undef R
#undef RINT
#undef R_MIN
#undef R_MAX
#undef R_EPSILON
#undef REAL_SUFFIX

#define COMPLEX 0
#define R double
#define RINT int64_t
#define R_MIN DBL_MIN
#define R_MAX DBL_MAX
#define R_EPSILON (DBL_EPSILON / 2)
#define T double
#define SUFFIX f64
#define REAL_SUFFIX f64
#include "scalar.h"
#include FAMILY
#undef T
#undef SUFFIX
#undef COMPLEX

#define COMPLEX 1
#define T double _Complex
#define SUFFIX c128
#include "scalar.h"
#include FAMILY
