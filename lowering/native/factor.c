/* cholesky, lu and triangular_solve for f32, f64, c64, c128.  Conventions: README.md. */
#define FAMILY "factor.inc.h"
#include "each.h"
