/* Eigenvalues of Hermitian matrices and tridiagonal systems (a template, see each.h). */
#include "multiply.h"
#include "lanes.h"
#include "householder.h"
#include "rotations.h"
#include "tridiagonal.h"

/* c's lower triangle = a's times a power of two; 1 over that, or 0 where a is not finite.  Squares of
 * what counts beside the largest element must not underflow: steqr scales for the same reason. */
static R NAME(scaled_lower)(T *c, const T *a, int64_t n) {
  const R small = RNAME(root)(R_MIN) / (R_EPSILON * R_EPSILON);
  const R big = 1 / RNAME(root)(R_MIN / R_EPSILON);
  R most = 0, up = 1;
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j <= i; j++) {
      R size = i == j ? RNAME(magnitude)(RE(a[i * n + j])) : NAME(size)(a[i * n + j]);
      if (!(size <= R_MAX)) return 0;
      most = size > most ? size : most;
    }
  while (most > 0 && most * up < small && up < 1 / (1024 * R_MIN)) up *= 1024;
  while (most * up > big) up /= 1024;
  const R back = 1 / up;
  for (int64_t i = 0; i < n; i++) {
    for (int64_t j = 0; j <= i; j++) c[i * n + j] = NAME(scale)(a[i * n + j], up);
    c[i * n + i] = RE(c[i * n + i]);
  }
  return back;
}

#if !COMPLEX
INLINE bool NAME(before)(const R *d, int32_t i, int32_t j) {
  return d[i] < d[j] || (d[i] == d[j] && i < j);
}

/* order: positions of d from the least to the greatest, equal ones as they lie. */
static void NAME(ascending)(const R *d, int32_t *order, int64_t n) {
  for (int64_t i = 0; i < n; i++) order[i] = (int32_t)i;
  /* heap sort: the greatest of what is left goes to the end */
  for (int64_t left = n, start = n / 2; left > 1;) {
    if (start > 0) {
      start--;
    } else {
      left--;
      int32_t held = order[0];
      order[0] = order[left];
      order[left] = held;
    }
    int32_t moved = order[start];
    int64_t hole = start;
    for (int64_t child; (child = 2 * hole + 1) < left; hole = child) {
      if (child + 1 < left && NAME(before)(d, order[child], order[child + 1])) child++;
      if (NAME(before)(d, order[child], moved)) break;
      order[hole] = order[child];
    }
    order[hole] = moved;
  }
}
#endif

/* Elements of workspace, see the entries. */
#define VALUES_WORK(n) ((n) * (n) + 16 * (n))
#define EIGH_WORK(n) (VALUES_WORK(n) + (n) * STRIDE(n) + 48 * (n) + BLOCK_WORK(n, n))

/* The eigenvalues, ascending, and the eigenvectors where v is given. */
static bool NAME(eigen)(const T *a, T *v, R *values, T *work, int64_t n) {
  T *c = work, *taus = c + n * n, *turned = taus + n, *vectors = turned + 8 * n;
  R *d = (R *)vectors, *e = d + n;
  int32_t *order = (int32_t *)(e + n);
  T *free = vectors + 7 * n;
  R back = NAME(scaled_lower)(c, a, n);
  if (back == 0) return false;
  NAME(tridiagonalize)(c, n, n, d, e, taus, turned);
  RNAME(rotations) sink;
  sink.rows = (R *)0, sink.sweeps = sink.used = 0;
  if (v) {
    sink.ld = STRIDE(n), sink.width = WHOLE(n);
    sink.rows = (R *)free;
    sink.pairs = (R *)(free + n * STRIDE(n));
    sink.capacity = 24 * n;
    RNAME(fill)(sink.rows, n * STRIDE(n), 0);
    for (int64_t i = 0; i < n; i++) sink.rows[i * sink.ld + i] = 1;
  }
  if (!RNAME(tridiagonal_values)(d, e, n, &sink)) return false;
  RNAME(ascending)(d, order, n);
  for (int64_t i = 0; i < n; i++) values[i] = d[order[i]] * back;
  if (!v) return true;
  /* Of T the eigenvectors are the rows of the sink; A's transpose has Q times them, A the
   * conjugate. Rows from the last to the first, Q is a product of reflections in their usual order.
   */
  for (int64_t j = 0; j < n; j++) {
    const R *from = sink.rows + order[j] * sink.ld;
    for (int64_t i = 0; i < n; i++) v[i * n + j] = from[i];
  }
  if (n == 1) return true;
  T *last = free + n * STRIDE(n);
  for (int64_t i = 0; i < n - 1; i++) turned[i] = taus[n - 2 - i];
  VIEW vectors_of = {c + n * n - 2, -1, -n, false};
  NAME(reflect_all)(vectors_of, turned, v + (n - 2) * n, -n, n - 1, n, n - 1, false, last);
  if (COMPLEX)
    for (int64_t i = 0; i < n * n; i++) v[i] = NAME(conjugate)(v[i]);
  return true;
}

/* work: 2 n^2 + 192 n + 2048 elements of T */
ENTRY(eigh)(const T *a, int64_t a_at, T *v, int64_t v_at, R *w, int64_t w_at, T *work,
            int64_t work_at, int64_t batch, int64_t n, int64_t group, int64_t groups) {
  FOR_GROUP(b) {
    T *vectors = v + v_at + b * n * n;
    R *values = w + w_at + b * n;
    if (NAME(eigen)(a + a_at + b * n * n, vectors, values, work + work_at + group * EIGH_WORK(n),
                    n))
      continue;
    RNAME(fill)(values, n, RNAME(nan)());
    NAME(fill)(vectors, n * n, NAME(make)(RNAME(nan)(), RNAME(nan)()));
  }
}

/* work: n^2 + 16 n elements of T */
ENTRY(eigvalsh)(const T *a, int64_t a_at, R *w, int64_t w_at, T *work, int64_t work_at,
                int64_t batch, int64_t n, int64_t group, int64_t groups) {
  FOR_GROUP(b) {
    R *values = w + w_at + b * n;
    if (!NAME(eigen)(a + a_at + b * n * n, (T *)0, values, work + work_at + group * VALUES_WORK(n),
                     n))
      RNAME(fill)(values, n, RNAME(nan)());
  }
}

/* work: n^2 + 16 n elements of T.  The triangle that is not read keeps a's elements. */
ENTRY(sytrd)(const T *a, int64_t a_at, T *packed, int64_t packed_at, R *d, int64_t d_at, R *e,
             int64_t e_at, T *taus, int64_t taus_at, T *work, int64_t work_at, int64_t batch,
             int64_t n, int64_t lower, int64_t group, int64_t groups) {
  int64_t rest = larger(n - 1, 0);
  T *c = work + work_at + group * VALUES_WORK(n), *reversed = c + n * n, *free = reversed + n;
  R *diagonal = (R *)(free + 8 * n), *off = diagonal + n;
  FOR_GROUP(b) {
    const T *from = a + a_at + b * n * n;
    T *to = packed + packed_at + b * n * n, *tau = taus + taus_at + b * rest;
    R *ds = d + d_at + b * n, *es = e + e_at + b * rest;
    NAME(copy)(to, from, n * n);
    /* the lower form is the upper one of the matrix with its order reversed, transposed */
    for (int64_t i = 0; i < n; i++)
      for (int64_t j = 0; j <= i; j++)
        c[i * n + j] = lower ? from[(n - 1 - j) * n + n - 1 - i] : from[j * n + i];
    NAME(tridiagonalize)(c, n, n, diagonal, off, reversed, free);
    for (int64_t i = 0; i < n; i++) {
      for (int64_t j = 0; j <= i; j++) {
        T value = i == j ? (T)diagonal[i] : c[i * n + j];
        if (lower)
          to[(n - 1 - j) * n + n - 1 - i] = value;
        else
          to[j * n + i] = value;
      }
      ds[lower ? n - 1 - i : i] = diagonal[i];
      if (i == rest) continue;
      es[lower ? rest - 1 - i : i] = off[i];
      tau[lower ? rest - 1 - i : i] = reversed[i];
    }
  }
}

/* ---- gtsv */

/* x (n x m, b to begin with) by elimination with neighbouring rows exchanged; false if singular.
 * du2: the second superdiagonal that exchanges make. */
static bool NAME(tridiagonal_solve)(const T *below, T *diagonal, T *above, T *above2, T *x,
                                    int64_t n, int64_t m) {
  for (int64_t i = 0; i + 1 < n; i++) {
    T *row = x + i * m, *next = row + m, lower = below[i + 1];
    above2[i] = 0;
    if (NAME(size)(diagonal[i]) >= NAME(size)(lower)) {
      if (RE(diagonal[i]) == 0 && IM(diagonal[i]) == 0) return false;
      T factor = NAME(divide)(lower, diagonal[i]);
      diagonal[i + 1] -= factor * above[i];
      for (int64_t j = 0; j < m; j++) next[j] -= factor * row[j];
    } else {
      T factor = NAME(divide)(diagonal[i], lower), held = diagonal[i + 1];
      diagonal[i] = lower;
      diagonal[i + 1] = above[i] - factor * held;
      if (i + 2 < n) {
        above2[i] = above[i + 1];
        above[i + 1] = -(factor * above2[i]);
      }
      above[i] = held;
      for (int64_t j = 0; j < m; j++) {
        T first = row[j];
        row[j] = next[j];
        next[j] = first - factor * row[j];
      }
    }
  }
  if (n > 0 && RE(diagonal[n - 1]) == 0 && IM(diagonal[n - 1]) == 0) return false;
  for (int64_t i = n - 1; i >= 0; i--)
    for (int64_t j = 0; j < m; j++) {
      T value = x[i * m + j];
      if (i + 1 < n) value -= above[i] * x[(i + 1) * m + j];
      if (i + 2 < n) value -= above2[i] * x[(i + 2) * m + j];
      x[i * m + j] = NAME(divide)(value, diagonal[i]);
    }
  return true;
}

/* work: 3 n elements of T.  A singular matrix gives NaN. */
ENTRY(gtsv)(const T *dl, int64_t dl_at, const T *d, int64_t d_at, const T *du, int64_t du_at,
            const T *b, int64_t b_at, T *x, int64_t x_at, T *work, int64_t work_at, int64_t batch,
            int64_t n, int64_t m, int64_t group, int64_t groups) {
  T *diagonal = work + work_at + group * 3 * n, *above = diagonal + n, *above2 = above + n;
  FOR_GROUP(i) {
    T *to = x + x_at + i * n * m;
    NAME(copy)(to, b + b_at + i * n * m, n * m);
    NAME(copy)(diagonal, d + d_at + i * n, n);
    NAME(copy)(above, du + du_at + i * n, n);
    if (!NAME(tridiagonal_solve)(dl + dl_at + i * n, diagonal, above, above2, to, n, m))
      NAME(fill)(to, n * m, NAME(make)(RNAME(nan)(), RNAME(nan)()));
  }
}
