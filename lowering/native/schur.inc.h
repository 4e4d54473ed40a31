/* Matrices without symmetry: Hessenberg and Schur forms, eigenvectors (a template, see each.h). */
#include "multiply.h"
#include "lanes.h"
#include "householder.h"
#include "passes.h"
#include "hessenberg.h"
#include "francis_real.h"
#include "francis_complex.h"
#include "balance.h"

#define GEHRD_WORK(n) ((n) * (n) + 64 * (n) + 512)
#define SCHUR_WORK(n) (3 * (n) * (n) + 200 * (n) + 4096)

/* work: n^2 + 64 n + 512 elements of T */
ENTRY(gehrd)(const T *a, int64_t a_at, T *packed, int64_t packed_at, T *taus, int64_t taus_at,
             T *work, int64_t work_at, int64_t batch, int64_t n, int64_t group, int64_t groups) {
  int64_t ld = STRIDE(n);
  T *c = work + work_at + group * GEHRD_WORK(n), *free = c + n * ld;
  FOR_GROUP(b) {
    T *to = packed + packed_at + b * n * n;
    const T *from = a + a_at + b * n * n;
    for (int64_t i = 0; i < n; i++) {
      NAME(copy)(c + i * ld, from + i * n, n);
      NAME(fill)(c + i * ld + n, ld - n, 0);
    }
    NAME(hessenberg)(c, ld, n, taus + taus_at + b * larger(n - 1, 0), free);
    for (int64_t i = 0; i < n; i++) NAME(copy)(to + i * n, c + i * ld, n);
  }
}

/* t, z: the Schur form of up D^-1 a D and its vectors, D the powers of two in `scales` where given.
 * 0 where there is none, else 1 / up. */
static UNUSED R NAME(schur)(const T *a, T *t, T *z, R *scales, T *work, int64_t n) {
  const R small = RNAME(root)(R_MIN / R_EPSILON), big = 1 / small;
  int64_t ld = STRIDE(n);
  T *c = work, *h = c + n * ld, *zt = h + n * ld, *taus = zt + n * n, *free = taus + n;
  R most = 0;
  for (int64_t i = 0; i < n * n; i++) {
    R size = NAME(size)(a[i]);
    if (!(size <= R_MAX)) return 0;
    most = size > most ? size : most;
  }
  R up = 1;
  if (most > 0 && most < small) up = most < R_MIN ? 1 / R_MIN : small / most;
  if (most > big) up = big / most;
  for (int64_t i = 0; i < n; i++) {
    for (int64_t j = 0; j < n; j++) c[i * ld + j] = NAME(scale)(a[i * n + j], up);
    NAME(fill)(c + i * ld + n, ld - n, 0);
  }
  if (scales) NAME(balance)(c, ld, n, scales);
  NAME(hessenberg)(c, ld, n, taus, free);
  for (int64_t i = 0; i < n; i++) {
    z[i] = z[i * n] = i == 0;
    for (int64_t j = 0; j < n; j++) h[i * ld + j] = i <= j + 1 ? c[i * ld + j] : (T)0;
  }
  if (n > 1)
    NAME(orthogonal)(NAME(view_of)(c + ld, ld), taus, z + n + 1, n, n - 1, n - 1, n - 1, free);
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < n; j++) zt[j * n + i] = z[i * n + j];
  if (!NAME(schur_form)(h, ld, n, zt, n)) return 0;
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < n; j++) {
      z[i * n + j] = zt[j * n + i];
      t[i * n + j] = i > j + 1 || (COMPLEX && i > j) ? (T)0 : h[i * ld + j];
    }
  return 1 / up;
}

/* work: 3 n^2 + 200 n + 4096 elements of T */
ENTRY(schur)(const T *a, int64_t a_at, T *t, int64_t t_at, T *z, int64_t z_at, T *work,
             int64_t work_at, int64_t batch, int64_t n, int64_t group, int64_t groups) {
  FOR_GROUP(b) {
    T *form = t + t_at + b * n * n, *vectors = z + z_at + b * n * n;
    R back = NAME(schur)(a + a_at + b * n * n, form, vectors, (R *)0,
                         work + work_at + group * SCHUR_WORK(n), n);
    for (int64_t i = 0; back != 1 && back != 0 && i < n * n; i++)
      form[i] = NAME(scale)(form[i], back);
    if (back != 0) continue;
    NAME(fill)(form, n * n, NAME(make)(RNAME(nan)(), RNAME(nan)()));
    NAME(fill)(vectors, n * n, NAME(make)(RNAME(nan)(), RNAME(nan)()));
  }
}

/* ---- geev: both versions in the complex passes */
#if COMPLEX
#define GEEV_WORK(n) (5 * (n) * (n) + 240 * (n) + 4096)

/* x[from..end) and sums and scale such that sum / pivot does not overflow; the new element. */
static T NAME(safe_quotient)(T sum, T pivot, R least, T *x, T *sums, int64_t from, int64_t end,
                             int64_t stride) {
  const R limit = sizeof(R) == 4 ? (R)0x1p30 : (R)0x1p300;
  if (NAME(size)(pivot) < least) pivot = least;
  R size = NAME(size)(sum), allowed = NAME(size)(pivot) < 1 ? NAME(size)(pivot) * limit : limit;
  if (size > allowed) {
    R down = allowed / size;
    sum = NAME(scale)(sum, down);
    for (int64_t i = from; i < end; i++) {
      x[i * stride] = NAME(scale)(x[i * stride], down);
      if (sums) sums[i] = NAME(scale)(sums[i], down);
    }
  }
  return NAME(divide)(sum, pivot);
}

/* Columns of v, scaled to length 1 with their largest element real. */
static void NAME(normalize)(T *v, int64_t n, const R *scales, bool inverse) {
  for (int64_t k = 0; k < n; k++) {
    for (int64_t i = 0; i < n; i++) {
      R by = inverse ? 1 / scales[i] : scales[i];
      v[i * n + k] = NAME(scale)(v[i * n + k], by);
    }
    R length = NAME(norm)(v + k, n, n), most = -1;
    int64_t best = 0;
    for (int64_t i = 0; i < n; i++) {
      T x = v[i * n + k] = v[i * n + k] / length;
      R squares = RE(x) * RE(x) + IM(x) * IM(x);
      if (squares > most) most = squares, best = i;
    }
    T turn = NAME(conjugate)(v[best * n + k]) / RNAME(root)(most);
    for (int64_t i = 0; i < n; i++) v[i * n + k] *= turn;
    v[best * n + k] = RE(v[best * n + k]);
  }
}

/* Eigenvectors of z t z^H: t is upper triangular, work n^2 + n. */
static void NAME(eigenvectors)(const T *t, const T *z, T *vl, T *vr, const R *scales, T *work,
                               int64_t n) {
  T *x = work, *sums = x + n * n;
  R most = 0;
  for (int64_t i = 0; i < n * n; i++) most = NAME(size)(t[i]) > most ? NAME(size)(t[i]) : most;
  R least = most * R_EPSILON * R_EPSILON;
  least = least > R_MIN / R_EPSILON * (R)n ? least : R_MIN / R_EPSILON * (R)n;
  /* right: (t - t_kk) x = 0 upwards; x is kept transposed, a vector a row */
  for (int64_t k = 0; k < n; k++) {
    T *row = x + k * n;
    NAME(fill)(row, n, 0);
    row[k] = 1;
    R close = 2 * R_EPSILON * NAME(size)(t[k * n + k]);
    for (int64_t i = k - 1; i >= 0; i--) {
      T sum = 0;
      for (int64_t j = i + 1; j <= k; j++) sum -= t[i * n + j] * row[j];
      row[i] = NAME(safe_quotient)(sum, t[i * n + i] - t[k * n + k], close > least ? close : least,
                                   row, (T *)0, i + 1, k + 1, 1);
    }
  }
  NAME(fill)(vr, n * n, 0);
  NAME(multiply)(vr, n, NAME(view_of)(z, n), NAME(transposed)(NAME(view_of)(x, n)), n, n, n, 1,
                 false);
  NAME(normalize)(vr, n, scales, false);
  /* left: y^H (t - t_kk) = 0 downwards */
  for (int64_t k = 0; k < n; k++) {
    T *row = x + k * n;
    NAME(fill)(row, n, 0);
    NAME(fill)(sums, n, 0);
    row[k] = 1;
    R close = 2 * R_EPSILON * NAME(size)(t[k * n + k]);
    for (int64_t i = k; i < n; i++) {
      if (i > k)
        row[i] = NAME(safe_quotient)(-sums[i], NAME(conjugate)(t[i * n + i] - t[k * n + k]),
                                     close > least ? close : least, row, sums, k, n, 1);
      for (int64_t j = i + 1; j < n; j++) sums[j] += NAME(conjugate)(t[i * n + j]) * row[i];
    }
  }
  NAME(fill)(vl, n * n, 0);
  NAME(multiply)(vl, n, NAME(view_of)(z, n), NAME(transposed)(NAME(view_of)(x, n)), n, n, n, 1,
                 false);
  NAME(normalize)(vl, n, scales, true);
}

/* t and z of a real Schur form made triangular: the value with a positive imaginary part first. */
static void NAME(complex_form)(T *t, T *z, int64_t n) {
  for (int64_t m = n - 1; m > 0; m--) {
    R low = RE(t[m * n + m - 1]), high = RE(t[(m - 1) * n + m]);
    if (low == 0) continue;
    R w = RNAME(root)(RNAME(magnitude)(low)) * RNAME(root)(RNAME(magnitude)(high));
    R length = RNAME(length)(w, low, 0);
    T c = NAME(make)(0, w / length), c_conj = NAME(conjugate)(c);
    R s = low / length, mean = RE(t[m * n + m]);
    for (int64_t j = m - 1; j < n; j++) {
      T x = t[(m - 1) * n + j], y = t[m * n + j];
      t[(m - 1) * n + j] = c_conj * x + s * y;
      t[m * n + j] = c * y - s * x;
    }
    for (int64_t i = 0; i <= m; i++) {
      T x = t[i * n + m - 1], y = t[i * n + m];
      t[i * n + m - 1] = c * x + s * y;
      t[i * n + m] = c_conj * y - s * x;
    }
    for (int64_t i = 0; i < n; i++) {
      T x = z[i * n + m - 1], y = z[i * n + m];
      z[i * n + m - 1] = c * x + s * y;
      z[i * n + m] = c_conj * y - s * x;
    }
    t[m * n + m - 1] = 0;
    t[(m - 1) * n + m - 1] = NAME(make)(mean, w);
    t[m * n + m] = NAME(make)(mean, -w);
  }
}

static void NAME(no_eigenvalues)(T *values, T *left, T *right, int64_t n) {
  T nan = NAME(make)(RNAME(nan)(), RNAME(nan)());
  NAME(fill)(values, n, nan), NAME(fill)(left, n * n, nan), NAME(fill)(right, n * n, nan);
}

/* work: 5 n^2 + 240 n + 4096 elements of T */
ENTRY(geev)(const T *a, int64_t a_at, T *w, int64_t w_at, T *vl, int64_t vl_at, T *vr,
            int64_t vr_at, T *work, int64_t work_at, int64_t batch, int64_t n, int64_t group,
            int64_t groups) {
  FOR_GROUP(b) {
    T *values = w + w_at + b * n, *left = vl + vl_at + b * n * n, *right = vr + vr_at + b * n * n;
    T *t = work + work_at + group * GEEV_WORK(n), *z = t + n * n;
    R *scales = (R *)(z + n * n);
    T *free = z + n * n + n;
    R back = NAME(schur)(a + a_at + b * n * n, t, z, scales, free, n);
    if (back == 0) {
      NAME(no_eigenvalues)(values, left, right, n);
      continue;
    }
    for (int64_t i = 0; i < n; i++) values[i] = NAME(scale)(t[i * n + i], back);
    NAME(eigenvectors)(t, z, left, right, scales, free, n);
  }
}

/* Of real matrices; w, vl, vr and work are complex, pairs are conjugates, what is real is real.
 * work: 5 n^2 + 240 n + 4096 elements of the complex type */
void RNAME(calque_geev)(
    const R *a, int64_t a_at, T *w, int64_t w_at, T *vl, int64_t vl_at, T *vr, int64_t vr_at,
    T *work, int64_t work_at, int64_t batch, int64_t n, int64_t group, int64_t groups) {
  FOR_GROUP(b) {
    T *values = w + w_at + b * n, *left = vl + vl_at + b * n * n, *right = vr + vr_at + b * n * n;
    T *t = work + work_at + group * GEEV_WORK(n), *z = t + n * n;
    R *scales = (R *)(z + n * n);
    T *free = z + n * n + n;
    R *real_t = (R *)free, *real_z = real_t + n * n;
    R back = RNAME(schur)(a + a_at + b * n * n, real_t, real_z, scales, real_z + n * n, n);
    if (back == 0) {
      NAME(no_eigenvalues)(values, left, right, n);
      continue;
    }
    for (int64_t i = 0; i < n * n; i++) t[i] = real_t[i], z[i] = real_z[i];
    NAME(complex_form)(t, z, n);
    for (int64_t i = 0; i < n; i++) values[i] = NAME(scale)(t[i * n + i], back);
    NAME(eigenvectors)(t, z, left, right, scales, free, n);
    for (int64_t k = 0; k < n; k++) {
      bool second = IM(values[k]) < 0;
      if (IM(values[k]) > 0) continue;
      for (int64_t i = 0; i < n; i++) {
        T *l = left + i * n + k, *r = right + i * n + k;
        *l = second ? NAME(conjugate)(l[-1]) : (T)RE(*l);
        *r = second ? NAME(conjugate)(r[-1]) : (T)RE(*r);
      }
    }
  }
}
#endif
