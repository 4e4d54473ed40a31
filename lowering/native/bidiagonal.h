/* Singular values of real bidiagonal matrices, and reduction of any matrix to them
 * (a template, see each.h; needs householder.h, passes.h and rotations.h).
 *
 * Implicit QR steps, without a shift where the small values ask for it: Demmel and Kahan, "Accurate
 * singular values of bidiagonal matrices" (1990); their tests as in LAPACK's bdsqr.
 */
#if !COMPLEX
/* The smaller singular value of [f g; 0 h]. */
static UNUSED R NAME(least_of_two)(R f, R g, R h) {
  f = NAME(magnitude)(f), g = NAME(magnitude)(g), h = NAME(magnitude)(h);
  R low = f < h ? f : h, high = f < h ? h : f;
  if (low == 0) return 0;
  R sum = 1 + low / high, gap = (high - low) / high;
  if (g < high) {
    R ratio = g / high * (g / high);
    return low * (2 / (NAME(root)(sum * sum + ratio) + NAME(root)(gap * gap + ratio)));
  }
  R ratio = high / g;
  if (ratio == 0) return low * high / g;
  sum *= ratio, gap *= ratio;
  return 2 * (low / (NAME(root)(1 + sum * sum) + NAME(root)(1 + gap * gap))) * ratio;
}

/* One sweep over d[first], d[first + step], ... of count rotations; `near` gets those on the side
 * where the bulge is made, `far` those on the other. */
static UNUSED void NAME(chase)(R *d, R *e, int64_t first, int64_t step, int64_t count, R shift,
                               NAME(rotations) *near, NAME(rotations) *far) {
  int64_t gap = step < 0 ? -1 : 0, i = first; /* e between i and i + step lies at i + gap */
  R *near_pairs = near->rows ? NAME(next_sweep)(near, first, step, count) : (R *)0;
  R *far_pairs = far->rows ? NAME(next_sweep)(far, first, step, count) : (R *)0;
  R c = 1, s = 0, far_c = 1, far_s = 0, r;
  R f = (NAME(magnitude)(d[i]) - shift) *
        (NAME(signed_as)(1, d[i]) + (shift == 0 ? 0 : shift / d[i]));
  R g = e[i + gap];
  for (int64_t k = 0; k < count; k++, i += step) {
    if (shift == 0) {
      NAME(rotation)(d[i] * c, e[i + gap], &c, &s, &r);
      if (k > 0) e[i - step + gap] = far_s * r;
      NAME(rotation)(far_c * r, d[i + step] * s, &far_c, &far_s, &d[i]);
    } else {
      NAME(rotation)(f, g, &c, &s, &r);
      if (k > 0) e[i - step + gap] = r;
      f = c * d[i] + s * e[i + gap];
      R off = c * e[i + gap] - s * d[i], next = c * d[i + step];
      g = s * d[i + step];
      NAME(rotation)(f, g, &far_c, &far_s, &r);
      d[i] = r;
      f = far_c * off + far_s * next;
      d[i + step] = far_c * next - far_s * off;
      if (k + 1 < count) {
        g = far_s * e[i + step + gap];
        e[i + step + gap] *= far_c;
      }
    }
    if (near_pairs) near_pairs[2 * k] = c, near_pairs[2 * k + 1] = s;
    if (far_pairs) far_pairs[2 * k] = far_c, far_pairs[2 * k + 1] = far_s;
  }
  if (shift == 0) {
    R h = d[i] * c;
    d[i] = h * far_c;
    f = h * far_s;
  }
  e[i - step + gap] = f;
}

/* Whether some e of the block became 0 (negligible beside tol times what Demmel and Kahan's
 * recurrence gives along the way from `first`); else *least is a bound below the singular values.
 */
static UNUSED bool NAME(splits)(const R *d, R *e, int64_t first, int64_t step, int64_t count, R tol,
                                R *least) {
  int64_t gap = step < 0 ? -1 : 0, last = first + step * count;
  R *end = &e[last - step + gap];
  if (NAME(magnitude)(*end) <= tol * NAME(magnitude)(d[last])) {
    *end = 0;
    return true;
  }
  R mu = NAME(magnitude)(d[first]);
  *least = mu;
  for (int64_t i = first; i != last; i += step) {
    R off = NAME(magnitude)(e[i + gap]);
    if (off <= tol * mu) {
      e[i + gap] = 0;
      return true;
    }
    mu = NAME(magnitude)(d[i + step]) * (mu / (mu + off));
    *least = mu < *least ? mu : *least;
  }
  return false;
}

/* Singular values of the upper bidiagonal (d, e) in d, signed and unsorted; rotations of rows go to
 * `left`, of columns to `right`.  False where they are not found. */
ONCE bool NAME(bidiagonal_values)(R *d, R *e, int64_t n, NAME(rotations) *left,
                                  NAME(rotations) *right) {
  const R tol = (sizeof(R) == 4 ? 10 : 80) * R_EPSILON; /* eps^(-1/8), at least 10 */
  R mu = n ? NAME(magnitude)(d[0]) : 0, least = mu;
  for (int64_t i = 1; i < n && least > 0; i++) {
    mu = NAME(magnitude)(d[i]) * (mu / (mu + NAME(magnitude)(e[i - 1])));
    least = mu < least ? mu : least;
  }
  R threshold = tol * least / NAME(root)((R)n), floor = 6 * (R)n * (R)n * R_MIN;
  threshold = threshold > floor ? threshold : floor;
  int64_t budget = 40 * n, old_low = -1, old_high = -1;
  bool downwards = true;
  for (int64_t high = n - 1; high > 0;) {
    int64_t low = high;
    R most = NAME(magnitude)(d[high]);
    for (; low > 0; low--) {
      R off = NAME(magnitude)(e[low - 1]), on = NAME(magnitude)(d[low - 1]);
      if (off <= threshold) {
        e[low - 1] = 0;
        break;
      }
      most = on > most ? on : most;
      most = off > most ? off : most;
    }
    if (low == high) {
      high--;
      continue;
    }
    if (budget-- <= 0) return false;
    if (low > old_high || high < old_low || old_low < 0)
      downwards = NAME(magnitude)(d[low]) >= NAME(magnitude)(d[high]);
    old_low = low, old_high = high;
    int64_t count = high - low, first = downwards ? low : high, step = downwards ? 1 : -1;
    if (NAME(splits)(d, e, first, step, count, tol, &least)) continue;
    R shift = 0;
    R careful = tol / 100 > R_EPSILON ? tol / 100 : R_EPSILON;
    if ((R)n * tol * (least / most) > careful) {
      shift = downwards ? NAME(least_of_two)(d[high - 1], e[high - 1], d[high])
                        : NAME(least_of_two)(d[low], e[low], d[low + 1]);
      R ratio = shift / NAME(magnitude)(d[first]);
      if (ratio * ratio < R_EPSILON) shift = 0;
    }
    NAME(chase)(d, e, first, step, count, shift, downwards ? right : left,
                downwards ? left : right);
    R *end = &e[downwards ? high - 1 : low];
    if (NAME(magnitude)(*end) <= threshold) *end = 0;
  }
  if (left->rows) NAME(rotate_all)(left);
  if (right->rows) NAME(rotate_all)(right);
  return true;
}
#endif

/* Q^H c P = (d, e), upper bidiagonal: LAPACK's gebrd, of c (m x n, m >= n; ld a multiple of 16,
 * zeros after column n).  Column i below row i holds the vectors of Q, row i after column i + 1
 * those of P. One pass brings c up to date with the last two reflections and weighs its rows by the
 * next one (Howell, Demmel, Fulton, Hammarling and Marmol, "Cache efficient bidiagonalization using
 * BLAS 2.5 operators", 2008).  work: 3 m + 6 ld. */
ONCE void NAME(bidiagonalize)(T *c, int64_t ld, int64_t m, int64_t n, R *d, R *e, T *tauq, T *taup,
                              T *work) {
  T *u = work, *next = u + m, *x = next + m, *z = x + m, *cv = z + 2 * ld, *w = cv + 2 * ld;
  NAME(fill)(work, 3 * m + 6 * ld, 0);
  for (int64_t i = 0; i < n; i++) {
    T *row = c + i * ld;
    for (int64_t r = i; r < m; r++) c[r * ld + i] -= u[r] * z[i] + x[r] * cv[i];
    tauq[i] = NAME(reflector)(row + i, row + ld + i, ld, m - i - 1);
    d[i] = RE(row[i]);
    if (i + 1 == n) break;
    next[i] = 1;
    for (int64_t r = i + 1; r < m; r++) next[r] = c[r * ld + i];
    z[i] = cv[i] = 0;
    NAME(turn)(z, i, i + 1, ld), NAME(turn)(cv, i, i + 1, ld);
    const int64_t start = (i + 1) / VL * VL, count = (ld - start) * PARTS / VL;
    NAME(fill)(w, 2 * ld, 0);
    int64_t r = i;
    for (; r + 4 <= m; r += 4)
      NAME(update_rows)(4, c + r * ld + start, ld, count, ld, u + r, x + r, z + start, cv + start,
                        next + r, w + start);
    for (; r < m; r++)
      NAME(update_rows)(1, c + r * ld + start, ld, count, ld, u + r, x + r, z + start, cv + start,
                        next + r, w + start);
    for (int64_t j = i + 1; j < n; j++) {
      T sum = COMPLEX ? w[j] + NAME(make)(-IM(w[ld + j]), RE(w[ld + j])) : w[j];
      z[j] = NAME(conjugate)(tauq[i]) * sum;
      row[j] = NAME(conjugate)(row[j] - z[j]);
    }
    NAME(turn)(z, i + 1, n, ld);
    T alpha = row[i + 1];
    taup[i] = NAME(reflector)(&alpha, row + i + 2, 1, n - i - 2);
    e[i] = RE(alpha);
    row[i + 1] = 1;
    T dot = 0;
    for (int64_t j = i + 1; j < n; j++) cv[j] = NAME(conjugate)(row[j]), dot += z[j] * row[j];
    NAME(turn)(cv, i + 1, n, ld);
    T *held = u;
    u = next, next = held;
    for (r = i + 1; r + 4 <= m; r += 4)
      NAME(weigh_columns)(4, c + r * ld + start, ld, count, ld, cv + start, x + r);
    for (; r < m; r++) NAME(weigh_columns)(1, c + r * ld + start, ld, count, ld, cv + start, x + r);
    for (r = i + 1; r < m; r++) x[r] = taup[i] * (x[r] - u[r] * dot);
  }
}
