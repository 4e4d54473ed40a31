/* Real Schur forms of real Hessenberg matrices (a template, see each.h; real types only).
 *
 * Francis' implicit double shift with the tests for small subdiagonals of Ahues and Tisseur, blocks
 * of two standardized: as LAPACK's lahqr and lanv2.  zt holds the transpose of the vectors.
 */
#if !COMPLEX
/* The rotation that makes [a b; c d] triangular, or a = d and b c < 0. */
static UNUSED void NAME(standardize)(R *a, R *b, R *c, R *d, R *cs, R *sn) {
  *cs = 1, *sn = 0;
  if (*c == 0) return;
  if (*b == 0) {
    R held = *d;
    *cs = 0, *sn = 1, *d = *a, *a = held, *b = -*c, *c = 0;
    return;
  }
  R sign_b = NAME(signed_as)(1, *b), sign_c = NAME(signed_as)(1, *c);
  if (*a - *d == 0 && sign_b != sign_c) return;
  R gap = *a - *d, p = gap / 2, size_b = NAME(magnitude)(*b), size_c = NAME(magnitude)(*c);
  R most = size_b > size_c ? size_b : size_c;
  R less = (size_b > size_c ? size_c : size_b) * sign_b * sign_c;
  R scale = NAME(magnitude)(p) > most ? NAME(magnitude)(p) : most;
  R z = p / scale * p + most / scale * less;
  if (z >= 8 * R_EPSILON) { /* two real values */
    z = p + NAME(signed_as)(NAME(root)(scale) * NAME(root)(z), p);
    R length = NAME(length)(*c, z, 0);
    *a = *d + z;
    *d -= most / z * less;
    *cs = z / length, *sn = *c / length;
    *b -= *c, *c = 0;
    return;
  }
  R sigma = *b + *c, length = NAME(length)(sigma, gap, 0);
  R c1 = NAME(root)((1 + NAME(magnitude)(sigma) / length) / 2);
  R s1 = -(p / (length * c1)) * NAME(signed_as)(1, sigma);
  R aa = *a * c1 + *b * s1, bb = -*a * s1 + *b * c1, cc = *c * c1 + *d * s1,
    dd = -*c * s1 + *d * c1;
  *b = bb * c1 + dd * s1, *c = -aa * s1 + cc * c1;
  R mean = ((aa * c1 + cc * s1) + (-bb * s1 + dd * c1)) / 2;
  *a = *d = mean, *cs = c1, *sn = s1;
  if (*c == 0) return;
  if (*b == 0) {
    *b = -*c, *c = 0, *cs = -s1, *sn = c1;
  } else if (NAME(signed_as)(1, *b) == NAME(signed_as)(1, *c)) {
    R root_b = NAME(root)(NAME(magnitude)(*b)), root_c = NAME(root)(NAME(magnitude)(*c));
    R part = NAME(signed_as)(root_b * root_c, *c), over = 1 / NAME(root)(NAME(magnitude)(*b + *c));
    *a = mean + part, *d = mean - part;
    *b -= *c, *c = 0;
    R c2 = root_b * over, s2 = root_c * over;
    *cs = c1 * c2 - s1 * s2, *sn = c1 * s2 + s1 * c2;
  }
}

/* (x, y) = (c x + s y, c y - s x), `count` of them. */
static UNUSED void NAME(rotate)(R *x, R *y, int64_t stride, int64_t count, R c, R s) {
  for (int64_t i = 0; i < count; i++) {
    R held = c * x[i * stride] + s * y[i * stride];
    y[i * stride] = c * y[i * stride] - s * x[i * stride];
    x[i * stride] = held;
  }
}

/* `size` (2 or 3) neighbouring rows less tau v (v . rows), v[0] = 1. */
static UNUSED void NAME(reflect_rows)(R *restrict rows, int64_t ld, int64_t size, int64_t count,
                                      const R *v, R tau) {
  R *restrict x = rows, *restrict y = rows + ld, *restrict z = rows + (size > 2 ? 2 * ld : 0);
  R v1 = v[1], t1 = tau * v[1];
  if (size == 2) {
    for (int64_t j = 0; j < count; j++) {
      R sum = x[j] + v1 * y[j];
      x[j] -= tau * sum, y[j] -= t1 * sum;
    }
    return;
  }
  R v2 = v[2], t2 = tau * v[2];
  for (int64_t j = 0; j < count; j++) {
    R sum = x[j] + v1 * y[j] + v2 * z[j];
    x[j] -= tau * sum, y[j] -= t1 * sum, z[j] -= t2 * sum;
  }
}

/* The same for columns. */
static UNUSED void NAME(reflect_columns)(R *rows, int64_t ld, int64_t size, int64_t count,
                                         const R *v, R tau) {
  R v1 = v[1], t1 = tau * v[1], v2 = size > 2 ? v[2] : 0, t2 = tau * v2;
  for (int64_t i = 0; i < count; i++) {
    R *x = rows + i * ld;
    R sum = x[0] + v1 * x[1] + (size > 2 ? v2 * x[2] : 0);
    x[0] -= tau * sum, x[1] -= t1 * sum;
    if (size > 2) x[2] -= t2 * sum;
  }
}

/* The first row of the block that ends at row `end`: where a subdiagonal is negligible. */
static UNUSED int64_t NAME(block_start)(const R *h, int64_t ld, int64_t n, int64_t end) {
  const R least = R_MIN / (2 * R_EPSILON) * (R)n, ulp = 2 * R_EPSILON;
  int64_t k = end;
  for (; k > 0; k--) {
    const R *row = h + k * ld + k, *above = row - ld - 1;
    R off = NAME(magnitude)(row[-1]);
    if (off <= least) break;
    R beside = NAME(magnitude)(above[0]) + NAME(magnitude)(row[0]);
    if (beside == 0) {
      if (k > 1) beside += NAME(magnitude)(above[-1]);
      if (k < end) beside += NAME(magnitude)(row[ld]);
    }
    if (off > ulp * beside) continue;
    R up = NAME(magnitude)(above[1]), ab = off > up ? off : up, ba = off > up ? up : off;
    R here = NAME(magnitude)(row[0]), gap = NAME(magnitude)(above[0] - row[0]);
    R aa = here > gap ? here : gap, bb = here > gap ? gap : here, s = aa + ab;
    R allowed = ulp * (bb * (aa / s));
    if (ba * (ab / s) <= (allowed > least ? allowed : least)) break;
  }
  return k;
}

/* One double-shift sweep over rows start..end of h (n x n); its: steps since the last value. */
static UNUSED void NAME(francis_step)(R *h, int64_t ld, int64_t n, R *zt, int64_t ldz,
                                      int64_t start, int64_t end, int64_t its) {
  const R *last = h + end * ld + end;
  R h11 = last[-ld - 1], h21 = last[-1], h12 = last[-ld], h22 = last[0];
  if (its % 10 == 0) { /* an exceptional shift, from the end or the start in turn */
    bool at_end = its % 20 == 0;
    const R *at = at_end ? last : h + start * ld + start;
    R s = at_end ? NAME(magnitude)(at[-1]) + NAME(magnitude)(at[-ld - 2])
                 : NAME(magnitude)(at[ld]) + NAME(magnitude)(at[2 * ld + 1]);
    h11 = h22 = (R)0.75 * s + at[0], h12 = (R)-0.4375 * s, h21 = s;
  }
  R s = NAME(magnitude)(h11) + NAME(magnitude)(h12) + NAME(magnitude)(h21) + NAME(magnitude)(h22);
  R r1 = 0, r2 = 0, i1 = 0; /* the shifts r1 + i i1 and r2 - i i1 */
  if (s != 0) {
    h11 /= s, h12 /= s, h21 /= s, h22 /= s;
    R mean = (h11 + h22) / 2, det = (h11 - mean) * (h22 - mean) - h12 * h21;
    R root = NAME(root)(NAME(magnitude)(det));
    if (det >= 0) {
      r1 = r2 = mean * s, i1 = root * s;
    } else {
      R high = mean + root, low = mean - root;
      r1 = r2 = (NAME(magnitude)(high - h22) <= NAME(magnitude)(low - h22) ? high : low) * s;
    }
  }
  R v[3];
  int64_t m = end - 2;
  for (;; m--) { /* two small subdiagonals in a row end the sweep's range */
    const R *at = h + m * ld + m;
    R off = at[ld];
    s = NAME(magnitude)(at[0] - r2) + NAME(magnitude)(i1) + NAME(magnitude)(off);
    off /= s;
    v[0] = off * at[1] + (at[0] - r1) * ((at[0] - r2) / s) + i1 * (i1 / s);
    v[1] = off * (at[0] + at[ld + 1] - r1 - r2);
    v[2] = off * at[2 * ld + 1];
    s = NAME(magnitude)(v[0]) + NAME(magnitude)(v[1]) + NAME(magnitude)(v[2]);
    v[0] /= s, v[1] /= s, v[2] /= s;
    if (m == start) break;
    R beside = NAME(magnitude)(at[-ld - 1]) + NAME(magnitude)(at[0]) + NAME(magnitude)(at[ld + 1]);
    if (NAME(magnitude)(at[-1]) * (NAME(magnitude)(v[1]) + NAME(magnitude)(v[2])) <=
        2 * R_EPSILON * NAME(magnitude)(v[0]) * beside)
      break;
  }
  for (int64_t k = m; k < end; k++) {
    int64_t size = smaller(3, end - k + 1);
    R *at = h + k * ld + k;
    if (k > m)
      for (int64_t r = 0; r < size; r++) v[r] = at[r * ld - 1];
    R tau = NAME(reflector)(&v[0], &v[1], 1, size - 1);
    if (k > m) {
      at[-1] = v[0], at[ld - 1] = 0;
      if (size > 2) at[2 * ld - 1] = 0;
    } else if (m > start) {
      at[-1] *= 1 - tau;
    }
    NAME(reflect_rows)(at, ld, size, n - k, v, tau);
    NAME(reflect_columns)(h + k, ld, size, smaller(k + 3, end) + 1, v, tau);
    NAME(reflect_rows)(zt + k * ldz, ldz, size, n, v, tau);
  }
}

/* h becomes its Schur form, zt's rows are rotated along.  False where it is not found. */
ONCE bool NAME(schur_form)(R *h, int64_t ld, int64_t n, R *zt, int64_t ldz) {
  int64_t budget = 30 * larger(10, n), its = 0;
  for (int64_t end = n - 1; end >= 0;) {
    int64_t start = NAME(block_start)(h, ld, n, end);
    if (start > 0) h[start * ld + start - 1] = 0;
    if (start < end - 1) {
      if (budget-- <= 0) return false;
      NAME(francis_step)(h, ld, n, zt, ldz, start, end, ++its);
      continue;
    }
    if (start == end - 1) {
      R *at = h + start * ld + start, c, s;
      NAME(standardize)(at, at + 1, at + ld, at + ld + 1, &c, &s);
      NAME(rotate)(at + 2, at + ld + 2, 1, n - end - 1, c, s);
      NAME(rotate)(h + start, h + end, ld, start, c, s);
      NAME(rotate)(zt + start * ldz, zt + end * ldz, 1, n, c, s);
    }
    end = start - 1, its = 0;
  }
  return true;
}
#endif
