/* geqrf, geqp3 and householder_product for f32, f64, c64, c128.  Conventions: README.md. */
#define FAMILY "orthogonal.inc.h"
#include "each.h"
