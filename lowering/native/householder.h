/* Householder reflections as LAPACK's (a template, see each.h; needs multiply.h and lanes.h):
 * H = I - tau v v^H with v[0] = 1, and blocks of them, I - V T V^H.
 *
 * Schreiber and Van Loan, "A storage-efficient WY representation for products of Householder
 * transformations" (1989).
 */
#ifndef BLOCK
#define BLOCK 32 /* reflections that are applied together */
#define BLOCK_WORK(m, n) (BLOCK * (m) + 2 * BLOCK * (n) + 2 * BLOCK * BLOCK)
#endif

/* The 2-norm, safe from overflow and underflow. */
ONCE R NAME(norm)(const T *x, int64_t stride, int64_t n) {
  R sums[4] = {0, 0, 0, 0};
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    UNROLL for (int64_t k = 0; k < 4; k++) {
      T value = x[(i + k) * stride];
      sums[k] += RE(value) * RE(value) + (COMPLEX ? IM(value) * IM(value) : 0);
    }
  }
  for (; i < n; i++) {
    T value = x[i * stride];
    sums[0] += RE(value) * RE(value) + (COMPLEX ? IM(value) * IM(value) : 0);
  }
  R sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  if (sum > R_MIN / (R_EPSILON * R_EPSILON) && sum < R_MAX / 4) return RNAME(root)(sum);
  R most = 0;
  for (i = 0; i < n; i++) {
    R size = NAME(size)(x[i * stride]);
    if (!(size <= most)) most = size;
    if (size != size) return size;
  }
  if (most == 0 || most > R_MAX) return most;
  most = most < R_MIN ? R_MIN : most;
  sum = 0;
  for (i = 0; i < n; i++) {
    R real = RE(x[i * stride]) / most, imaginary = COMPLEX ? IM(x[i * stride]) / most : 0;
    sum += real * real + imaginary * imaginary;
  }
  return most * RNAME(root)(sum);
}

#if !COMPLEX
/* sqrt(x^2 + y^2 + z^2) without overflow. */
INLINE UNUSED R NAME(length)(R x, R y, R z) {
  x = NAME(magnitude)(x), y = NAME(magnitude)(y), z = NAME(magnitude)(z);
  R most = x > y ? x : y;
  most = most > z ? most : z;
  if (most == 0) return x + y + z;
  most = most < R_MIN ? R_MIN : most;
  x /= most, y /= most, z /= most;
  return most * NAME(root)(x * x + y * y + z * z);
}
INLINE UNUSED R NAME(signed_as)(R x, R sign) {
  return (R)(sizeof(R) == 4 ? __builtin_copysignf((float)x, (float)sign)
                            : __builtin_copysign((double)x, (double)sign));
}
#endif

INLINE UNUSED void NAME(scale_all)(T *x, int64_t stride, int64_t n, T by) {
  for (int64_t i = 0; i < n; i++) x[i * stride] *= by;
}

/* LAPACK's larfg: H^H (alpha, x) = (beta, 0).  alpha becomes beta, x the rest of v; returns tau. */
ONCE T NAME(reflector)(T *alpha, T *x, int64_t stride, int64_t n) {
  R norm = NAME(norm)(x, stride, n);
  if (norm == 0 && IM(*alpha) == 0) return 0;
  const R least = R_MIN / R_EPSILON;
  R beta = RNAME(length)(RE(*alpha), IM(*alpha), norm), back = 1;
  if (beta < least) { /* scaled up, so that 1 / (alpha - beta) is exact enough */
    for (int rounds = 0; beta < least && rounds < 20; rounds++) {
      NAME(scale_all)(x, stride, n, 1 / least);
      *alpha = NAME(scale)(*alpha, 1 / least);
      beta /= least;
      back *= least;
    }
    beta = RNAME(length)(RE(*alpha), IM(*alpha), NAME(norm)(x, stride, n));
  }
  beta = -RNAME(signed_as)(beta, RE(*alpha));
  T tau = NAME(make)((beta - RE(*alpha)) / beta, -IM(*alpha) / beta);
  NAME(scale_all)(x, stride, n, NAME(divide)(1, *alpha - beta));
  *alpha = beta * back;
  return tau;
}

/* sums (n) += a^H-weighted rows: sums = sum over i < m of conj(v[i stride]) a[i, :]. */
ONCE void NAME(weigh_rows)(T *restrict sums, const T *restrict a, int64_t ld, int64_t m, int64_t n,
                           const T *v, int64_t stride) {
  int64_t i = 0;
  for (; i + 4 <= m; i += 4) {
    const T *restrict row = a + i * ld;
    T v0 = NAME(conjugate)(v[i * stride]), v1 = NAME(conjugate)(v[(i + 1) * stride]);
    T v2 = NAME(conjugate)(v[(i + 2) * stride]), v3 = NAME(conjugate)(v[(i + 3) * stride]);
    for (int64_t j = 0; j < n; j++)
      sums[j] += (v0 * row[j] + v1 * row[ld + j]) + (v2 * row[2 * ld + j] + v3 * row[3 * ld + j]);
  }
  for (; i < m; i++) {
    T v0 = NAME(conjugate)(v[i * stride]);
    for (int64_t j = 0; j < n; j++) sums[j] += v0 * a[i * ld + j];
  }
}

/* a -= v w: rows of a less v[i stride] times w. */
ONCE void NAME(rank_one)(T *restrict a, int64_t ld, int64_t m, int64_t n, const T *v,
                         int64_t stride, const T *restrict w) {
  for (int64_t i = 0; i < m; i++) {
    T factor = v[i * stride];
    T *restrict row = a + i * ld;
    for (int64_t j = 0; j < n; j++) row[j] -= factor * w[j];
  }
}

/* Columns after j of a panel's rows (PANEL wide) times H^H; v below row 0 in column j. */
static UNUSED void NAME(reflect_lanes)(T *a, int64_t ld, int64_t m, int64_t j, T tau) {
  MASK after = NAME(columns)(j + 1, PANEL);
  ROW sum[2] = {{0}, {0}}, turned_sum[2] = {{0}, {0}};
  for (int64_t i = 1; i + 1 < m; i += 2) {
    UNROLL for (int64_t k = 0; k < 2; k++) {
      ROW row = *(ROW *)(a + (i + k) * ld);
      T v = a[(i + k) * ld + j];
      sum[k] += RE(v) * row;
      if (COMPLEX) turned_sum[k] += IM(v) * row;
    }
  }
  if (m > 1 && m % 2 == 0) {
    ROW row = *(ROW *)(a + (m - 1) * ld);
    T v = a[(m - 1) * ld + j];
    sum[0] += RE(v) * row;
    if (COMPLEX) turned_sum[0] += IM(v) * row;
  }
  ROW w = *(ROW *)a + (sum[0] + sum[1]);
  if (COMPLEX) w -= NAME(turned)(turned_sum[0] + turned_sum[1]);
  w = NAME(times)(NAME(conjugate)(tau), w, NAME(turned)(w));
  ROW w_turned = NAME(turned)(w);
  *(ROW *)a -= NAME(only)(w, after);
  for (int64_t i = 1; i < m; i++)
    *(ROW *)(a + i * ld) -= NAME(only)(NAME(times)(a[i * ld + j], w, w_turned), after);
}

/* LAPACK's geqr2 of m x n, n <= PANEL. */
ONCE void NAME(qr_panel)(T *a, int64_t ld, int64_t m, int64_t n, T *taus) {
  for (int64_t j = 0; j < smaller(m, n); j++) {
    T *top = a + j * ld;
    T tau = taus[j] = NAME(reflector)(top + j, top + ld + j, ld, m - j - 1);
    if (RE(tau) == 0 && IM(tau) == 0) continue;
    if (n == PANEL) {
      NAME(reflect_lanes)(top, ld, m - j, j, tau);
      continue;
    }
    T w[PANEL];
    int64_t rest = n - j - 1;
    NAME(copy)(w, top + j + 1, rest);
    NAME(weigh_rows)(w, top + ld + j + 1, ld, m - j - 1, rest, top + ld + j, ld);
    for (int64_t c = 0; c < rest; c++) w[c] *= NAME(conjugate)(tau), top[j + 1 + c] -= w[c];
    NAME(rank_one)(top + ld + j + 1, ld, m - j - 1, rest, top + ld + j, ld, w);
  }
}

/* c (m x n) becomes Q c, or Q^H c, where Q is the product of k reflections: v_j in column j of
 * `vectors` below its row j (vectors(i, j) at i * row + j * column, conjugated if the view says
 * so). work: BLOCK_WORK(m, n). */
ONCE void NAME(reflect_block)(VIEW vectors, const T *taus, T *c, int64_t ldc, int64_t m, int64_t n,
                              int64_t k, bool adjoint, T *work) {
  T *v = work, *t = v + m * k, *gram = t + k * k, *w = gram + k * k, *tw = w + k * n;
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < k; j++) {
      T value = i > j ? vectors.at[i * vectors.row + j * vectors.column] : (T)(i == j);
      v[i * k + j] = vectors.conj ? NAME(conjugate)(value) : value;
    }
  VIEW all = NAME(view_of)(v, k);
  NAME(fill)(t, 2 * k * k + 2 * k * n, 0);
  NAME(multiply)(gram, k, NAME(adjoint)(all), all, k, k, m, 1, false);
  for (int64_t j = 0; j < k; j++) {
    for (int64_t i = 0; i < j; i++) {
      T sum = 0;
      for (int64_t p = i; p < j; p++) sum += t[i * k + p] * gram[p * k + j];
      t[i * k + j] = -taus[j] * sum;
    }
    t[j * k + j] = taus[j];
  }
  VIEW factor = NAME(view_of)(t, k);
  NAME(multiply)(w, n, NAME(adjoint)(all), NAME(view_of)(c, ldc), k, n, m, 1, false);
  NAME(multiply)(tw, n, adjoint ? NAME(adjoint)(factor) : factor, NAME(view_of)(w, n), k, n, k, 1,
                 false);
  NAME(multiply)(c, ldc, all, NAME(view_of)(tw, n), m, n, k, -1, false);
}

/* Q or Q^H times c for any number of reflections, in blocks. */
ONCE void NAME(reflect_all)(VIEW vectors, const T *taus, T *c, int64_t ldc, int64_t m, int64_t n,
                            int64_t k, bool adjoint, T *work) {
  int64_t blocks = (k + BLOCK - 1) / BLOCK;
  for (int64_t step = 0; step < blocks; step++) {
    int64_t at = (adjoint ? step : blocks - 1 - step) * BLOCK;
    NAME(reflect_block)(NAME(part)(vectors, at, at), taus + at, c + at * ldc, ldc, m - at, n,
                        smaller(BLOCK, k - at), adjoint, work);
  }
}

/* LAPACK's geqrf of m x n in place: panels of PANEL columns in blocks of BLOCK. */
ONCE void NAME(qr)(T *a, int64_t ld, int64_t m, int64_t n, T *taus, T *work) {
  int64_t least = smaller(m, n);
  for (int64_t at = 0; at < least; at += BLOCK) {
    int64_t end = smaller(at + BLOCK, least), first = at;
    for (; first < end; first += PANEL) {
      int64_t count = smaller(PANEL, end - first), next = first + count;
      T *corner = a + first * ld + first;
      NAME(qr_panel)(corner, ld, m - first, count, taus + first);
      if (next < end)
        NAME(reflect_block)(NAME(view_of)(corner, ld), taus + first, corner + count, ld, m - first,
                            end - next, count, true, work);
    }
    if (end < n)
      NAME(reflect_block)(NAME(view_of)(a + at * ld + at, ld), taus + at, a + at * ld + end, ld,
                          m - at, n - end, end - at, true, work);
  }
}

/* q (m x n) becomes the first n columns of the product of k reflections (k <= n <= m), identity to
 * begin with: LAPACK's orgqr. */
ONCE void NAME(orthogonal)(VIEW vectors, const T *taus, T *q, int64_t ldq, int64_t m, int64_t n,
                           int64_t k, T *work) {
  for (int64_t i = 0; i < m; i++) {
    NAME(fill)(q + i * ldq, n, 0);
    if (i < n) q[i * ldq + i] = 1;
  }
  int64_t blocks = (k + BLOCK - 1) / BLOCK;
  for (int64_t step = blocks - 1; step >= 0; step--) {
    int64_t at = step * BLOCK;
    NAME(reflect_block)(NAME(part)(vectors, at, at), taus + at, q + at * ldq + at, ldq, m - at,
                        n - at, smaller(BLOCK, k - at), false, work);
  }
}
