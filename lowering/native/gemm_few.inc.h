/* A matrix, whose rows lie in memory, times a few vectors (a template of gemm_tile.h): each of its rows
 * is read once, by four vectors at a time; two rows side by side share what is read of vectors, but for
 * matrices that no cache next to the core holds: these are read from the beginning to the end.
 */

/* The sum of a vector's elements, by halves as an adder tree would. */
INLINE R SUM(total)(V x) {
  R part[VL];
  UNROLL for (int i = 0; i < VL; i++) part[i] = x[i];
  UNROLL for (int half = VL / 2; half > 0; half /= 2)
    for (int i = 0; i < half; i++) part[i] += part[i + half];
  return part[0];
}

/* y[i * y_row + j * y_vector] = row i of a times vector j, of `wide` rows and `tall` vectors. */
INLINE void SUM(few_dots)(const int wide, const int tall, R *y, int64_t y_row, int64_t y_vector,
                          const R *a, int64_t a_row, const R *x, int64_t x_row, int64_t k) {
  V sum[FEW_WIDE][FEW_TALL][2] = {{{{0}}}};
  R rest[FEW_WIDE][FEW_TALL] = {{0}};
  const int chains = wide * tall > 4 ? 1 : 2;
  int64_t p = 0;
  for (; p + COLUMNS <= k; p += COLUMNS)
    UNROLL for (int c = 0; c < 2; c++) {
      V from[FEW_WIDE];
      __builtin_prefetch(a + ROWS * a_row + p + c * VL, 0, 2); /* of short rows nothing else does */
      UNROLL for (int i = 0; i < wide; i++) from[i] = *(const V *)(a + i * a_row + p + c * VL);
      UNROLL for (int j = 0; j < tall; j++) {
        V by = *(const V *)(x + j * x_row + p + c * VL);
        UNROLL for (int i = 0; i < wide; i++) sum[i][j][c % chains] += from[i] * by;
      }
    }
  for (; p + VL <= k; p += VL)
    UNROLL for (int j = 0; j < tall; j++) {
      V by = *(const V *)(x + j * x_row + p);
      UNROLL for (int i = 0; i < wide; i++) sum[i][j][0] += *(const V *)(a + i * a_row + p) * by;
    }
  for (; p < k; p++)
    UNROLL for (int j = 0; j < tall; j++) UNROLL for (int i = 0; i < wide; i++)
      rest[i][j] += a[i * a_row + p] * x[j * x_row + p];
  UNROLL for (int i = 0; i < wide; i++) UNROLL for (int j = 0; j < tall; j++)
    y[i * y_row + j * y_vector] = SUM(total)(sum[i][j][0] + sum[i][j][1]) + rest[i][j];
}

/* The same of all vectors. */
INLINE void SUM(few_rows)(const int wide, R *y, int64_t y_row, int64_t y_vector, const R *a,
                          int64_t a_row, const R *x, int64_t x_row, int64_t m, int64_t k) {
  int64_t j = 0;
  for (; j + FEW_TALL <= m; j += FEW_TALL)
    SUM(few_dots)(wide, FEW_TALL, y + j * y_vector, y_row, y_vector, a, a_row, x + j * x_row, x_row,
                  k);
  y += j * y_vector, x += j * x_row;
  switch (m - j) {
    case 3: SUM(few_dots)(wide, 3, y, y_row, y_vector, a, a_row, x, x_row, k); break;
    case 2: SUM(few_dots)(wide, 2, y, y_row, y_vector, a, a_row, x, x_row, k); break;
    case 1: SUM(few_dots)(wide, 1, y, y_row, y_vector, a, a_row, x, x_row, k);
  }
}

/* y = rows of a (batch, n, k) times vectors x (batch, m, k); each group takes its part of the rows, as
 * many at a time as floats lie in a line. */
void SUM(calque_few)(const R *a_base, int64_t a_at, const R *x_base, int64_t x_at, R *y_base,
                     int64_t y_at, int64_t batch, int64_t n, int64_t m, int64_t k, int64_t a_batch,
                     int64_t a_row, int64_t x_batch, int64_t x_row, int64_t y_row,
                     int64_t y_vector, int64_t group, int64_t groups) {
  int64_t unit = LINE / 4, units = parts(n, unit), every = batch * units;
  int64_t one = batch * n * k * (int64_t)sizeof(R) >= NEAR;
  for (int64_t at = every * group / groups; at < every * (group + 1) / groups; at++) {
    int64_t which = at / units, i = at % units * unit, end = smaller(n, i + unit);
    const R *a = a_base + a_at + which * a_batch, *x = x_base + x_at + which * x_batch;
    R *y = y_base + y_at + which * n * m;
    for (; !one && i + FEW_WIDE <= end; i += FEW_WIDE)
      SUM(few_rows)(FEW_WIDE, y + i * y_row, y_row, y_vector, a + i * a_row, a_row, x, x_row, m, k);
    for (; i < end; i++)
      SUM(few_rows)(1, y + i * y_row, y_row, y_vector, a + i * a_row, a_row, x, x_row, m, k);
  }
}
