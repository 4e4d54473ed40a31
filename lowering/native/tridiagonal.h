/* Eigenvalues of real symmetric tridiagonal matrices, and reduction of Hermitian ones to them
 * (a template, see each.h; needs householder.h and rotations.h).
 *
 * Implicit QL and QR steps with Wilkinson's shift, after Bowdler, Martin, Reinsch and Wilkinson,
 * "The QR and QL algorithms for symmetric matrices" (1968); split as LAPACK's steqr.
 */
#if !COMPLEX
/* One implicit step on d[low..high], e[low..high-1]: downwards (QL) or upwards (QR). */
static UNUSED void NAME(shifted_step)(R *d, R *e, int64_t low, int64_t high, bool downwards,
                                      NAME(rotations) *sink) {
  int64_t step = downwards ? -1 : 1, count = high - low;
  int64_t first = downwards ? high : low, last = downwards ? low : high;
  /* e between i and i + step lies at i + gap */
  int64_t gap = downwards ? -1 : 0;
  R *pairs = sink->rows ? NAME(next_sweep)(sink, first, step, count) : (R *)0;
  R near = e[downwards ? low : high - 1];
  R shift = (d[last - step] - d[last]) / (2 * near);
  shift += NAME(signed_as)(NAME(root)(shift * shift + 1), shift);
  R g = d[first] - d[last] + near / shift, c = 1, s = 1, p = 0;
  int64_t i = first;
  for (int64_t k = 0; k < count; k++, i += step) {
    R f = s * e[i + gap], b = c * e[i + gap], r;
    NAME(rotation)(g, f, &c, &s, &r);
    if (k > 0) e[i - step + gap] = r;
    g = d[i] - p;
    r = (d[i + step] - g) * s + 2 * c * b;
    p = s * r;
    d[i] = g + p;
    g = c * r - b;
    if (pairs) pairs[2 * k] = c, pairs[2 * k + 1] = s;
  }
  d[last] -= p;
  e[last - step + gap] = g;
}

/* The eigenvalues of (d, e), unsorted, in d; every rotation goes to the sink.  False where they are
 * not found in 30 steps each. */
ONCE bool NAME(tridiagonal_values)(R *d, R *e, int64_t n, NAME(rotations) *sink) {
  int64_t budget = 30 * n;
  for (int64_t start = 0; start < n;) {
    int64_t end = start; /* the block d[start..end] */
    for (; end < n - 1; end++) {
      R off = NAME(magnitude)(e[end]);
      if (off == 0) break;
      R beside = NAME(root)(NAME(magnitude)(d[end])) * NAME(root)(NAME(magnitude)(d[end + 1]));
      if (off <= beside * R_EPSILON) {
        e[end] = 0;
        break;
      }
    }
    int64_t low = start, high = end;
    start = end + 1;
    bool downwards = NAME(magnitude)(d[high]) >= NAME(magnitude)(d[low]);
    while (low < high) {
      /* the part at the end where eigenvalues converge, up to the first negligible e */
      int64_t at = downwards ? low : high - 1, stop = downwards ? high : low - 1;
      for (; at != stop; at += downwards ? 1 : -1) {
        R off = NAME(magnitude)(e[at]);
        if (off * off <=
            R_EPSILON * NAME(magnitude)(d[at]) * (R_EPSILON * NAME(magnitude)(d[at + 1])) + R_MIN) {
          e[at] = 0;
          break;
        }
      }
      if (downwards && at == low) {
        low++;
      } else if (!downwards && at == high - 1) {
        high--;
      } else {
        if (budget-- <= 0) return false;
        if (downwards)
          NAME(shifted_step)(d, e, low, at, true, sink);
        else
          NAME(shifted_step)(d, e, at + 1, high, false, sink);
      }
    }
  }
  if (sink->rows) NAME(rotate_all)(sink);
  return true;
}
#endif

/* Of rows r of c (columns up to r): c -= conj(w[r]) v + conj(v[r]) w, then y = A u with
 * A[s][r] = c[r][s] for s <= r, Hermitian.  v, w, u, y: n elements, for complex types followed by
 * i times the same (of y: the sums to be multiplied by i). */
static UNUSED void NAME(update_and_multiply)(T *c, int64_t ld, int64_t n, int64_t room, const T *v,
                                             const T *w, const T *u, T *y) {
  enum { ROWS = 4 };
  NAME(fill)(y, n, 0);
  if (COMPLEX) NAME(fill)(y + room, n, 0);
  for (int64_t r = 0; r < n; r += ROWS) {
    int64_t rows = smaller(ROWS, n - r), whole = rows == ROWS ? r * PARTS / VL : 0;
    if (whole) {
      const V *vs = (const V *)v, *ws = (const V *)w, *us = (const V *)u;
      V *ys = (V *)y, *to[ROWS], dots[ROWS][PARTS];
      R vr[ROWS][PARTS], wr[ROWS][PARTS], ur[ROWS][PARTS];
      UNROLL for (int k = 0; k < ROWS; k++) {
        to[k] = (V *)(c + (r + k) * ld);
        vr[k][0] = RE(v[r + k]), wr[k][0] = RE(w[r + k]), ur[k][0] = RE(u[r + k]);
        dots[k][0] = (V){0};
#if COMPLEX
        vr[k][1] = -IM(v[r + k]), wr[k][1] = -IM(w[r + k]), ur[k][1] = IM(u[r + k]);
        dots[k][1] = (V){0};
#endif
      }
#if COMPLEX
      const V *iv = (const V *)(v + room), *iw = (const V *)(w + room), *iu = (const V *)(u + room);
      V *iy = (V *)(y + room);
#endif
      for (int64_t s = 0; s < whole; s++) {
        V vx = vs[s], wx = ws[s], ux = us[s], sum = ys[s];
#if COMPLEX
        V ivx = iv[s], iwx = iw[s], iux = iu[s], isum = iy[s];
#endif
        UNROLL for (int k = 0; k < ROWS; k++) {
          V x = to[k][s] - (wr[k][0] * vx + vr[k][0] * wx);
#if COMPLEX
          x -= wr[k][1] * ivx + vr[k][1] * iwx;
          isum += ur[k][1] * x;
          dots[k][1] += x * iux;
#endif
          to[k][s] = x;
          sum += ur[k][0] * x;
          dots[k][0] += x * ux;
        }
        ys[s] = sum;
#if COMPLEX
        iy[s] = isum;
#endif
      }
      UNROLL for (int k = 0; k < ROWS; k++) {
        R real = 0, imaginary = 0;
        for (int64_t lane = 0; lane < VL; lane++) {
          real += dots[k][0][lane];
          if (COMPLEX) imaginary -= dots[k][PARTS - 1][lane];
        }
        y[r + k] += NAME(make)(real, imaginary);
      }
    }
    for (int64_t k = r; k < r + rows; k++) {
      T *row = c + k * ld, vk = NAME(conjugate)(v[k]), wk = NAME(conjugate)(w[k]), sum = 0;
      for (int64_t s = whole * VL / PARTS; s < k; s++) {
        T x = row[s] - (wk * v[s] + vk * w[s]);
        row[s] = x;
        y[s] += x * u[k];
        sum += NAME(conjugate)(x) * u[s];
      }
      R diagonal = RE(row[k]) - 2 * RE(wk * v[k]);
      row[k] = diagonal;
      y[k] += sum + diagonal * u[k];
    }
  }
#if COMPLEX
  for (int64_t s = 0; s < n; s++) y[s] += NAME(make)(-IM(y[room + s]), RE(y[room + s]));
#endif
}

/* i times each of n elements, `room` after them. */
static UNUSED void NAME(put_turned)(T *x, int64_t n, int64_t room) {
#if COMPLEX
  for (int64_t i = 0; i < n; i++) x[room + i] = NAME(make)(-IM(x[i]), RE(x[i]));
#else
  (void)x, (void)n, (void)room;
#endif
}

/* LAPACK's sytrd, upper, of A with A[s][r] = c[r][s], s <= r: Q^H A Q = (d, e).  The vector of
 * reflection i lies in row i + 1 of c before column i (element i is 1).  work: 8 n elements. */
ONCE void NAME(tridiagonalize)(T *c, int64_t ld, int64_t n, R *d, R *e, T *taus, T *work) {
  T *v = work, *w = v + 2 * n, *u = w + 2 * n, *y = u + 2 * n;
  NAME(fill)(work, 8 * n, 0);
  for (int64_t i = n - 1; i > 0; i--) {
    T *row = c + i * ld;
    d[i] = RE(row[i]);
    T alpha = row[i - 1], tau = taus[i - 1] = NAME(reflector)(&alpha, row, 1, i - 1);
    e[i - 1] = RE(alpha);
    row[i - 1] = alpha;
    NAME(copy)(u, row, i - 1);
    u[i - 1] = 1;
    NAME(put_turned)(u, i, n);
    NAME(update_and_multiply)(c, ld, i, n, v, w, u, y);
    T dot = 0;
    for (int64_t s = 0; s < i; s++) y[s] *= tau, dot += NAME(conjugate)(y[s]) * u[s];
    dot *= NAME(scale)(tau, (R)0.5);
    for (int64_t s = 0; s < i; s++) w[s] = y[s] - dot * u[s];
    T *held = u;
    u = v, v = held;
    NAME(put_turned)(w, i, n);
    /* the next row, up to date before its reflection is made */
    T *next = c + (i - 1) * ld, vi = NAME(conjugate)(v[i - 1]), wi = NAME(conjugate)(w[i - 1]);
    for (int64_t s = 0; s < i; s++) next[s] -= wi * v[s] + vi * w[s];
    next[i - 1] = RE(next[i - 1]);
  }
  if (n > 0) d[0] = RE(c[0]);
}
