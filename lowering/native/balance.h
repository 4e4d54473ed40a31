/* Balancing by powers of two (a template, see each.h; needs householder.h): Parlett and Reinsch,
 * "Balancing a matrix for calculation of eigenvalues and eigenvectors" (1969), with the 2-norms of
 * whole rows and columns, which do less harm (James, Langou and Lowery, "On matrix balancing and
 * eigenvector computation", 2014).  c becomes D^-1 c D, D = scales.
 * Rows that a permutation would isolate (as LAPACK's gebal does) are left alone: any scaling would
 * seem to do them good. */

/* The 2-norms of row i and column i among the active (scales[j] > 0), with or without c[i][i]. */
static UNUSED void NAME(norms_of)(const T *c, int64_t ld, int64_t n, const R *scales, int64_t i,
                                  bool whole, R *row, R *column) {
  R rows = 0, columns = 0;
  for (int64_t j = 0; j < n; j++) {
    if (scales[j] < 0 || (j == i && !whole)) continue;
    R x = NAME(size)(c[i * ld + j]), y = NAME(size)(c[j * ld + i]);
    rows = RNAME(length)(rows, x, 0), columns = RNAME(length)(columns, y, 0);
  }
  *row = rows, *column = columns;
}

static UNUSED void NAME(balance)(T *c, int64_t ld, int64_t n, R *scales) {
  R row, column;
  for (int64_t i = 0; i < n; i++) scales[i] = 1;
  for (bool found = true; found;) {
    found = false;
    for (int64_t i = 0; i < n; i++) {
      if (scales[i] < 0) continue;
      NAME(norms_of)(c, ld, n, scales, i, false, &row, &column);
      if (row == 0 || column == 0) scales[i] = -1, found = true;
    }
  }
  bool changed = true;
  for (int rounds = 0; changed && rounds < 20; rounds++) {
    changed = false;
    for (int64_t i = 0; i < n; i++) {
      if (scales[i] < 0) continue;
      NAME(norms_of)(c, ld, n, scales, i, true, &row, &column);
      R factor = 1, total = column + row, square = 1;
      for (; column * square < row / 2 && factor < R_MAX / 1024; square *= 4) factor *= 2;
      for (; column * square > row * 2 && factor > R_MIN * 1024; square /= 4) factor /= 2;
      R grown = scales[i] * factor;
      if (factor == 1 || column * factor + row / factor >= (R)0.95 * total) continue;
      if (grown > R_MAX / 1024 || grown < R_MIN * 1024) continue;
      scales[i] = grown, changed = true;
      for (int64_t j = 0; j < n; j++) c[i * ld + j] = NAME(scale)(c[i * ld + j], 1 / factor);
      for (int64_t j = 0; j < n; j++) c[j * ld + i] = NAME(scale)(c[j * ld + i], factor);
    }
  }
  for (int64_t i = 0; i < n; i++) scales[i] = RNAME(magnitude)(scales[i]);
}
