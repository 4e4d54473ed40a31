/* Transposition of the last axis of an array with another one, in blocks that are turned round in registers:
 * whole lines of the cache are read, and whole lines are written.
 */
#include <stddef.h>

#include "macros.h"

#define T uint8_t
#define SUFFIX 8
#define LANES 16
#define TILE 32
#define LOW(a, b) MIX(V, a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH(a, b) MIX(V, a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#include "transpose.inc.h"

#define T uint16_t
#define SUFFIX 16
#define LANES 8
#define TILE 32
#define LOW(a, b) MIX(V, a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH(a, b) MIX(V, a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#include "transpose.inc.h"

#define T uint32_t
#define SUFFIX 32
#define LANES 4
#define TILE 16
#define LOW(a, b) MIX(V, a, b, 0, 4, 1, 5)
#define HIGH(a, b) MIX(V, a, b, 2, 6, 3, 7)
#include "transpose.inc.h"

#define T uint64_t
#define SUFFIX 64
#define LANES 2
#define TILE 8
#define LOW(a, b) MIX(V, a, b, 0, 2)
#define HIGH(a, b) MIX(V, a, b, 1, 3)
#include "transpose.inc.h"
