/* What sources of products share (gemm.c, gemm_int.c): tiles, blocks, parts, places, and names by type.
 */
#ifndef GEMM_H
#define GEMM_H

#include <stddef.h>
#include <stdint.h>

#include "macros.h"

/* The tile, TILE_ROWS x 2 vectors: sums, one row of b and an element of a fill the registers. */
#if defined(__AVX512F__)
#define TILE_ROWS 14
#elif defined(__AVX__)
#define TILE_ROWS 6
#elif defined(__aarch64__)
#define TILE_ROWS 12
#else
#define TILE_ROWS 6
#define STEPS _Pragma("GCC unroll 1") /* GCC moves multiplications of several steps, and spills */
#endif
#ifndef STEPS
#define STEPS UNROLL
#endif

enum {
  STEP = 4,    /* elements of a row of a that lie side by side when packed */
  DEPTH = 256, /* most products of a block: a panel of b is at most half of a first level cache */
  TALL = 168,  /* most rows of a block: with DEPTH a fraction of a second level cache */
  LINE = 64,   /* bytes of a cache's line */
  ROWS = 4,    /* rows that are multiplied by a vector at once, or */
  RUN = 8,     /* that are added up at once (gemv.inc.h), */
  FEW_TALL = 4, FEW_WIDE = 2, /* vectors, rows of a matrix that are multiplied at once (gemm_few) */
  SUMS = 8192, /* bytes of sums that stay in a first level cache */
  RUNS = 4,    /* of places side by side that a vector of what windows see is put together of */
  VECTORS = 32, /* of places in a cell */
  SHIFTED = 1, ADDED_TO = 2, RECTIFIED = 4, /* EPILOGUE: what is done to sums, in this order, */
  AS_IT_LIES = 8, /* and what is not packed */
  ROWS_AT_ONCE = 128, /* whose places are found then */
  SHORT = 4096,  /* bytes of a row and */
  NEAR = 1 << 18 /* of a matrix: shorter ones of larger ones go one by one */
};

/* Where part i of n rows begins, `count` parts that differ by one at most. */
INLINE int64_t start_of(int64_t n, int64_t count, int64_t i) {
  return n / count * i + smaller(n % count, i);
}
INLINE int64_t whole(int64_t n, int64_t unit) { return parts(n, unit) * unit; }

/* Runs of memory, `apart` from each other, that come to the second level cache line by line, `ration`
 * lines at a time. */
typedef struct {
  const char *at;
  int64_t length, apart, ration, position;
} AHEAD;

INLINE void fetch(AHEAD *x) {
  for (int64_t i = 0; i < x->ration; i++) {
    __builtin_prefetch(x->at + x->position, 0, 2);
    x->position += LINE;
    if (x->position >= x->length) x->position = 0, x->at += x->apart;
  }
}

/* Nested axes, the last the innermost: how many steps, and how far apart they are. */
enum { AXES = 4 };
typedef struct {
  int64_t size[AXES], apart[AXES];
} NEST;

/* What windows see, as an operand of a product: where its elements lie along both of its axes. */
typedef struct {
  NEST deep, across;
} WINDOWS;

/* Where n elements of a nest lie, from one on. */
ONCE void places(int64_t *restrict to, const NEST *x, int64_t first, int64_t n) {
  int64_t at[AXES];
  for (int d = AXES - 1; d > 0; first /= x->size[d], d--) at[d] = first % x->size[d];
  at[0] = first;
  for (int64_t i = 0; i < n; i++) {
    int d = AXES - 1;
    to[i] = 0;
    UNROLL for (int e = 0; e < AXES; e++) to[i] += at[e] * x->apart[e];
    for (at[d]++; d > 0 && at[d] == x->size[d]; at[d]++) at[d--] = 0;
  }
}

/* Whether n places are side by side. */
INLINE int adjacent(const int64_t *x, int64_t n) {
  int every = 1;
  for (int64_t i = 1; i < n; i++) every &= x[i] == x[0] + i;
  return every;
}

#define IN(x) JOIN(x, SUFFIX)
#define EXTEND(x, H, U) __builtin_convertvector(x, U)
#define SUM(x) JOIN(x, SUM_SUFFIX)

#endif
