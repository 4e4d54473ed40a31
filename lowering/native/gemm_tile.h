/* What multiplies packed panels of R, float or double (a template of gemm.c, which see).
 *
 * A panel of a, `rows` of them, holds STEP elements of one row, then of the next; a panel of b rows of
 * two vectors.  Both are filled up with zeros to whole steps and whole vectors.
 */
#define VL ((int64_t)(VECTOR_BYTES / sizeof(R)))
#define COLUMNS (2 * VL)
#define V SUM(vec)
typedef R V __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(R)), may_alias));
#define QUAD SUM(quad) /* STEP numbers */
typedef R QUAD __attribute__((vector_size(STEP * sizeof(R)), aligned(sizeof(R)), may_alias));
typedef RBITS SUM(order) __attribute__((vector_size(STEP * sizeof(R))));

/* `rows` rows of c, or of what is added to it, = a panel of a times a panel of b. */
INLINE void SUM(tile)(const int rows, int64_t steps, const R *restrict a, const R *restrict b,
                      R *restrict c, int64_t ldc, int64_t add) {
  V sum[TILE_ROWS][2];
  UNROLL for (int i = 0; i < rows; i++) {
    sum[i][0] = sum[i][1] = (V){0};
    __builtin_prefetch(c + i * ldc, 1);
    __builtin_prefetch(c + i * ldc + COLUMNS - 1, 1);
  }
  for (int64_t s = 0; s < steps; s++) {
    STEPS for (int p = 0; p < STEP; p++) {
      V b0 = *(const V *)(b + p * COLUMNS), b1 = *(const V *)(b + p * COLUMNS + VL);
      UNROLL for (int i = 0; i < rows; i++) {
        R x = a[i * STEP + p];
        sum[i][0] += x * b0;
        sum[i][1] += x * b1;
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

/* TILE_ROWS rows of c, or of what is added to it, = a, read as it lies, times a panel of b: a's
 * elements of a row lie side by side (`along`), or those of a column; `apart` are its rows, or its
 * columns. */
INLINE void SUM(tile_in_place)(const int along, int64_t depth, const R *restrict a, int64_t apart,
                               const R *restrict b, R *restrict c, int64_t ldc, int64_t add) {
  V sum[TILE_ROWS][2];
  UNROLL for (int i = 0; i < TILE_ROWS; i++) {
    sum[i][0] = sum[i][1] = (V){0};
    __builtin_prefetch(c + i * ldc, 1);
    __builtin_prefetch(c + i * ldc + COLUMNS - 1, 1);
  }
  const R *row[(TILE_ROWS + 2) / 3]; /* of every third row: a register each */
  UNROLL for (int i = 0; i < TILE_ROWS; i += 3) row[i / 3] = a + i * apart;
  int64_t p = 0;
  for (; along && p + STEP <= depth; p += STEP) {
    STEPS for (int q = 0; q < STEP; q++) {
      V b0 = *(const V *)(b + q * COLUMNS), b1 = *(const V *)(b + q * COLUMNS + VL);
      UNROLL for (int i = 0; i < TILE_ROWS; i++) {
        R x = row[i / 3][i % 3 * apart + q];
        sum[i][0] += x * b0;
        sum[i][1] += x * b1;
      }
    }
    UNROLL for (int i = 0; i < TILE_ROWS; i += 3) row[i / 3] += STEP;
    b += STEP * COLUMNS;
  }
  for (; p < depth; p++) {
    V b0 = *(const V *)b, b1 = *(const V *)(b + VL);
    UNROLL for (int i = 0; i < TILE_ROWS; i++) {
      R x = along ? a[i * apart + p] : a[p * apart + i];
      sum[i][0] += x * b0;
      sum[i][1] += x * b1;
    }
    b += COLUMNS;
  }
  UNROLL for (int i = 0; i < TILE_ROWS; i++) {
    V *to = (V *)(c + i * ldc);
    if (add) sum[i][0] += to[0], sum[i][1] += to[1];
    to[0] = sum[i][0], to[1] = sum[i][1];
  }
}

#define TILE(n)                                     \
  case n:                                           \
    SUM(tile)(n, steps, a, b, to, apart, add);      \
    break;

ONCE void SUM(tiles)(int64_t rows, int64_t steps, const R *a, const R *b, R *c, int64_t ldc,
                     int64_t columns, int64_t add) {
  R part[TILE_ROWS * 2 * VECTOR_BYTES / sizeof(R)], *to = c;
  int64_t apart = ldc;
  if (columns < COLUMNS) { /* what lies beyond c is left out */
    to = part, apart = COLUMNS;
    for (int64_t i = 0; i < rows && add; i++)
      for (int64_t j = 0; j < columns; j++) part[i * COLUMNS + j] = c[i * ldc + j];
  }
  switch (rows) {
    TILE(1)
    TILE(2)
    TILE(3)
    TILE(4)
    TILE(5)
    TILE(6)
#if TILE_ROWS > 6
    TILE(7)
    TILE(8)
    TILE(9)
    TILE(10)
    TILE(11)
    TILE(12)
#endif
#if TILE_ROWS > 12
    TILE(13)
    TILE(14)
#endif
  }
  for (int64_t i = 0; i < rows && to == part; i++)
    for (int64_t j = 0; j < columns; j++) c[i * ldc + j] = part[i * COLUMNS + j];
}
#undef TILE

/* Whole tiles of rows of c (or of what is added to it) = rows of a, read as they lie, times a panel of
 * b; how many rows. */
ONCE int64_t SUM(in_place)(int64_t rows, int64_t depth, const R *a, int64_t a_row, int64_t a_column,
                           const R *b, R *c, int64_t ldc, int64_t add) {
  int64_t i = 0;
  for (; i + TILE_ROWS <= rows; i += TILE_ROWS)
    if (a_column == 1)
      SUM(tile_in_place)(1, depth, a + i * a_row, a_row, b, c + i * ldc, ldc, add);
    else
      SUM(tile_in_place)(0, depth, a + i, a_column, b, c + i * ldc, ldc, add);
  return i;
}

/* Four rows of four to columns. */
INLINE void SUM(turn)(QUAD *x) {
  QUAD p = MIX(SUM(order), x[0], x[2], 0, 4, 1, 5), q = MIX(SUM(order), x[0], x[2], 2, 6, 3, 7);
  QUAD r = MIX(SUM(order), x[1], x[3], 0, 4, 1, 5), s = MIX(SUM(order), x[1], x[3], 2, 6, 3, 7);
  x[0] = MIX(SUM(order), p, r, 0, 4, 1, 5), x[1] = MIX(SUM(order), p, r, 2, 6, 3, 7);
  x[2] = MIX(SUM(order), q, s, 0, 4, 1, 5), x[3] = MIX(SUM(order), q, s, 2, 6, 3, 7);
}
