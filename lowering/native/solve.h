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

/* One right side: x (n) becomes op(a)^-1 x.  Rows or columns of a are contiguous. */

/* x[r] -= sum over s < count of op(a)(r, s) done[s], for `rows` rows. */
INLINE void NAME(less_rows)(const int rows, VIEW a, T *x, const T *done, int64_t count) {
  enum { CHUNK = 128 };
#if COMPLEX
  T swapped[CHUNK]; /* (im, re) */
#endif
  R totals[4][2 * PARTS];
  for (int r = 0; r < rows; r++)
    for (int p = 0; p < 2 * PARTS; p++) totals[r][p] = 0;
  for (int64_t at = 0; at < count; at += CHUNK) {
    int64_t length = smaller(CHUNK, count - at), whole = length * PARTS / VL;
#if COMPLEX
    for (int64_t s = 0; s < length; s++)
      swapped[s] = NAME(make)(IM(done[at + s]), RE(done[at + s]));
#endif
    V sums[4][PARTS];
    for (int r = 0; r < rows; r++)
      for (int p = 0; p < PARTS; p++) sums[r][p] = (V){0};
    for (int64_t s = 0; s < whole; s++) {
      V x0 = ((const V *)(done + at))[s];
#if COMPLEX
      V x1 = ((const V *)swapped)[s];
#endif
      UNROLL for (int r = 0; r < rows; r++) {
        V value = ((const V *)(a.at + r * a.row + at))[s];
        sums[r][0] += value * x0;
#if COMPLEX
        sums[r][1] += value * x1;
#endif
      }
    }
    for (int r = 0; r < rows; r++) {
      for (int64_t lane = 0; lane < VL; lane++)
        for (int p = 0; p < PARTS; p++) totals[r][p + PARTS * (lane % PARTS)] += sums[r][p][lane];
      for (int64_t s = whole * VL / PARTS; s < length; s++) {
        T value = a.at[r * a.row + at + s], x0 = done[at + s];
        totals[r][0] += RE(value) * RE(x0);
#if COMPLEX
        totals[r][1] += RE(value) * IM(x0);
        totals[r][2] += IM(value) * IM(x0);
        totals[r][3] += IM(value) * RE(x0);
#endif
      }
    }
  }
  for (int r = 0; r < rows; r++) {
#if COMPLEX
    R sign = a.conj ? -1 : 1;
    x[r] -= NAME(make)(totals[r][0] - sign * totals[r][2], totals[r][1] + sign * totals[r][3]);
#else
    x[r] -= totals[r][0];
#endif
  }
}

/* x[s] -= sum over k < count of op(a)(s, k) done[k], s < n, where columns of a are contiguous. */
static UNUSED void NAME(less_columns)(VIEW a, T *x, int64_t n, const T *done, int64_t count) {
  int64_t whole = n * PARTS / VL;
  for (int64_t s = 0; s < whole; s++) {
    V sums[PARTS];
    for (int p = 0; p < PARTS; p++) sums[p] = (V){0};
    for (int64_t k = 0; k < count; k++) {
      V value = ((const V *)(a.at + k * a.column))[s];
      sums[0] += RE(done[k]) * value;
#if COMPLEX
      sums[1] += IM(done[k]) * value;
#endif
    }
#if COMPLEX
    R sign = a.conj ? -1 : 1;
    T *to = x + s * VL / 2;
    for (int64_t lane = 0; lane < VL; lane += 2)
      to[lane / 2] -= NAME(make)(sums[0][lane] - sign * sums[1][lane + 1],
                                 sign * sums[0][lane + 1] + sums[1][lane]);
#else
    ((V *)x)[s] -= sums[0];
#endif
  }
  for (int64_t s = whole * VL / PARTS; s < n; s++)
    for (int64_t k = 0; k < count; k++) {
      T value = a.at[s + k * a.column];
      x[s] -= (a.conj ? NAME(conjugate)(value) : value) * done[k];
    }
}

ONCE void NAME(solve_column)(VIEW a, T *x, int64_t n, bool lower, bool unit) {
  for (int64_t step = 0; step < n; step += BASE) {
    int64_t count = smaller(BASE, n - step), at = lower ? step : n - step - count;
    if (a.column == 1) {
      VIEW known = NAME(part)(a, at, lower ? 0 : at + count);
      const T *done = x + (lower ? 0 : at + count);
      int64_t i = 0;
      for (; i + 4 <= count; i += 4)
        NAME(less_rows)(4, NAME(part)(known, i, 0), x + at + i, done, step);
      for (; i < count; i++) NAME(less_rows)(1, NAME(part)(known, i, 0), x + at + i, done, step);
    }
    for (int64_t i = 0; i < count; i++) {
      int64_t k = lower ? at + i : at + count - 1 - i, end = lower ? at + count : k;
      T pivot = a.at[k * (a.row + a.column)];
      if (!unit) x[k] = NAME(divide)(x[k], a.conj ? NAME(conjugate)(pivot) : pivot);
      for (int64_t r = lower ? k + 1 : at; r < end; r++) {
        T value = a.at[r * a.row + k * a.column];
        x[r] -= (a.conj ? NAME(conjugate)(value) : value) * x[k];
      }
    }
    if (a.column != 1) {
      int64_t rest = lower ? at + count : 0;
      NAME(less_columns)(NAME(part)(a, rest, at), x + rest, n - step - count, x + at, count);
    }
  }
}

/* x(i, j) at x[i * row + j * column], n x m, becomes op(a)^-1 x; `lower` says that op(a) is lower
 * triangular.  row or column is 1. */
ONCE void NAME(solve)(VIEW a, T *x, int64_t row, int64_t column, int64_t n, int64_t m, bool lower,
                      bool unit) {
  if (m == 1 && row == 1) {
    NAME(solve_column)(a, x, n, lower, unit);
    return;
  }
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
