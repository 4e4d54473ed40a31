/* Balancing by powers of two (a template, see each.h): Parlett and Reinsch, "Balancing a matrix for
 * calculation of eigenvalues and eigenvectors" (1969).  c becomes D^-1 c D, D = scales. */
static UNUSED void NAME(balance)(T *c, int64_t ld, int64_t n, R *scales) {
  for (int64_t i = 0; i < n; i++) scales[i] = 1;
  bool changed = true;
  for (int rounds = 0; changed && rounds < 20; rounds++) {
    changed = false;
    for (int64_t i = 0; i < n; i++) {
      R column = 0, row = 0;
      for (int64_t j = 0; j < n; j++) {
        if (j == i) continue;
        column += NAME(size)(c[j * ld + i]);
        row += NAME(size)(c[i * ld + j]);
      }
      if (column == 0 || row == 0) continue;
      R factor = 1, total = column + row, square = 1;
      for (; column * square < row / 2 && factor < R_MAX / 1024; square *= 4) factor *= 2;
      for (; column * square > row * 2 && factor > R_MIN * 1024; square /= 4) factor /= 2;
      R grown = scales[i] * factor;
      if (factor == 1 || (column * square + row) / factor >= (R)0.95 * total) continue;
      if (grown > R_MAX / 1024 || grown < R_MIN * 1024) continue;
      scales[i] = grown, changed = true;
      for (int64_t j = 0; j < n; j++) c[i * ld + j] = NAME(scale)(c[i * ld + j], 1 / factor);
      for (int64_t j = 0; j < n; j++) c[j * ld + i] = NAME(scale)(c[j * ld + i], factor);
    }
  }
}
