/* Products of packed panels whose elements are ELEMENT, in vectors of VECTOR, and whose sums R: ADDED(sum,
 * x, b) is a sum with x, a number of the former, times b (a template of gemm_tile.h and
 * gemm_pairs.inc.h, which see).  OF names it, TARGET is what it needs of the processor.
 */

/* `rows` rows of c, or of what is added to it, = a panel of a times a panel of b. */
TARGET INLINE void OF(tile)(const int rows, int64_t steps, const ELEMENT *restrict a,
                            const ELEMENT *restrict b, R *restrict c, int64_t ldc, int64_t add) {
  V sum[TILE_ROWS][2];
  UNROLL for (int i = 0; i < rows; i++) {
    sum[i][0] = sum[i][1] = (V){0};
    __builtin_prefetch(c + i * ldc, 1);
    __builtin_prefetch(c + i * ldc + COLUMNS - 1, 1);
  }
  for (int64_t s = 0; s < steps; s++) {
    STEPS for (int p = 0; p < STEP; p++) {
      VECTOR b0 = *(const VECTOR *)(b + p * COLUMNS), b1 = *(const VECTOR *)(b + p * COLUMNS + VL);
      UNROLL for (int i = 0; i < rows; i++) {
        ELEMENT x = a[i * STEP + p];
        sum[i][0] = ADDED(sum[i][0], x, b0);
        sum[i][1] = ADDED(sum[i][1], x, b1);
      }
    }
    a += rows * STEP;
    b += STEP * COLUMNS;
  }
  UNROLL for (int i = 0; i < rows; i++) {
    V *to = (V *)(c + i * ldc);
    if (add) sum[i][0] += to[0], sum[i][1] += to[1];
    to[0] = sum[i][0], to[1] = sum[i][1];
  }
}

#define TILE(n)                                \
  case n:                                      \
    OF(tile)(n, steps, a, b, to, apart, add);  \
    break;

TARGET ONCE void OF(tiles)(int64_t rows, int64_t steps, const ELEMENT *a, const ELEMENT *b, R *c,
                           int64_t ldc, int64_t columns, int64_t add) {
  R part[TILE_ROWS * 2 * VECTOR_BYTES / sizeof(R)], *to = c;
  int64_t apart = ldc;
  if (columns < COLUMNS) { /* what lies beyond c is left out */
    to = part, apart = COLUMNS;
    for (int64_t i = 0; i < rows && add; i++)
      for (int64_t j = 0; j < columns; j++) part[i * COLUMNS + j] = c[i * ldc + j];
  }
  switch (rows) { TILES_OF(TILE) }
  for (int64_t i = 0; i < rows && to == part; i++)
    for (int64_t j = 0; j < columns; j++) c[i * ldc + j] = part[i * COLUMNS + j];
}
#undef TILE
#undef OF
#undef ELEMENT
#undef VECTOR
#undef ADDED
#undef TARGET
