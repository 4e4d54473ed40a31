/* The calls of driver.c for one type (a template of lowering/native/each.h). */
#ifndef KINDS
#define KINDS 6
#define MARGIN 1 /* the offset that is passed; the buffer ends with its last element */
#define IN(name) name, MARGIN
#define FREE(name) free((void *)name)
#define DECLARE(name, ...) void NAME(calque_##name)(__VA_ARGS__)
#define TAIL int64_t, int64_t
#define CT const T *, int64_t
#define MT T *, int64_t
#define MR R *, int64_t
#define MI int32_t *, int64_t
#define N int64_t
#endif

#pragma GCC diagnostic ignored "-Wunused-function"
/* Declared weak: a run links the object of one family only. */
#define WEAK __attribute__((weak))
WEAK DECLARE(cholesky, CT, MT, N, N, TAIL);
WEAK DECLARE(lu, CT, MT, MI, MI, N, N, N, TAIL);
WEAK DECLARE(triangular_solve, CT, CT, MT, N, N, N, N, N, N, N, N, TAIL);
WEAK DECLARE(geqrf, CT, MT, MT, MT, N, N, N, TAIL);
WEAK DECLARE(householder_product, CT, CT, MT, MT, N, N, N, N, TAIL);
WEAK DECLARE(geqp3, CT, MT, MI, MT, MT, N, N, N, TAIL);
WEAK DECLARE(eigh, CT, MT, MR, MT, N, N, TAIL);
WEAK DECLARE(eigvalsh, CT, MR, MT, N, N, TAIL);
WEAK DECLARE(sytrd, CT, MT, MR, MR, MT, MT, N, N, N, TAIL);
WEAK DECLARE(gtsv, CT, CT, CT, CT, MT, MT, N, N, N, TAIL);
WEAK DECLARE(svd, CT, MT, MR, MT, MT, N, N, N, N, TAIL);
WEAK DECLARE(svdvals, CT, MR, MT, N, N, N, TAIL);
WEAK DECLARE(gehrd, CT, MT, MT, MT, N, N, TAIL);
WEAK DECLARE(schur, CT, MT, MT, MT, N, N, TAIL);
#if COMPLEX
WEAK DECLARE(geev, CT, MT, MT, MT, MT, N, N, TAIL);
WEAK void RNAME(calque_geev)(const R *, int64_t, MT, MT, MT, MT, N, N, TAIL);
#endif

static T *NAME(room)(int64_t count) { return malloc(sizeof(T) * (size_t)(count + MARGIN)); }
static R *NAME(reals)(int64_t count) { return malloc(sizeof(R) * (size_t)(count + MARGIN)); }
static int32_t *NAME(ints)(int64_t count) { return malloc(sizeof(int32_t) * (size_t)(count + MARGIN)); }

static T *NAME(filled)(int64_t count, int kind) {
  T *x = NAME(room)(count);
  uint32_t state = 12345;
  for (int64_t i = 0; i < count + MARGIN; i++) {
    R parts[2];
    for (int p = 0; p < 2; p++) {
      state = state * 1664525u + 1013904223u;
      R value = (R)(int32_t)state / (R)2147483648.0;
      if (kind == 1) value = 0;
      if (kind == 2) value = (R)NAN;
      if (kind == 3) value = i % 3 ? value : (R)INFINITY;
      if (kind == 4) value *= R_MAX / 2;
      if (kind == 5) value *= R_MIN * 2;
      parts[p] = value;
    }
    memcpy(&x[i], parts, sizeof(T));
  }
  return x;
}

static void NAME(drive_factor)(int64_t batch, int64_t m, int64_t n, int kind, int64_t group) {
  int64_t least = m < n ? m : n;
  T *a = NAME(filled)(batch * m * n, kind), *to = NAME(room)(batch * m * n);
  T *square = NAME(filled)(batch * n * n, kind), *other = NAME(room)(batch * n * n);
  for (int64_t i = 0; i < batch * n; i++) square[MARGIN + i * n + i % n] += 4;
  int32_t *pivots = NAME(ints)(batch * least), *order = NAME(ints)(batch * m);
  NAME(calque_lu)(IN(a), IN(to), IN(pivots), IN(order), batch, m, n, group, 2);
  NAME(calque_cholesky)(IN(square), IN(other), batch, n, group, 2);
  for (int64_t bits = 0; bits < 32; bits++)
    NAME(calque_triangular_solve)(IN(square), IN(a), IN(to), batch, n, m, bits & 1, bits >> 1 & 1,
                                  bits >> 2 & 1, bits >> 3 & 1, bits >> 4, group, 2);
  FREE(a), FREE(to), FREE(square), FREE(other), FREE(pivots), FREE(order);
}

static void NAME(drive_orthogonal)(int64_t batch, int64_t m, int64_t n, int kind, int64_t group) {
  int64_t least = m < n ? m : n, size = 2 * (32 * m + 64 * n + 2048);
  T *a = NAME(filled)(batch * m * n, kind), *to = NAME(room)(batch * m * n), *work = NAME(room)(size);
  T *taus = NAME(filled)(batch * least, kind), *more = NAME(room)(2 * 3 * n);
  int32_t *order = NAME(ints)(batch * n);
  NAME(calque_geqrf)(IN(a), IN(to), IN(taus), IN(work), batch, m, n, group, 2);
  NAME(calque_geqp3)(IN(a), IN(to), IN(order), IN(taus), IN(more), batch, m, n, group, 2);
  if (m >= n)
    NAME(calque_householder_product)(IN(a), IN(taus), IN(to), IN(work), batch, m, n, least, group, 2);
  FREE(a), FREE(to), FREE(work), FREE(taus), FREE(more), FREE(order);
}

static void NAME(drive_eigen)(int64_t batch, int64_t m, int64_t n, int kind, int64_t group) {
  T *a = NAME(filled)(batch * n * n, kind), *v = NAME(room)(batch * n * n);
  T *work = NAME(room)(2 * (2 * n * n + 192 * n + 2048)), *less = NAME(room)(2 * (n * n + 16 * n));
  T *taus = NAME(room)(batch * (n - 1)), *b = NAME(filled)(batch * n * m, kind);
  T *x = NAME(room)(batch * n * m), *least = NAME(room)(2 * 3 * n), *d = NAME(filled)(batch * n, kind);
  R *w = NAME(reals)(batch * n), *e = NAME(reals)(batch * (n - 1));
  NAME(calque_eigh)(IN(a), IN(v), IN(w), IN(work), batch, n, group, 2);
  NAME(calque_eigvalsh)(IN(a), IN(w), IN(less), batch, n, group, 2);
  for (int64_t lower = 0; lower < 2; lower++)
    NAME(calque_sytrd)(IN(a), IN(v), IN(w), IN(e), IN(taus), IN(less), batch, n, lower, group, 2);
  NAME(calque_gtsv)(IN(d), IN(d), IN(d), IN(b), IN(x), IN(least), batch, n, m, group, 2);
  FREE(a), FREE(v), FREE(work), FREE(less), FREE(taus), FREE(b), FREE(x), FREE(least), FREE(d);
  FREE(w), FREE(e);
}

static void NAME(drive_singular)(int64_t batch, int64_t m, int64_t n, int kind, int64_t group) {
  int64_t p = m > n ? m : n, k = m > n ? n : m;
  T *a = NAME(filled)(batch * m * n, kind);
  R *s = NAME(reals)(batch * k);
  for (int64_t full = 0; full < 2; full++) {
    int64_t c = full ? p : k, size = p * (2 * k + 208) + 2 * k * (k + 80) + p * c + 4096;
    T *work = NAME(room)(2 * size), *u = NAME(room)(batch * m * (full ? m : k));
    T *vh = NAME(room)(batch * n * (full ? n : k));
    NAME(calque_svd)(IN(a), IN(u), IN(s), IN(vh), IN(work), batch, m, n, full, group, 2);
    FREE(work), FREE(u), FREE(vh);
  }
  T *work = NAME(room)(2 * (p * (2 * k + 208) + 4096));
  NAME(calque_svdvals)(IN(a), IN(s), IN(work), batch, m, n, group, 2);
  FREE(a), FREE(s), FREE(work);
}

static void NAME(drive_schur)(int64_t batch, int64_t n, int kind, int64_t group) {
  T *a = NAME(filled)(batch * n * n, kind), *t = NAME(room)(batch * n * n);
  T *z = NAME(room)(batch * n * n), *taus = NAME(room)(batch * (n - 1));
  T *less = NAME(room)(2 * (n * n + 64 * n + 512)), *work = NAME(room)(2 * (3 * n * n + 200 * n + 4096));
  NAME(calque_gehrd)(IN(a), IN(t), IN(taus), IN(less), batch, n, group, 2);
  NAME(calque_schur)(IN(a), IN(t), IN(z), IN(work), batch, n, group, 2);
#if COMPLEX
  T *w = NAME(room)(batch * n), *more = NAME(room)(2 * (5 * n * n + 240 * n + 4096));
  R *real = RNAME(filled)(batch * n * n, kind);
  NAME(calque_geev)(IN(a), IN(w), IN(t), IN(z), IN(more), batch, n, group, 2);
  RNAME(calque_geev)(IN(real), IN(w), IN(t), IN(z), IN(more), batch, n, group, 2);
  FREE(w), FREE(more), FREE(real);
#endif
  FREE(a), FREE(t), FREE(z), FREE(taus), FREE(less), FREE(work);
}

static void NAME(drive)(const char *family) {
  static const int64_t shapes[][3] = {{3, 1, 1},  {2, 2, 3},   {3, 8, 7},   {1, 16, 16}, {2, 17, 19},
                                      {1, 35, 9}, {1, 9, 35},  {1, 40, 40}, {1, 65, 33}, {1, 2, 50}, {0, 3, 3}};
  for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
    for (int kind = 0; kind < KINDS; kind++)
      for (int64_t group = 0; group < 2; group++) {
        int64_t batch = shapes[i][0], m = shapes[i][1], n = shapes[i][2];
        if (!strcmp(family, "factor")) NAME(drive_factor)(batch, m, n, kind, group);
        if (!strcmp(family, "orthogonal")) NAME(drive_orthogonal)(batch, m, n, kind, group);
        if (!strcmp(family, "eigen")) NAME(drive_eigen)(batch, m, n, kind, group);
        if (!strcmp(family, "schur")) NAME(drive_schur)(batch, n, kind, group);
        if (!strcmp(family, "singular")) NAME(drive_singular)(batch, m, n, kind, group);
      }
}
