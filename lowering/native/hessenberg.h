/* Reduction to Hessenberg form (a template, see each.h; needs householder.h and passes.h). */

/* Q^H c Q = H: LAPACK's gehrd, of c (n x n; ld a multiple of 16, zeros after column n).  Column i
 * below row i + 1 holds the vectors of Q.  One pass over c an elimination: it brings c up to date
 * with the last reflection and multiplies it by the next one from both sides.  work: 2 n + 10 ld.
 */
ONCE void NAME(hessenberg)(T *c, int64_t ld, int64_t n, T *taus, T *work) {
  T *u = work, *next = u + ld, *x = next + ld, *y = x + n, *z = y + n, *cv = z + 2 * ld;
  T *cv_next = cv + 2 * ld, *w = cv_next + 2 * ld;
  NAME(fill)(work, 2 * n + 10 * ld, 0);
  for (int64_t i = 0; i < n; i++) {
    for (int64_t r = 0; r < n; r++) c[r * ld + i] -= u[r] * z[i] + x[r] * cv[i];
    if (i + 1 == n) break;
    T *below = c + (i + 1) * ld + i;
    T tau = taus[i] = NAME(reflector)(below, below + ld, ld, n - i - 2);
    z[i] = cv[i] = cv_next[i] = 0;
    NAME(fill)(next, i + 1, 0);
    next[i + 1] = cv_next[i + 1] = 1;
    for (int64_t r = i + 2; r < n; r++) {
      next[r] = c[r * ld + i];
      cv_next[r] = NAME(conjugate)(next[r]);
    }
    NAME(turn)(z, i, i + 1, ld), NAME(turn)(cv, i, i + 1, ld);
    NAME(turn)(cv_next, i, n, ld);
    const int64_t start = (i + 1) / VL * VL, count = (ld - start) * PARTS / VL;
    NAME(fill)(w, 2 * ld, 0);
    int64_t r = 0;
    for (; r + 4 <= n; r += 4) {
      T *rows = c + r * ld + start;
      NAME(update_rows)(4, rows, ld, count, ld, u + r, x + r, z + start, cv + start, next + r,
                        w + start);
      NAME(weigh_columns)(4, rows, ld, count, ld, cv_next + start, y + r);
    }
    for (; r < n; r++) {
      T *rows = c + r * ld + start;
      NAME(update_rows)(1, rows, ld, count, ld, u + r, x + r, z + start, cv + start, next + r,
                        w + start);
      NAME(weigh_columns)(1, rows, ld, count, ld, cv_next + start, y + r);
    }
    /* c H = c - x v^H; H^H of that subtracts conj(tau) v times v^H (c - x v^H) */
    T dot = 0;
    for (r = 0; r < n; r++) x[r] = tau * y[r], dot += cv_next[r] * x[r];
    for (int64_t j = i + 1; j < n; j++) {
      T sum = COMPLEX ? w[j] + NAME(make)(-IM(w[ld + j]), RE(w[ld + j])) : w[j];
      z[j] = NAME(conjugate)(tau) * (sum - dot * cv_next[j]);
    }
    NAME(turn)(z, i + 1, n, ld);
    T *held = u;
    u = next, next = held;
    held = cv, cv = cv_next, cv_next = held;
  }
}
