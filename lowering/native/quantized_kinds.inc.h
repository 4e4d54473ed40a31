/* quantized_int8.inc.h for each kind of blocks, of one way to multiply bytes (quantized.c). */
#define SUFFIX q8_0
#define BYTES 34
#define GROUPS 1
#define OFFSETS 0
#define INTEGERS(block, i) SIGNED_BYTES((block) + 2)
#define IS_SIGNED SIGNED
#define ZERO RAISED
#include "quantized_int8.inc.h"

#define SUFFIX q4_0
#define BYTES 18
#define GROUPS 1
#define OFFSETS 0
#define INTEGERS(block, i) halves32((block) + 2)
#define ZERO 8
#define PACKED IN_FOURS(2)
#include "quantized_int8.inc.h"

#define SUFFIX q4_1
#define BYTES 20
#define GROUPS 1
#define OFFSETS 1
#define INTEGERS(block, i) halves32((block) + 4)
#define PACKED IN_FOURS(4)
#include "quantized_int8.inc.h"

#define SUFFIX q4_k
#define BYTES 144
#define GROUPS 8
#define OFFSETS 1
#define INTEGERS(block, i) half32((block) + 16 + (i) / 2 * 32, (i) % 2)
#include "quantized_int8.inc.h"

#undef TARGET
#undef VARIANT
#undef MULTIPLIED
#undef SIGNED_BYTES
#undef SIGNED
#undef RAISED
#undef IN_FOURS
