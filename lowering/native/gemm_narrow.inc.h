/* Products with LANES to 2 LANES - 1 columns of b, which is read as it lies: two vectors, the second as
 * far back as it has to be, so that nothing beyond a row is read or written (a template of
 * gemm_tile.h).  What vectors, or tiles of rows, share they compute alike.
 */
#define AT_WIDTH(x) SUM(JOIN(x, LANES))
#define W AT_WIDTH(vector)
typedef R W __attribute__((vector_size(LANES * sizeof(R)), aligned(sizeof(R)), may_alias));

/* `rows` rows of c = a, of any strides, times columns of b, `both` vectors of them or the first. */
INLINE void AT_WIDTH(narrow_tile)(const int rows, const int both, int64_t depth, const R *a,
                                  int64_t a_row, int64_t a_column, const R *b, int64_t ldb,
                                  int64_t second, R *c, int64_t ldc) {
  W sum[8][2];
  UNROLL for (int i = 0; i < rows; i++) sum[i][0] = sum[i][1] = (W){0};
  const R *row[3]; /* of every third row: a register each */
  UNROLL for (int i = 0; i < rows; i += 3) row[i / 3] = a + i * a_row;
  for (int64_t p = 0; p < depth; p++) {
    W b0 = *(const W *)b, b1 = both ? *(const W *)(b + second) : b0;
    UNROLL for (int i = 0; i < rows; i++) {
      R x = row[i / 3][i % 3 * a_row];
      sum[i][0] += x * b0;
      if (both) sum[i][1] += x * b1;
    }
    UNROLL for (int i = 0; i < rows; i += 3) row[i / 3] += a_column;
    b += ldb;
  }
  UNROLL for (int i = 0; i < rows; i++) {
    *(W *)(c + i * ldc) = sum[i][0];
    if (both) *(W *)(c + i * ldc + second) = sum[i][1];
  }
}

INLINE void AT_WIDTH(narrow_rows)(const int both, int64_t rows, int64_t depth, const R *a,
                                  int64_t a_row, int64_t a_column, const R *b, int64_t ldb,
                                  int64_t second, R *c, int64_t ldc) {
  for (int64_t i = 0; i < rows;) {
    int64_t left = rows - i;
    int64_t high = left > 4 && rows >= 8 ? 8 : left > 2 && rows >= 4 ? 4 : left > 1 ? 2 : 1;
    int64_t first = smaller(i, rows - high);
    const R *from = a + first * a_row;
    R *to = c + first * ldc;
#define ROWS_OF(n) \
  AT_WIDTH(narrow_tile)(n, both, depth, from, a_row, a_column, b, ldb, second, to, ldc)
    switch (high) {
      case 8: ROWS_OF(8); break;
      case 4: ROWS_OF(4); break;
      case 2: ROWS_OF(2); break;
      default: ROWS_OF(1);
    }
#undef ROWS_OF
    i = first + high;
  }
}

ONCE void AT_WIDTH(narrow)(int64_t rows, int64_t columns, int64_t depth, const R *a, int64_t a_row,
                           int64_t a_column, const R *b, int64_t ldb, R *c, int64_t ldc) {
  int64_t second = columns - LANES;
  if (second)
    AT_WIDTH(narrow_rows)(1, rows, depth, a, a_row, a_column, b, ldb, second, c, ldc);
  else
    AT_WIDTH(narrow_rows)(0, rows, depth, a, a_row, a_column, b, ldb, 0, c, ldc);
}

#undef AT_WIDTH
#undef W
#undef LANES
