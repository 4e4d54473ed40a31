/* QR factorizations and the matrices of their reflections (a template, see each.h). */
#include "multiply.h"
#include "lanes.h"
#include "householder.h"

/* work: 32 m + 64 n + 2048 elements of T */
ENTRY(geqrf)(const T *a, int64_t a_at, T *packed, int64_t packed_at, T *taus, int64_t taus_at,
             T *work, int64_t work_at, int64_t batch, int64_t m, int64_t n, int64_t group,
             int64_t groups) {
  FOR_GROUP(b) {
    T *to = packed + packed_at + b * m * n;
    NAME(copy)(to, a + a_at + b * m * n, m * n);
    NAME(qr)(to, n, m, n, taus + taus_at + b * smaller(m, n),
             work + work_at + group * BLOCK_WORK(m, n));
  }
}

/* work: 32 m + 64 n + 2048 elements of T */
ENTRY(householder_product)(const T *a, int64_t a_at, const T *taus, int64_t taus_at, T *q,
                           int64_t q_at, T *work, int64_t work_at, int64_t batch, int64_t m,
                           int64_t n, int64_t k, int64_t group, int64_t groups) {
  FOR_GROUP(b)
    NAME(orthogonal)(NAME(view_of)(a + a_at + b * m * n, n), taus + taus_at + b * k,
                     q + q_at + b * m * n, n, m, n, k, work + work_at + group * BLOCK_WORK(m, n));
}

/* LAPACK's laqp2: at each step the column of the largest remaining norm comes next.  Norms are
 * brought up to date by Pythagoras and computed anew where that would lose their digits (Drmac and
 * Bujanovic, "On the failure of rank-revealing QR factorization software", 2008). */
static void NAME(pivoted_qr)(T *a, int64_t m, int64_t n, int32_t *order, T *taus, T *w) {
  R *norms = (R *)(w + n), *exact = norms + n;
  const R careful = RNAME(root)(R_EPSILON);
  for (int64_t j = 0; j < n; j++) {
    order[j] = (int32_t)j;
    norms[j] = exact[j] = NAME(norm)(a + j, n, m);
  }
  for (int64_t j = 0; j < smaller(m, n); j++) {
    int64_t best = j;
    for (int64_t c = j + 1; c < n; c++)
      if (norms[c] > norms[best]) best = c;
    if (best != j) {
      for (int64_t i = 0; i < m; i++) {
        T held = a[i * n + j];
        a[i * n + j] = a[i * n + best];
        a[i * n + best] = held;
      }
      int32_t held = order[j];
      order[j] = order[best];
      order[best] = held;
      norms[best] = norms[j], exact[best] = exact[j];
    }
    T *top = a + j * n + j;
    int64_t rest = n - j - 1, below = m - j - 1;
    T tau = taus[j] = NAME(reflector)(top, top + n, n, below);
    NAME(copy)(w, top + 1, rest);
    NAME(weigh_rows)(w, top + n + 1, n, below, rest, top + n, n);
    for (int64_t c = 0; c < rest; c++) w[c] *= NAME(conjugate)(tau), top[1 + c] -= w[c];
    NAME(rank_one)(top + n + 1, n, below, rest, top + n, n, w);
    for (int64_t c = j + 1; c < n; c++) {
      if (norms[c] == 0) continue;
      R ratio = RNAME(length)(RE(a[j * n + c]), IM(a[j * n + c]), 0) / norms[c];
      R left = 1 - ratio * ratio, against = norms[c] / exact[c];
      left = left < 0 ? 0 : left;
      if (left * against * against <= careful)
        norms[c] = exact[c] = below ? NAME(norm)(a + (j + 1) * n + c, n, below) : 0;
      else
        norms[c] *= RNAME(root)(left);
    }
  }
}

/* work: 3 n elements of T */
ENTRY(geqp3)(const T *a, int64_t a_at, T *packed, int64_t packed_at, int32_t *jpvt, int64_t jpvt_at,
             T *taus, int64_t taus_at, T *work, int64_t work_at, int64_t batch, int64_t m,
             int64_t n, int64_t group, int64_t groups) {
  FOR_GROUP(b) {
    T *to = packed + packed_at + b * m * n;
    NAME(copy)(to, a + a_at + b * m * n, m * n);
    NAME(pivoted_qr)(to, m, n, jpvt + jpvt_at + b * n, taus + taus_at + b * smaller(m, n),
                     work + work_at + group * 3 * n);
  }
}
