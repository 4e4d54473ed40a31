/* Matrices of T times vectors of R (a template of gemm.c, which see): each row of memory is read once,
 * from its beginning to its end. */

/* y[i] = sum of a[i * apart + p] x[p] over p < k, of `rows` rows at once. */
INLINE void IN(dots)(const int rows, R *restrict y, const T *restrict a, int64_t apart,
                     const R *restrict x, int64_t k) {
  V sum[ROWS][2] = {{{0}}};
  QUAD rest[ROWS] = {{0}};
  int64_t p = 0;
  for (; p + COLUMNS <= k; p += COLUMNS) {
    V first = *(const V *)(x + p), second = *(const V *)(x + p + VL);
    UNROLL for (int i = 0; i < rows; i++) {
      __builtin_prefetch(a + (i + ROWS) * apart + p, 0, 2); /* of short rows nothing else does */
      sum[i][0] += IN(load)(a + i * apart + p) * first;
      sum[i][1] += IN(load)(a + i * apart + p + VL) * second;
    }
  }
  if (p + VL <= k) {
    V first = *(const V *)(x + p);
    UNROLL for (int i = 0; i < rows; i++) sum[i][0] += IN(load)(a + i * apart + p) * first;
    p += VL;
  }
  for (; p + STEP <= k; p += STEP) {
    QUAD by = *(const QUAD *)(x + p);
    UNROLL for (int i = 0; i < rows; i++) rest[i] += IN(load_four)(a + i * apart + p) * by;
  }
  if (p < k) {
    QUAD by = {0};
    for (int64_t q = 0; q < k - p; q++) by[q] = x[p + q];
    UNROLL for (int i = 0; i < rows; i++) rest[i] += IN(load_few)(a + i * apart + p, 1, k - p) * by;
  }
  UNROLL for (int i = 0; i < rows; i++)
    y[i] = SUM(total)(sum[i][0] + sum[i][1]) +
           ((rest[i][0] + rest[i][2]) + (rest[i][1] + rest[i][3]));
}

/* y[j] += sum of x[p] a[p * apart + j] over p < steps, of `columns` columns; y[j] = it where !add.
 * What lies `ahead` is fetched meanwhile. */
INLINE void IN(adds)(const int steps, R *restrict y, const T *restrict a, int64_t apart,
                     const R *restrict x, int64_t columns, int64_t add, int64_t ahead) {
  int64_t j = 0;
  for (; j + VL <= columns; j += VL) {
    V *to = (V *)(y + j), sum = {0}, other = {0};
    if (add) sum = *to;
    UNROLL for (int p = 0; p < steps; p++) __builtin_prefetch(a + p * apart + j + ahead, 0, 2);
    UNROLL for (int p = 0; p + 1 < steps; p += 2) {
      sum += x[p] * IN(load)(a + p * apart + j);
      other += x[p + 1] * IN(load)(a + (p + 1) * apart + j);
    }
    if (steps % 2) sum += x[steps - 1] * IN(load)(a + (steps - 1) * apart + j);
    *to = sum + other;
  }
  for (; j + STEP <= columns; j += STEP) {
    QUAD sum = {0}, *to = (QUAD *)(y + j);
    if (add) sum = *to;
    UNROLL for (int p = 0; p < steps; p++) sum += x[p] * IN(load_four)(a + p * apart + j);
    *to = sum;
  }
  if (j < columns) {
    int64_t there = smaller(columns - j, STEP);
    QUAD sum = {0};
    if (add)
      for (int64_t i = 0; i < there; i++) sum[i] = y[j + i];
    UNROLL for (int p = 0; p < steps; p++) sum += x[p] * IN(load_few)(a + p * apart + j, 1, there);
    for (int64_t i = 0; i < there; i++) y[j + i] = sum[i];
  }
}

/* Rows of y from where it begins, of a matrix whose rows lie in memory (a_column is 1); `one` at a time:
 * then a matrix is read from its beginning to its end. */
ONCE void IN(along)(R *restrict y, const T *restrict a, int64_t apart, const R *restrict x,
                    int64_t rows, int64_t k, int64_t one) {
  int64_t i = 0;
  if (!one)
    for (; i + ROWS <= rows; i += ROWS) IN(dots)(ROWS, y + i, a + i * apart, apart, x, k);
  for (; i < rows; i++) IN(dots)(1, y + i, a + i * apart, apart, x, k);
}

/* The same of one whose columns do (a_row is 1): strips of y stay in a first level cache. */
ONCE void IN(down)(R *restrict y, const T *restrict a, int64_t apart, const R *restrict x,
                   int64_t rows, int64_t k) {
  for (int64_t j = 0; j < rows; j += SUMS / (int64_t)sizeof(R)) {
    int64_t columns = smaller(rows - j, SUMS / (int64_t)sizeof(R));
    for (int64_t p = 0; p < k; p += RUN) {
      const T *from = a + p * apart + j;
      if (p + RUN <= k)
        IN(adds)(RUN, y + j, from, apart, x + p, columns, p, p + 2 * RUN <= k ? RUN * apart : 0);
      else
        for (int64_t q = 0; q < k - p; q++)
          IN(adds)(1, y + j, from + q * apart, apart, x + p + q, columns, p + q, 0);
    }
  }
}

/* y (batch, n) = a x, of a (batch, n, k) whose elements lie a_row and a_column apart, one of them 1,
 * and dense vectors x; each group takes its part of the rows, whole lines of y.  Short rows of what no
 * cache next to the core holds go one after another (15000 x 150 of f32: 17 for 9 GB/s a core). */
void IN(calque_gemv)(const T *a_base, int64_t a_at, const R *x_base, int64_t x_at, R *y_base,
                     int64_t y_at, int64_t batch, int64_t n, int64_t k, int64_t a_batch,
                     int64_t a_row, int64_t a_column, int64_t x_batch, int64_t group,
                     int64_t groups) {
  int64_t unit = LINE / (int64_t)sizeof(R), units = parts(n, unit), every = batch * units;
  int64_t row = k * (int64_t)sizeof(T), one = row < SHORT && batch * n * row >= NEAR;
  for (int64_t at = every * group / groups, end = every * (group + 1) / groups; at < end;) {
    int64_t which = at / units, first = at % units * unit;
    int64_t last = smaller(units, at % units + end - at), rows = smaller(n, last * unit) - first;
    const T *a = a_base + a_at + which * a_batch + first * a_row;
    const R *x = x_base + x_at + which * x_batch;
    R *y = y_base + y_at + which * n + first;
    if (a_column == 1)
      IN(along)(y, a, a_row, x, rows, k, one);
    else
      IN(down)(y, a, a_column, x, rows, k);
    at += last - at % units;
  }
}

#undef T
#undef BITS
#undef SUFFIX
#undef WIDEN
#undef LOAD
#undef LOAD_FOUR
