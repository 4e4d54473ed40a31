/* Schur forms of complex Hessenberg matrices (a template, see each.h; complex types only).
 *
 * Single shifts (Wilkinson's), as LAPACK's lahqr; subdiagonals are kept real.  zt holds the
 * transpose of the vectors.
 */
#if COMPLEX
/* The square root with a nonnegative real part. */
static UNUSED T NAME(square_root)(T x) {
  R size = RNAME(length)(RE(x), IM(x), 0);
  if (size == 0) return x;
  R half = RNAME(root)((size + RNAME(magnitude)(RE(x))) / 2), other = IM(x) / (2 * half);
  if (RE(x) >= 0) return NAME(make)(half, other);
  return NAME(make)(RNAME(magnitude)(other), RNAME(signed_as)(half, IM(x)));
}

/* Row i of h from `column` on times f, column i above `row` times conj(f), and that column of z. */
static UNUSED void NAME(turn_basis)(T *h, int64_t ld, int64_t n, T *zt, int64_t ldz, int64_t i,
                                    int64_t column, int64_t row, T f) {
  T back = NAME(conjugate)(f);
  for (int64_t j = column; j < n; j++) h[i * ld + j] *= f;
  for (int64_t r = 0; r < row; r++) h[r * ld + i] *= back;
  for (int64_t j = 0; j < n; j++) zt[i * ldz + j] *= back;
}

static UNUSED int64_t NAME(block_start)(const T *h, int64_t ld, int64_t n, int64_t end) {
  const R least = R_MIN / (2 * R_EPSILON) * (R)n, ulp = 2 * R_EPSILON;
  int64_t k = end;
  for (; k > 0; k--) {
    const T *row = h + k * ld + k, *above = row - ld - 1;
    R off = NAME(size)(row[-1]);
    if (off <= least) break;
    R beside = NAME(size)(above[0]) + NAME(size)(row[0]);
    if (beside == 0) {
      if (k > 1) beside += RNAME(magnitude)(RE(above[-1]));
      if (k < end) beside += RNAME(magnitude)(RE(row[ld]));
    }
    if (off > ulp * beside) continue;
    R up = NAME(size)(above[1]), ab = off > up ? off : up, ba = off > up ? up : off;
    R here = NAME(size)(row[0]), gap = NAME(size)(above[0] - row[0]);
    R aa = here > gap ? here : gap, bb = here > gap ? gap : here, s = aa + ab;
    R allowed = ulp * (bb * (aa / s));
    if (ba * (ab / s) <= (allowed > least ? allowed : least)) break;
  }
  return k;
}

static UNUSED T NAME(wilkinson)(const T *last, int64_t ld) {
  T t = last[0], u = NAME(square_root)(last[-ld]) * NAME(square_root)(last[-1]);
  R s = NAME(size)(u);
  if (s == 0) return t;
  T x = NAME(scale)(last[-ld - 1] - t, (R)0.5);
  R sx = NAME(size)(x);
  s = sx > s ? sx : s;
  T xs = x / s, us = u / s, y = NAME(scale)(NAME(square_root)(xs * xs + us * us), s);
  if (sx > 0) {
    T side = x / sx;
    if (RE(side) * RE(y) + IM(side) * IM(y) < 0) y = -y;
  }
  return t - u * NAME(divide)(u, x + y);
}

static UNUSED void NAME(francis_step)(T *h, int64_t ld, int64_t n, T *zt, int64_t ldz,
                                      int64_t start, int64_t end, int64_t its) {
  const T *last = h + end * ld + end;
  T t;
  if (its % 20 == 0)
    t = last[0] + (R)0.75 * RNAME(magnitude)(RE(last[-1]));
  else if (its % 10 == 0)
    t = h[start * ld + start] + (R)0.75 * RNAME(magnitude)(RE(h[(start + 1) * ld + start]));
  else
    t = NAME(wilkinson)(last, ld);
  T v[2];
  int64_t m = end - 1;
  for (;; m--) {
    const T *at = h + m * ld + m;
    T gap = at[0] - t;
    R off = RE(at[ld]), s = NAME(size)(gap) + RNAME(magnitude)(off);
    v[0] = gap / s, v[1] = off / s;
    if (m == start) break;
    if (RNAME(magnitude)(RE(at[-1])) * RNAME(magnitude)(RE(v[1])) <=
        2 * R_EPSILON * (NAME(size)(v[0]) * (NAME(size)(at[0]) + NAME(size)(at[ld + 1]))))
      break;
  }
  for (int64_t k = m; k < end; k++) {
    T *at = h + k * ld + k;
    if (k > m) v[0] = at[-1], v[1] = at[ld - 1];
    T t1 = NAME(reflector)(&v[0], &v[1], 1, 1);
    if (k > m) at[-1] = v[0], at[ld - 1] = 0;
    T v2 = v[1], v2_conj = NAME(conjugate)(v2), t1_conj = NAME(conjugate)(t1);
    R t2 = RE(t1 * v2);
    T *restrict x = at, *restrict y = at + ld;
    for (int64_t j = 0; j < n - k; j++) {
      T sum = t1_conj * x[j] + t2 * y[j];
      x[j] -= sum, y[j] -= sum * v2;
    }
    int64_t rows = smaller(k + 2, end) + 1;
    for (int64_t r = 0; r < rows; r++) {
      T *pair = h + r * ld + k, sum = t1 * pair[0] + t2 * pair[1];
      pair[0] -= sum, pair[1] -= sum * v2_conj;
    }
    T *restrict zx = zt + k * ldz, *restrict zy = zx + ldz;
    for (int64_t j = 0; j < n; j++) {
      T sum = t1 * zx[j] + t2 * zy[j];
      zx[j] -= sum, zy[j] -= sum * v2_conj;
    }
    if (k == m && m > start) { /* h[m][m - 1] takes 1 - t1: the basis is turned to match */
      T f = 1 - t1;
      f = f / RNAME(length)(RE(f), IM(f), 0);
      h[(m + 1) * ld + m] *= NAME(conjugate)(f);
      if (m + 2 <= end) h[(m + 2) * ld + m + 1] *= f;
      for (int64_t j = m; j <= end; j++)
        if (j != m + 1) NAME(turn_basis)(h, ld, n, zt, ldz, j, j + 1, j, f);
    }
  }
  T off = h[end * ld + end - 1];
  if (IM(off) != 0) {
    R size = RNAME(length)(RE(off), IM(off), 0);
    h[end * ld + end - 1] = size;
    NAME(turn_basis)(h, ld, n, zt, ldz, end, end + 1, end, NAME(conjugate)(off / size));
  }
}

/* h becomes upper triangular, zt's rows are rotated along.  False where it is not found. */
ONCE bool NAME(schur_form)(T *h, int64_t ld, int64_t n, T *zt, int64_t ldz) {
  for (int64_t i = 1; i < n; i++) {
    T off = h[i * ld + i - 1];
    if (IM(off) == 0) continue;
    R size = RNAME(length)(RE(off), IM(off), 0);
    NAME(turn_basis)(h, ld, n, zt, ldz, i, i, smaller(n, i + 2), NAME(conjugate)(off / size));
    h[i * ld + i - 1] = size;
  }
  int64_t budget = 30 * larger(10, n), its = 0;
  for (int64_t end = n - 1; end >= 0;) {
    int64_t start = NAME(block_start)(h, ld, n, end);
    if (start > 0) h[start * ld + start - 1] = 0;
    if (start == end) {
      end--, its = 0;
      continue;
    }
    if (budget-- <= 0) return false;
    NAME(francis_step)(h, ld, n, zt, ldz, start, end, ++its);
  }
  return true;
}
#endif
