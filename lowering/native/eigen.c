/* eigh, eigvalsh, sytrd and gtsv for f32, f64, c64, c128.  Conventions: README.md. */
#define FAMILY "eigen.inc.h"
#include "each.h"
