/* A sparse matrix in coordinates times a dense one: rows of the dense one are gathered, multiplied by a
 * number each, and added to rows of the result.  Nothing of the size of all the gathered rows is
 * written to memory.
 */
#include <stddef.h>

#include "macros.h"

#define T float
#define SUFFIX f32
#include "spmm.inc.h"
#undef T
#undef SUFFIX
#undef NAME
#undef VL
#undef V

#define T double
#define SUFFIX f64
#include "spmm.inc.h"
