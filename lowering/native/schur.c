/* gehrd, schur and geev for f32, f64, c64, c128.  Conventions: README.md. */
#define FAMILY "schur.inc.h"
#include "each.h"
