/* What multiplies packed panels of R, float or double (a template of gemm.c, which see).
 *
 * A panel of a, `rows` of them, holds STEP elements of one row, then of the next; a panel of b rows of
 * two vectors.  Both are filled up with zeros to whole steps and whole vectors.
 */
#define VL ((int64_t)(VECTOR_BYTES / sizeof(R)))
#define COLUMNS (2 * VL)
#define V SUM(vec)
typedef R V __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(R)), may_alias));
typedef RBITS SUM(lanes) __attribute__((vector_size(VECTOR_BYTES)));
#define QUAD SUM(quad) /* STEP numbers */
typedef R QUAD __attribute__((vector_size(STEP * sizeof(R)), aligned(sizeof(R)), may_alias));
typedef RBITS SUM(order) __attribute__((vector_size(STEP * sizeof(R))));

/* Every second element of a vector, and of one that begins with its last. */
#if VECTOR_BYTES == 16 * R_BYTES
#define LANES_OF_VECTOR 16
#define SECONDS 0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31
#elif VECTOR_BYTES == 8 * R_BYTES
#define LANES_OF_VECTOR 8
#define SECONDS 0, 2, 4, 6, 9, 11, 13, 15
#elif VECTOR_BYTES == 4 * R_BYTES
#define LANES_OF_VECTOR 4
#define SECONDS 0, 2, 5, 7
#else
#define LANES_OF_VECTOR 2
#define SECONDS 0, 3
#endif

/* `rows` rows of c, or of what is added to it, = a, read as it lies, times two vectors of columns of b,
 * whose rows are `ldb` apart: a panel, or b itself.  a's elements of a row lie side by side (`along`), or
 * those of a column; `apart` are its rows, or its columns. */
INLINE void SUM(tile_in_place)(const int rows, const int along, int64_t depth, const R *restrict a,
                               int64_t apart, const R *restrict b, int64_t ldb, R *restrict c,
                               int64_t ldc, int64_t add) {
  V sum[TILE_ROWS][2];
  UNROLL for (int i = 0; i < rows; i++) {
    sum[i][0] = sum[i][1] = (V){0};
    __builtin_prefetch(c + i * ldc, 1);
    __builtin_prefetch(c + i * ldc + COLUMNS - 1, 1);
  }
  const R *row[(TILE_ROWS + 2) / 3]; /* of every third row: a register each */
  UNROLL for (int i = 0; i < rows; i += 3) row[i / 3] = a + i * apart;
  int64_t p = 0;
  for (; along && p + STEP <= depth; p += STEP) {
    STEPS for (int q = 0; q < STEP; q++) {
      V b0 = *(const V *)b, b1 = *(const V *)(b + VL);
      UNROLL for (int i = 0; i < rows; i++) {
        R x = row[i / 3][i % 3 * apart + q];
        sum[i][0] += x * b0;
        sum[i][1] += x * b1;
      }
      b += ldb;
    }
    UNROLL for (int i = 0; i < rows; i += 3) row[i / 3] += STEP;
  }
  for (; p < depth; p++) {
    V b0 = *(const V *)b, b1 = *(const V *)(b + VL);
    UNROLL for (int i = 0; i < rows; i++) {
      R x = along ? a[i * apart + p] : a[p * apart + i];
      sum[i][0] += x * b0;
      sum[i][1] += x * b1;
    }
    b += ldb;
  }
  UNROLL for (int i = 0; i < rows; i++) {
    V *to = (V *)(c + i * ldc);
    if (add) sum[i][0] += to[0], sum[i][1] += to[1];
    to[0] = sum[i][0], to[1] = sum[i][1];
  }
}

/* A switch over the heights of tiles. */
#if TILE_ROWS > 12
#define TILES_OF(TILE) \
  TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) TILE(6) TILE(7) TILE(8) TILE(9) TILE(10) TILE(11) \
      TILE(12) TILE(13) TILE(14)
#elif TILE_ROWS > 6
#define TILES_OF(TILE) \
  TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) TILE(6) TILE(7) TILE(8) TILE(9) TILE(10) TILE(11) \
      TILE(12)
#else
#define TILES_OF(TILE) TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) TILE(6)
#endif

#define OF(x) SUM(x)
#define ELEMENT R
#define VECTOR V
#define ADDED(sum, x, b) ((sum) + (x) * (b))
#define TARGET
#include "gemm_panels.inc.h"

#define TILE(n)                                                                           \
  case n:                                                                                 \
    SUM(tile_in_place)(n, along, depth, a, apart, b, ldb, to, ldc, add);                  \
    break;

INLINE void SUM(tiles_in_place)(const int along, int64_t rows, int64_t depth, const R *first,
                                int64_t apart, const R *b, int64_t ldb, R *c, int64_t ldc,
                                int64_t add) {
  int64_t panels = parts(rows, TILE_ROWS);
  for (int64_t t = 0; t < panels; t++) {
    int64_t i = start_of(rows, panels, t);
    const R *a = first + i * (along ? apart : 1);
    R *to = c + i * ldc;
    switch (start_of(rows, panels, t + 1) - i) { TILES_OF(TILE) }
  }
}
#undef TILE

/* Rows of c, or of what is added to it, two vectors of columns, = rows of a times columns of b, both
 * read as they lie: a's elements of a row or of a column do so side by side. */
ONCE void SUM(in_place)(int64_t rows, int64_t depth, const R *a, int64_t a_row, int64_t a_column,
                        const R *b, int64_t ldb, R *c, int64_t ldc, int64_t add) {
  if (a_column == 1)
    SUM(tiles_in_place)(1, rows, depth, a, a_row, b, ldb, c, ldc, add);
  else
    SUM(tiles_in_place)(0, rows, depth, a, a_column, b, ldb, c, ldc, add);
}

#define SHALLOW (1536 / VECTOR_BYTES) /* rows of a panel of b that is packed on the stack: 3 KiB */

/* Rows of c, or of what is added to it, `columns` of a panel's, = rows of a times a packed panel of b. */
ONCE void SUM(narrow)(int64_t rows, int64_t depth, const R *a, int64_t a_row, int64_t a_column,
                      const R *panel, R *c, int64_t ldc, int64_t columns, int64_t add) {
  if (columns == COLUMNS) {
    SUM(in_place)(rows, depth, a, a_row, a_column, panel, COLUMNS, c, ldc, add);
    return;
  }
  R part[TILE_ROWS * 2 * VECTOR_BYTES / sizeof(R)]; /* what lies beyond c is left out */
  for (int64_t i = 0; i < rows; i += TILE_ROWS) {
    int64_t some = smaller(rows - i, TILE_ROWS);
    for (int64_t r = 0; r < some && add; r++)
      for (int64_t j = 0; j < COLUMNS; j++)
        part[r * COLUMNS + j] = j < columns ? c[(i + r) * ldc + j] : 0;
    SUM(in_place)(some, depth, a + i * a_row, a_row, a_column, panel, COLUMNS, part, COLUMNS, add);
    for (int64_t r = 0; r < some; r++)
      for (int64_t j = 0; j < columns; j++) c[(i + r) * ldc + j] = part[r * COLUMNS + j];
  }
}

/* A cell of c by panels of b that are packed one after another, on the stack. */
ONCE void SUM(by_panels)(int64_t rows, int64_t columns, int64_t k, const R *a, int64_t a_row,
                         int64_t a_column, const R *b, int64_t b_row, int64_t b_column, R *c,
                         int64_t ldc) {
  R panel[SHALLOW * 2 * VECTOR_BYTES / sizeof(R)];
  int64_t blocks = parts(k, SHALLOW);
  for (int64_t first = 0; first < columns; first += COLUMNS)
    for (int64_t block = 0; block < blocks; block++) {
      int64_t p = start_of(k, blocks, block), depth = start_of(k, blocks, block + 1) - p;
      int64_t some = smaller(columns - first, COLUMNS);
      const R *from = b + p * b_row + first * b_column;
      for (int64_t j = 0; j < depth * COLUMNS && some < COLUMNS; j += VL) *(V *)(panel + j) = (V){0};
      if (b_column == 1)
        for (int64_t q = 0; q < depth; q++)
          for (int64_t j = 0; j < some; j++) panel[q * COLUMNS + j] = from[q * b_row + j];
      else /* (rows of b's transposition lie side by side) */
        for (int64_t j = 0; j < some; j++)
          for (int64_t q = 0; q < depth; q++)
            panel[q * COLUMNS + j] = from[q * b_row + j * b_column];
      SUM(narrow)(rows, depth, a + p * a_column, a_row, a_column, panel, c + first, ldc, some,
                  block);
    }
}

#define LANES 2
#include "gemm_narrow.inc.h"
#if VECTOR_BYTES >= 4 * R_BYTES
#define LANES 4
#include "gemm_narrow.inc.h"
#endif
#if VECTOR_BYTES >= 8 * R_BYTES
#define LANES 8
#include "gemm_narrow.inc.h"
#endif
#if VECTOR_BYTES >= 16 * R_BYTES
#define LANES 16
#include "gemm_narrow.inc.h"
#endif

/* Rows of c = rows of a times less than a panel of columns of b, which lie side by side or are copied
 * to the stack. */
INLINE void SUM(less_than_a_panel)(int64_t rows, int64_t columns, int64_t k, const R *a,
                                   int64_t a_row, int64_t a_column, const R *b, int64_t b_row,
                                   int64_t b_column, R *c, int64_t ldc) {
  R copy[SHALLOW * 2 * VECTOR_BYTES / sizeof(R)];
  if (b_column != 1) {
    for (int64_t j = 0; j < columns; j++)
      for (int64_t p = 0; p < k; p++) copy[p * columns + j] = b[p * b_row + j * b_column];
    b = copy, b_row = columns;
  }
#if VECTOR_BYTES >= 16 * R_BYTES
  if (columns >= 16)
    JOIN(narrow_16, SUM_SUFFIX)(rows, columns, k, a, a_row, a_column, b, b_row, c, ldc);
  else
#endif
#if VECTOR_BYTES >= 8 * R_BYTES
  if (columns >= 8)
    JOIN(narrow_8, SUM_SUFFIX)(rows, columns, k, a, a_row, a_column, b, b_row, c, ldc);
  else
#endif
#if VECTOR_BYTES >= 4 * R_BYTES
  if (columns >= 4)
    JOIN(narrow_4, SUM_SUFFIX)(rows, columns, k, a, a_row, a_column, b, b_row, c, ldc);
  else
#endif
    JOIN(narrow_2, SUM_SUFFIX)(rows, columns, k, a, a_row, a_column, b, b_row, c, ldc);
}

/* c (batch, split, m, n) = a b, cell by cell as in gemm.inc.h, of numbers that are not widened: a is not
 * packed, its rows or columns lie side by side.  Nor is b where its rows do and no cell has less than
 * a panel of columns; the last panel of one goes back to where it is whole, and adds up again what it
 * shares with the one before. */
void SUM(calque_direct)(const R *a_base, int64_t a_at, const R *b_base, int64_t b_at, R *c_base,
                        int64_t c_at, int64_t batch, int64_t m, int64_t n, int64_t every,
                        int64_t split, int64_t a_batch, int64_t a_row, int64_t a_column,
                        int64_t b_batch, int64_t b_row, int64_t b_column, int64_t tall,
                        int64_t broad, int64_t group, int64_t groups) {
  int64_t down = parts(m, tall), along = parts(n, broad), cells = batch * split * down * along;
  for (int64_t at = cells * group / groups; at < cells * (group + 1) / groups; at++) {
    int64_t which = at / (down * along), i = at / along % down * tall, j = at % along * broad;
    int64_t begin = start_of(every, split, which % split);
    int64_t k = start_of(every, split, which % split + 1) - begin, blocks = parts(k, DEPTH);
    int64_t rows = smaller(m - i, tall), columns = smaller(n - j, broad);
    int64_t panels = columns / COLUMNS, last = columns % COLUMNS ? blocks : 0;
    const R *a = a_base + a_at + which / split * a_batch + i * a_row + begin * a_column;
    const R *b = b_base + b_at + which / split * b_batch + j * b_column + begin * b_row;
    R *c = c_base + c_at + (which * m + i) * n + j;
    if (columns > 1 && columns < COLUMNS && k <= DEPTH &&
        (b_column == 1 || k * columns <= (int64_t)(SHALLOW * 2 * VECTOR_BYTES / sizeof(R)))) {
      SUM(less_than_a_panel)(rows, columns, k, a, a_row, a_column, b, b_row, b_column, c, n);
      continue;
    }
    if (b_column != 1 || columns < COLUMNS) {
      SUM(by_panels)(rows, columns, k, a, a_row, a_column, b, b_row, b_column, c, n);
      continue;
    }
    for (int64_t s = 0; s < blocks + last; s++) {
      int64_t block = s % blocks, p = start_of(k, blocks, block);
      int64_t depth = start_of(k, blocks, block + 1) - p;
      for (int64_t t = 0; t < (s < blocks ? panels : 1); t++) {
        int64_t first = s < blocks ? t * COLUMNS : columns - COLUMNS;
        SUM(in_place)(rows, depth, a + p * a_column, a_row, a_column, b + p * b_row + first, b_row,
                      c + first, n, block);
      }
    }
  }
}
#undef SHALLOW

/* y (batch, n) = the sums of x (batch, split, n), whole lines of it: what the parts of a split product
 * add up to, in their order. */
void SUM(calque_add)(const R *x_base, int64_t x_at, R *y_base, int64_t y_at, int64_t batch, int64_t n,
                     int64_t split, int64_t group, int64_t groups) {
  int64_t unit = LINE / (int64_t)sizeof(R), units = parts(n, unit), every = batch * units;
  for (int64_t at = every * group / groups; at < every * (group + 1) / groups; at++) {
    int64_t which = at / units, j = at % units * unit, some = smaller(n - j, unit);
    const R *x = x_base + x_at + which * split * n + j;
    R sum[LINE / sizeof(R)] = {0}, *y = y_base + y_at + which * n + j;
    if (some == unit) {
      for (int64_t p = 0; p < split; p++)
        UNROLL for (int64_t i = 0; i < LINE / (int64_t)sizeof(R); i++) sum[i] += x[p * n + i];
    } else {
      for (int64_t p = 0; p < split; p++)
        for (int64_t i = 0; i < some; i++) sum[i] += x[p * n + i];
    }
    for (int64_t i = 0; i < some; i++) y[i] = sum[i];
  }
}

/* Four rows of four to columns. */
INLINE void SUM(turn)(QUAD *x) {
  QUAD p = MIX(SUM(order), x[0], x[2], 0, 4, 1, 5), q = MIX(SUM(order), x[0], x[2], 2, 6, 3, 7);
  QUAD r = MIX(SUM(order), x[1], x[3], 0, 4, 1, 5), s = MIX(SUM(order), x[1], x[3], 2, 6, 3, 7);
  x[0] = MIX(SUM(order), p, r, 0, 4, 1, 5), x[1] = MIX(SUM(order), p, r, 2, 6, 3, 7);
  x[2] = MIX(SUM(order), q, s, 0, 4, 1, 5), x[3] = MIX(SUM(order), q, s, 2, 6, 3, 7);
}

/* Rows of c, or of what is added to it, one vector of columns, = rows of a, whose elements are side by
 * side, times the first of the two vectors of a panel. */
ONCE void SUM(of_a_vector)(int64_t rows, int64_t depth, const R *a, int64_t a_row, const R *panel,
                           R *c, int64_t ldc, int64_t add) {
  R part[16 * VECTOR_BYTES / sizeof(R)];
  for (int64_t i = 0; i < rows; i += 16) {
    int64_t some = smaller(rows - i, 16);
    SUM(JOIN(narrow, LANES_OF_VECTOR))
    (some, VL, depth, a + i * a_row, a_row, 1, panel, COLUMNS, add ? part : c + i * ldc,
     add ? VL : ldc);
    for (int64_t r = 0; r < some && add; r++)
      *(V *)(c + (i + r) * ldc) += *(const V *)(part + r * VL);
  }
}

/* n sums as they are written: a number of each feature added (of one where `step` is 0), another array
 * added, no negative ones. */
ONCE void SUM(finish)(R *to, const R *from, int64_t n, const R *shift, int64_t step, const R *more,
                      int64_t how) {
  int64_t j = 0;
  for (; j + VL <= n; j += VL) {
    V u = *(const V *)(from + j);
    if (how & SHIFTED && step) u += *(const V *)(shift + j);
    if (how & SHIFTED && !step) u += *shift;
    if (how & ADDED_TO) u += *(const V *)(more + j);
    if (how & RECTIFIED) u = (V)((SUM(lanes))u & ~(SUM(lanes))(u <= 0));
    *(V *)(to + j) = u;
  }
  for (; j < n; j++) {
    R u = from[j];
    if (how & SHIFTED) u += shift[step * j];
    if (how & ADDED_TO) u += more[j];
    if (how & RECTIFIED) u = u <= 0 ? 0 : u;
    to[j] = u;
  }
}

#define LDC(broad) (whole(broad, COLUMNS) + LINE / (int64_t)sizeof(R)) /* of a cell's sums */

#include "gemm_few.inc.h"
