/* Singular value decompositions (a template, see each.h). */
#include "multiply.h"
#include "lanes.h"
#include "householder.h"
#include "rotations.h"
#include "passes.h"
#include "bidiagonal.h"

#define VALUES_WORK(most, least) ((most) * (2 * (least) + 16) + 192 * (most) + 4096)
#define SVD_WORK(most, least, columns) \
  (VALUES_WORK(most, least) + 2 * (least) * ((least) + 32) + (most) * (columns) + 96 * (least))

/* 1 where a's elements are neither huge nor tiny, else 1 over its scale; 0 if a is not finite. */
static R NAME(scale_of)(const T *a, int64_t count) {
  const R small = RNAME(root)(R_MIN / R_EPSILON), big = 1 / small;
  R most = 0;
  for (int64_t i = 0; i < count; i++) {
    R size = NAME(size)(a[i]);
    if (!(size <= R_MAX)) return 0;
    most = size > most ? size : most;
  }
  if (most == 0 || (most >= small && most <= big)) return 1;
  return most < R_MIN ? 1 / R_MIN : most < small ? small / most : big / most;
}

#if !COMPLEX
/* order: positions of d from the greatest |d| to the least (insertion into a heap's order). */
static void NAME(descending)(R *d, int32_t *order, int64_t n) {
  for (int64_t i = 0; i < n; i++) order[i] = (int32_t)i;
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
      int32_t x = order[child];
      if (child + 1 < left) {
        int32_t y = order[child + 1];
        if (d[y] < d[x] || (d[y] == d[x] && y > x)) child++, x = y;
      }
      if (d[x] > d[moved] || (d[x] == d[moved] && x < moved)) break;
      order[hole] = x;
    }
    order[hole] = moved;
  }
}
#endif

/* to (rows x columns) = from's adjoint */
static void NAME(put_adjoint)(T *to, const T *from, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++) to[i * columns + j] = NAME(conjugate)(from[j * rows + i]);
}

static void NAME(start_rotations)(RNAME(rotations) *sink, T *rows, T *pairs, int64_t n) {
  sink->rows = (R *)rows, sink->pairs = (R *)pairs;
  sink->ld = STRIDE(n), sink->width = WHOLE(n);
  sink->capacity = 24 * n, sink->used = sink->sweeps = 0;
  if (!rows) return;
  RNAME(fill)(sink->rows, n * sink->ld, 0);
  for (int64_t i = 0; i < n; i++) sink->rows[i * sink->ld + i] = 1;
}

/* Of a (m x n): values; and, where u is given, u and vh of `columns` columns and rows on the longer
 * side.  What is decomposed is a or its adjoint, so that its rows are not fewer than its columns.
 */
static bool NAME(decompose)(const T *a, T *u, R *values, T *vh, T *work, int64_t m, int64_t n,
                            int64_t columns) {
  bool flipped = m < n;
  int64_t rows = larger(m, n), least = smaller(m, n), ld = STRIDE(least);
  T *c = work, *packed = c + rows * ld, *taus = packed + rows * least, *tauq = taus + least;
  T *taup = tauq + least;
  R *d = (R *)(taup + least), *e = d + least;
  int32_t *order = (int32_t *)(e + least);
  T *free = taup + 4 * least;
  R up = NAME(scale_of)(a, m * n);
  if (up == 0) return false;
  bool tall = rows * 5 > least * 8;
  T *first = tall ? packed : c;
  int64_t stride = tall ? least : ld;
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t j = 0; j < least; j++)
      first[i * stride + j] =
          NAME(scale)(flipped ? NAME(conjugate)(a[j * n + i]) : a[i * n + j], up);
    NAME(fill)(first + i * stride + least, stride - least, 0);
  }
  int64_t height = tall ? least : rows;
  if (tall) {
    NAME(qr)(packed, least, rows, least, taus, free);
    for (int64_t i = 0; i < least; i++)
      for (int64_t j = 0; j < ld; j++)
        c[i * ld + j] = j >= i && j < least ? packed[i * least + j] : (T)0;
  }
  NAME(bidiagonalize)(c, ld, height, least, d, e, tauq, taup, free);
  T *left_rows = free + BLOCK_WORK(rows, rows), *right_rows = left_rows + least * ld;
  T *pairs = right_rows + least * ld, *side = pairs + 96 * least;
  RNAME(rotations) left, right;
  NAME(start_rotations)(&left, u ? left_rows : (T *)0, pairs, least);
  NAME(start_rotations)(&right, u ? right_rows : (T *)0, pairs + 48 * least, least);
  if (!RNAME(bidiagonal_values)(d, e, least, &left, &right)) return false;
  for (int64_t i = 0; i < least; i++) {
    if (!(d[i] < 0 || (d[i] == 0 && 1 / d[i] < 0))) continue;
    d[i] = -d[i];
    for (int64_t j = 0; u && j < least; j++) right.rows[i * ld + j] = -right.rows[i * ld + j];
  }
  RNAME(descending)(d, order, least);
  for (int64_t i = 0; i < least; i++) values[i] = d[order[i]] / up;
  if (!u) return true;

  /* the longer side: Q of the bidiagonal form, then that of the QR factorization */
  T *longer = flipped ? side : u;
  NAME(fill)(longer, rows * columns, 0);
  for (int64_t j = 0; j < least; j++)
    for (int64_t i = 0; i < least; i++) longer[i * columns + j] = left.rows[order[j] * ld + i];
  for (int64_t i = least; i < columns; i++) longer[i * columns + i] = 1;
  NAME(reflect_all)(NAME(view_of)(c, ld), tauq, longer, columns, height, tall ? least : columns,
                    least, false, free);
  if (tall)
    NAME(reflect_all)(NAME(view_of)(packed, least), taus, longer, columns, rows, columns, least,
                      false, free);
  /* the other side */
  T *shorter = flipped ? u : side;
  for (int64_t j = 0; j < least; j++)
    for (int64_t i = 0; i < least; i++) shorter[i * least + j] = right.rows[order[j] * ld + i];
  if (least > 1) {
    VIEW vectors = {c + 1, 1, ld, false};
    NAME(reflect_all)(vectors, taup, shorter + least, least, least - 1, least, least - 1, false,
                      free);
  }
  if (flipped)
    NAME(put_adjoint)(vh, longer, columns, rows);
  else
    NAME(put_adjoint)(vh, shorter, least, least);
  return true;
}

/* work, with p = max(m, n) and k = min(m, n), in elements of T:
 * p (2 k + 208) + 2 k (k + 80) + p c + 4096, where c is p if full, else k */
ENTRY(svd)(const T *a, int64_t a_at, T *u, int64_t u_at, R *s, int64_t s_at, T *vh, int64_t vh_at,
           T *work, int64_t work_at, int64_t batch, int64_t m, int64_t n, int64_t full,
           int64_t group, int64_t groups) {
  int64_t most = larger(m, n), least = smaller(m, n), columns = full ? most : least;
  int64_t rank_u = m > n ? columns : m, rank_v = m > n ? n : columns;
  FOR_GROUP(b) {
    T *us = u + u_at + b * m * rank_u, *vs = vh + vh_at + b * rank_v * n;
    R *values = s + s_at + b * least;
    T *room = work + work_at + group * SVD_WORK(most, least, columns);
    if (NAME(decompose)(a + a_at + b * m * n, us, values, vs, room, m, n, columns)) continue;
    NAME(fill)(us, m * rank_u, NAME(make)(RNAME(nan)(), RNAME(nan)()));
    NAME(fill)(vs, rank_v * n, NAME(make)(RNAME(nan)(), RNAME(nan)()));
    RNAME(fill)(values, least, RNAME(nan)());
  }
}

/* work, with p = max(m, n) and k = min(m, n): p (2 k + 208) + 4096 elements of T */
ENTRY(svdvals)(const T *a, int64_t a_at, R *s, int64_t s_at, T *work, int64_t work_at,
               int64_t batch, int64_t m, int64_t n, int64_t group, int64_t groups) {
  int64_t most = larger(m, n), least = smaller(m, n);
  FOR_GROUP(b) {
    R *values = s + s_at + b * least;
    T *room = work + work_at + group * VALUES_WORK(most, least);
    if (!NAME(decompose)(a + a_at + b * m * n, (T *)0, values, (T *)0, room, m, n, least))
      RNAME(fill)(values, least, RNAME(nan)());
  }
}
