/* svd and svdvals for f32, f64, c64, c128.  Conventions: README.md. */
#define FAMILY "singular.inc.h"
#include "each.h"
