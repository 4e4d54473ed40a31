/* The factorizations without orthogonal matrices (a template, see each.h): recursive, after
 * Gustavson, "Recursion leads to automatic variable blocking" (1997).
 */
#include "multiply.h"
#include "solve.h"
#include "lanes.h"

/* ---- cholesky */

/* The factor of l's lower triangle (n <= BASE) in its place; false if it is not positive definite.
 * Held transposed, so that a column of the factor is a row of fixed length. */
static bool NAME(cholesky_base)(T *l, int64_t ld, int64_t n) {
  T columns[BASE][BASE];
  for (int64_t j = 0; j < n; j++)
    for (int64_t i = 0; i < BASE; i++) columns[j][i] = i >= j && i < n ? l[i * ld + j] : (T)0;
  for (int64_t j = 0; j < n; j++) {
    R pivot = RE(columns[j][j]);
    if (!(pivot > 0)) return false;
    R root = RNAME(root)(pivot), inverse = 1 / root;
    for (int64_t i = 0; i < BASE; i++) columns[j][i] = NAME(scale)(columns[j][i], inverse);
    columns[j][j] = root;
    for (int64_t k = j + 1; k < n; k++) {
      T factor = NAME(conjugate)(columns[j][k]);
      for (int64_t i = 0; i < BASE; i++) columns[k][i] -= factor * columns[j][i];
    }
  }
  for (int64_t j = 0; j < n; j++)
    for (int64_t i = j; i < n; i++) l[i * ld + j] = columns[j][i];
  return true;
}

static bool NAME(cholesky)(T *l, int64_t ld, int64_t n) {
  if (n <= BASE) return NAME(cholesky_base)(l, ld, n);
  int64_t half = (n / 2 + BASE - 1) / BASE * BASE;
  if (!NAME(cholesky)(l, ld, half)) return false;
  T *below = l + half * ld, *rest = below + half;
  VIEW top = NAME(view_of)(l, ld), side = NAME(view_of)(below, ld);
  /* below top^-H, transposed: conj(top) x^T = below^T */
  top.conj = COMPLEX;
  NAME(solve)(top, below, 1, ld, half, n - half, true, false);
  NAME(multiply)(rest, ld, side, NAME(adjoint)(side), n - half, n - half, half, -1, true);
  return NAME(cholesky)(rest, ld, n - half);
}

ENTRY(cholesky)(const T *a, int64_t a_at, T *l, int64_t l_at, int64_t batch, int64_t n,
                int64_t group, int64_t groups) {
  FOR_GROUP(b) {
    const T *from = a + a_at + b * n * n;
    T *to = l + l_at + b * n * n;
    for (int64_t i = 0; i < n; i++) NAME(copy)(to + i * n, from + i * n, i + 1);
    bool definite = NAME(cholesky)(to, n, n);
    for (int64_t i = 0; i < n; i++) {
      if (!definite) NAME(fill)(to + i * n, i + 1, NAME(make)(RNAME(nan)(), RNAME(nan)()));
      NAME(fill)(to + i * n + i + 1, n - i - 1, 0);
    }
  }
}

/* ---- lu */
/* Of a panel's rows: row -= multiplier * first row, right of column j; the multiplier in column j.
 */
static void NAME(eliminate)(T *a, int64_t ld, int64_t m, int64_t j, T pivot, bool divided) {
  MASK after = NAME(columns)(j + 1, PANEL), at = NAME(columns)(j, j + 1);
  ROW top = *(ROW *)a, top_turned = NAME(turned)(top);
  T inverse = divided ? (T)1 : NAME(divide)(1, pivot);
  for (int64_t i = 1; i < m; i++) {
    ROW *row = (ROW *)(a + i * ld);
    T x = a[i * ld + j];
    x = divided ? NAME(divide)(x, pivot) : x * inverse;
    ROW next = *row - NAME(only)(NAME(times)(x, top, top_turned), after);
    *row = NAME(either)(at, NAME(everywhere)(x), next);
  }
}

static void NAME(swap_rows)(T *a, int64_t ld, int64_t i, int64_t j, int64_t count) {
  if (i == j) return;
  T *restrict x = a + i * ld, *restrict y = a + j * ld;
  for (int64_t c = 0; c < count; c++) {
    T held = x[c];
    x[c] = y[c];
    y[c] = held;
  }
}

/* LAPACK's getf2 of a (m x n, n <= PANEL and n <= m): pivots are rows of a. */
static void NAME(lu_panel)(T *a, int64_t ld, int64_t m, int64_t n, int32_t *pivots) {
  for (int64_t j = 0; j < n; j++) {
    int64_t best = j;
    R most = NAME(size)(a[j * ld + j]);
    for (int64_t i = j + 1; i < m; i++) {
      R size = NAME(size)(a[i * ld + j]);
      if (size > most) most = size, best = i;
    }
    pivots[j] = (int32_t)best;
    NAME(swap_rows)(a, ld, j, best, n);
    T *top = a + j * ld, pivot = top[j];
    bool zero = RE(pivot) == 0 && IM(pivot) == 0;
    bool divided = zero || !NAME(has_inverse)(pivot);
    if (zero) pivot = 1;
    if (n == PANEL) {
      NAME(eliminate)(top, ld, m - j, j, pivot, divided);
      continue;
    }
    T inverse = divided ? (T)1 : NAME(divide)(1, pivot);
    for (int64_t i = j + 1; i < m; i++) {
      T *row = a + i * ld;
      T x = row[j] = divided ? NAME(divide)(row[j], pivot) : row[j] * inverse;
      for (int64_t c = j + 1; c < n; c++) row[c] -= x * top[c];
    }
  }
}

/* The same for n <= m by halves of the columns. */
static void NAME(lu)(T *a, int64_t ld, int64_t m, int64_t n, int32_t *pivots) {
  if (n <= PANEL) {
    NAME(lu_panel)(a, ld, m, n, pivots);
    return;
  }
  int64_t half = (n / 2 + PANEL - 1) / PANEL * PANEL, rest = n - half;
  NAME(lu)(a, ld, m, half, pivots);
  T *right = a + half, *below = a + half * ld, *corner = below + half;
  for (int64_t i = 0; i < half; i++) NAME(swap_rows)(right, ld, i, pivots[i], rest);
  NAME(solve)(NAME(view_of)(a, ld), right, ld, 1, half, rest, true, true);
  NAME(multiply)(corner, ld, NAME(view_of)(below, ld), NAME(view_of)(right, ld), m - half, rest,
                 half, -1, false);
  NAME(lu)(corner, ld, m - half, rest, pivots + half);
  for (int64_t i = half; i < n; i++) {
    pivots[i] += (int32_t)half;
    NAME(swap_rows)(a, ld, i, pivots[i], half);
  }
}

ENTRY(lu)(const T *a, int64_t a_at, T *factors, int64_t factors_at, int32_t *pivots,
          int64_t pivots_at, int32_t *order, int64_t order_at, int64_t batch, int64_t m, int64_t n,
          int64_t group, int64_t groups) {
  int64_t least = smaller(m, n);
  FOR_GROUP(b) {
    T *to = factors + factors_at + b * m * n;
    int32_t *rows = pivots + pivots_at + b * least, *permutation = order + order_at + b * m;
    NAME(copy)(to, a + a_at + b * m * n, m * n);
    NAME(lu)(to, n, m, least, rows);
    if (n > m) {
      for (int64_t i = 0; i < m; i++) NAME(swap_rows)(to + m, n, i, rows[i], n - m);
      NAME(solve)(NAME(view_of)(to, n), to + m, n, 1, m, n - m, true, true);
    }
    for (int64_t i = 0; i < m; i++) permutation[i] = (int32_t)i;
    for (int64_t i = 0; i < least; i++) {
      int32_t held = permutation[i];
      permutation[i] = permutation[rows[i]];
      permutation[rows[i]] = held;
    }
  }
}

/* ---- triangular_solve */
ENTRY(triangular_solve)(const T *a, int64_t a_at, const T *b, int64_t b_at, T *x, int64_t x_at,
                        int64_t batch, int64_t n, int64_t m, int64_t left, int64_t lower,
                        int64_t transpose, int64_t conjugate, int64_t unit, int64_t group,
                        int64_t groups) {
  FOR_GROUP(i) {
    T *to = x + x_at + i * n * m;
    NAME(copy)(to, b + b_at + i * n * m, n * m);
    VIEW op = NAME(view_of)(a + a_at + i * n * n, n);
    op.conj = COMPLEX && conjugate;
    bool is_lower = lower;
    /* x op(a) = b is op(a)^T x^T = b^T */
    if ((transpose != 0) == (left != 0)) {
      op = NAME(transposed)(op);
      is_lower = !is_lower;
    }
    NAME(solve)(op, to, left ? m : 1, left ? 1 : n, n, m, is_lower, unit);
  }
}
