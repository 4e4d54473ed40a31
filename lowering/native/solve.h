/* Triangular systems by halves (a template, see each.h; needs multiply.h). */
#ifndef BASE
#define BASE 16 /* rows of the systems that are solved by substitution */
#endif

/* TILE_COLUMNS right sides at a time: x (n <= BASE, at most `columns`) becomes op(a)^-1 x.  Columns
 * lie side by side in `lanes`, so right sides of either orientation take the same road. */
ONCE void NAME(substitute)(VIEW a, T *x, int64_t row, int64_t column, int64_t n, int64_t columns,
                           bool lower, bool unit, const T *inverse, bool exact) {
  V lanes[BASE][2] __attribute__((aligned(64)));
  const int64_t width = TILE_COLUMNS;
  for (int64_t i = 0; i < n; i++) {
    R *to = (R *)lanes[i];
    for (int64_t j = 0; j < width; j++) {
      T value = j < columns ? x[i * row + j * column] : (T)0;
      to[j] = RE(value);
      if (COMPLEX) to[width + j] = IM(value);
    }
  }
  for (int64_t step = 0; step < n; step++) {
    int64_t k = lower ? step : n - 1 - step;
    if (!unit && exact)
      for (int64_t j = 0; j < columns; j++) {
        R *at = (R *)lanes[k] + j;
        T value = NAME(divide)(NAME(make)(at[0], COMPLEX ? at[width] : 0), inverse[k]);
        at[0] = RE(value);
        if (COMPLEX) at[width] = IM(value);
      }
    V x0 = lanes[k][0], x1 = lanes[k][1];
    if (!unit && !exact) {
#if COMPLEX
      V real = x0 * RE(inverse[k]) - x1 * IM(inverse[k]);
      x1 = x0 * IM(inverse[k]) + x1 * RE(inverse[k]);
      x0 = real;
#else
      x0 *= inverse[k];
      x1 *= inverse[k];
#endif
      lanes[k][0] = x0;
      lanes[k][1] = x1;
    }
    int64_t from = lower ? k + 1 : 0, to = lower ? n : k;
    for (int64_t i = from; i < to; i++) {
      T factor = a.at[i * a.row + k * a.column];
#if COMPLEX
      R imaginary = a.conj ? -IM(factor) : IM(factor);
      lanes[i][0] -= RE(factor) * x0 - imaginary * x1;
      lanes[i][1] -= RE(factor) * x1 + imaginary * x0;
#else
      lanes[i][0] -= factor * x0;
      lanes[i][1] -= factor * x1;
#endif
    }
  }
  for (int64_t i = 0; i < n; i++) {
    const R *from = (const R *)lanes[i];
    for (int64_t j = 0; j < columns; j++)
      x[i * row + j * column] = NAME(make)(from[j], COMPLEX ? from[width + j] : 0);
  }
}

/* x(i, j) at x[i * row + j * column], n x m, becomes op(a)^-1 x; `lower` says that op(a) is lower
 * triangular.  row or column is 1. */
ONCE void NAME(solve)(VIEW a, T *x, int64_t row, int64_t column, int64_t n, int64_t m, bool lower,
                      bool unit) {
  if (n <= BASE) {
    T inverse[BASE];
    bool exact = false;
    for (int64_t i = 0; !unit && i < n; i++) {
      T pivot = a.at[i * (a.row + a.column)];
      inverse[i] = a.conj ? NAME(conjugate)(pivot) : pivot;
      exact = exact || !NAME(has_inverse)(pivot);
    }
    for (int64_t i = 0; !unit && !exact && i < n; i++) inverse[i] = NAME(divide)(1, inverse[i]);
    for (int64_t j = 0; j < m; j += TILE_COLUMNS)
      NAME(substitute)(a, x + j * column, row, column, n, smaller(TILE_COLUMNS, m - j), lower, unit,
                       inverse, exact);
    return;
  }
  int64_t half = (n / 2 + BASE - 1) / BASE * BASE;
  int64_t known = lower ? 0 : half, open = lower ? half : 0;
  int64_t first = lower ? half : n - half, rest = n - first;
  NAME(solve)(NAME(part)(a, known, known), x + known * row, row, column, first, m, lower, unit);
  VIEW off = NAME(part)(a, open, known);
  VIEW done = {x + known * row, row, column, false};
  if (column == 1)
    NAME(multiply)(x + open * row, row, off, done, rest, m, first, -1, false);
  else
    NAME(multiply)(x + open * row, column, NAME(transposed)(done), NAME(transposed)(off), m, rest,
                   first, -1, false);
  NAME(solve)(NAME(part)(a, open, open), x + open * row, row, column, rest, m, lower, unit);
}
