/* The products of one element type T, added up in R (a template of gemm.c, which see). */
#define VIEW IN(view)

#include "gemm_load.inc.h"

/* An operand: element (i, p) of a, or (p, j) of b, at at[p * deep + i * across]; or what windows see,
 * from p and i on. */
typedef struct {
  const T *at;
  int64_t deep, across;
  const WINDOWS *windows;
  int64_t p, i;
} VIEW;

INLINE VIEW IN(from)(VIEW v, int64_t p, int64_t i) {
  if (v.windows)
    v.p += p, v.i += i;
  else
    v.at += p * v.deep + i * v.across;
  return v;
}

/* STEP rows from p on, of which `depth` are there, by STEP columns of which `across` are: four
 * vectors along the depth. */
INLINE void IN(block)(QUAD *x, VIEW v, int64_t depth, int64_t across) {
  if (depth >= STEP && across >= STEP && v.across == 1) {
    for (int p = 0; p < STEP; p++) x[p] = IN(load_four)(v.at + p * v.deep);
    SUM(turn)(x);
  } else if (depth >= STEP && v.deep == 1) {
    for (int i = 0; i < STEP; i++)
      x[i] = i < across ? IN(load_four)(v.at + i * v.across) : (QUAD){0};
  } else {
    for (int i = 0; i < STEP; i++)
      x[i] = i < across ? IN(load_few)(v.at + i * v.across, v.deep, smaller(depth, STEP))
                        : (QUAD){0};
  }
}

/* Rows of a block of a as panels of nearly equal heights. */
ONCE void IN(pack_a)(R *restrict to, VIEW a, int64_t depth, int64_t rows) {
  int64_t panels = parts(rows, TILE_ROWS), steps = parts(depth, STEP), full = depth / STEP;
  if (a.deep == 1) { /* row by row */
    for (int64_t t = 0; t < panels; t++) {
      int64_t first = start_of(rows, panels, t), high = start_of(rows, panels, t + 1) - first;
      for (int64_t i = 0; i < high; i++) {
        const T *from = a.at + (first + i) * a.across;
        QUAD *put = (QUAD *)(to + first * steps * STEP) + i;
        for (int64_t s = 0; s < full; s++) put[s * high] = IN(load_four)(from + s * STEP);
        if (full < steps)
          put[full * high] = IN(load_few)(from + full * STEP, 1, depth - full * STEP);
      }
    }
    return;
  }
  for (int64_t s = 0; s < steps; s++)
    for (int64_t t = 0; t < panels; t++) {
      int64_t first = start_of(rows, panels, t), high = start_of(rows, panels, t + 1) - first;
      QUAD *put = (QUAD *)(to + first * steps * STEP + s * high * STEP);
      for (int64_t i = 0; i < high; i += STEP) {
        QUAD x[STEP];
        if (i + STEP > high && high > STEP) i = high - STEP; /* some of them again */
        VIEW v = IN(from)(a, s * STEP, first + i);
        IN(block)(x, v, depth - s * STEP, high - i);
        for (int64_t k = 0; k < smaller(high - i, STEP); k++) put[i + k] = x[k];
      }
    }
}

/* Columns of b as panels of two vectors; behind each a line, that panels are no power of two apart. */
#define PANEL(steps) ((steps) * STEP * COLUMNS + LINE / (int64_t)sizeof(R))

ONCE void IN(pack_b)(R *restrict to, VIEW b, int64_t depth, int64_t columns) {
  int64_t steps = parts(depth, STEP), full = b.across == 1 ? columns / COLUMNS : 0;
  for (int64_t p = 0; p < depth; p++)
    for (int64_t t = 0; t < full; t++) {
      const T *from = b.at + p * b.deep + t * COLUMNS;
      V *put = (V *)(to + t * PANEL(steps) + p * COLUMNS);
      put[0] = IN(load)(from), put[1] = IN(load)(from + VL);
    }
  for (int64_t t = 0; t < full; t++)
    for (int64_t p = depth; p < steps * STEP; p++) {
      V *put = (V *)(to + t * PANEL(steps) + p * COLUMNS);
      put[0] = put[1] = (V){0};
    }
  for (int64_t j = full * COLUMNS; j < whole(columns, COLUMNS); j += STEP)
    for (int64_t s = 0; s < steps; s++) {
      R *put = to + j / COLUMNS * PANEL(steps) + s * STEP * COLUMNS + j % COLUMNS;
      QUAD x[STEP];
      VIEW v = IN(from)(b, s * STEP, j);
      IN(block)(x, v, depth - s * STEP, columns - j);
      SUM(turn)(x);
      for (int p = 0; p < STEP; p++) *(QUAD *)(put + p * COLUMNS) = x[p];
    }
}

#include "gemm_windows.inc.h"

/* Rows of c, or of what is added to it, = a block of a, packed here strip by strip, times a packed
 * block of b. */
INLINE void IN(strips)(R *restrict c, int64_t ldc, VIEW a, const R *restrict packed_b, int64_t rows,
                       int64_t columns, int64_t depth, int64_t add, R *restrict packed_a,
                       AHEAD *ahead) {
  int64_t strips = parts(rows, TALL), steps = parts(depth, STEP);
  for (int64_t r = 0; r < strips; r++) {
    int64_t i = start_of(rows, strips, r), tall = start_of(rows, strips, r + 1) - i;
    int64_t panels = parts(tall, TILE_ROWS);
    (a.windows ? IN(pack_windows_a) : IN(pack_a))(packed_a, IN(from)(a, 0, i), depth, tall);
    for (int64_t t = 0; t < panels; t++) {
      int64_t first = start_of(tall, panels, t), height = start_of(tall, panels, t + 1) - first;
      for (int64_t j = 0; j < columns; j += COLUMNS) {
        fetch(ahead);
        SUM(tiles)(height, steps, packed_a + first * steps * STEP,
                   packed_b + j / COLUMNS * PANEL(steps), c + (i + first) * ldc + j, ldc,
                   smaller(columns - j, COLUMNS), add);
      }
    }
  }
}

/* A cell of c, rows x columns, of operands that begin with it.  While a block is multiplied, what the
 * next one packs of b is fetched from memory. */
ONCE void IN(cell)(R *restrict c, int64_t ldc, VIEW a, VIEW b, int64_t rows, int64_t columns,
                   int64_t k, R *restrict work) {
  int64_t blocks = parts(k, DEPTH), widest = parts(parts(k, blocks), STEP);
  int64_t tiles = parts(rows, TILE_ROWS) * parts(columns, COLUMNS);
  R *packed_a = work, *packed_b = work + widest * STEP * parts(rows, parts(rows, TALL));
  for (int64_t n = 0; n < blocks; n++) {
    int64_t p = start_of(k, blocks, n), next = start_of(k, blocks, n + 1), depth = next - p;
    IN(pack_b)(packed_b, IN(from)(b, p, 0), depth, columns);
    AHEAD ahead = {(const char *)(b.at + next * b.deep), 0, 0, 0, 0};
    if (n + 1 < blocks && rows <= TALL && (b.across == 1 || b.deep == 1)) {
      ahead.length = (b.across == 1 ? columns : depth) * (int64_t)sizeof(T);
      ahead.apart = (b.across == 1 ? b.deep : b.across) * (int64_t)sizeof(T);
      ahead.ration = parts((b.across == 1 ? depth : columns) * parts(ahead.length, LINE), tiles);
    }
    IN(strips)(c, ldc, IN(from)(a, p, 0), packed_b, rows, columns, depth, n, packed_a, &ahead);
  }
}

/* All of b (k x columns), packed block by block, for products with many a: `packed_size` of
 * kernels/attention.py says how much that is. */
#define PACKED(k, columns) \
  (parts(columns, COLUMNS) * PANEL(parts(parts(k, parts(k, DEPTH)), STEP)))

void IN(calque_pack)(const T *b_base, int64_t b_at, R *to_base, int64_t to_at, int64_t k,
                     int64_t columns, int64_t b_row, int64_t b_column) {
  VIEW b = {b_base + b_at, b_row, b_column, 0, 0, 0};
  int64_t blocks = parts(k, DEPTH);
  for (int64_t n = 0; n < blocks; n++) {
    int64_t p = start_of(k, blocks, n);
    IN(pack_b)(to_base + to_at + n * PACKED(k, columns), IN(from)(b, p, 0),
               start_of(k, blocks, n + 1) - p, columns);
  }
}

/* c (rows x columns, rows c_row apart), or what is added to it, = a times what calque_pack made.  a is
 * read as it lies, where its rows or columns do side by side and are numbers of R. */
void IN(calque_packed)(const T *a_base, int64_t a_at, const R *packed_base, int64_t packed_at,
                       R *c_base, int64_t c_at, R *work_base, int64_t work_at, int64_t rows,
                       int64_t columns, int64_t k, int64_t a_row, int64_t a_column, int64_t c_row,
                       int64_t add) {
  int64_t blocks = parts(k, DEPTH);
  int64_t as_is = sizeof(T) == sizeof(R) && (a_row == 1 || a_column == 1) ? columns / COLUMNS : 0;
  AHEAD none = {0, 0, 0, 0, 0};
  for (int64_t n = 0; n < blocks; n++) {
    int64_t p = start_of(k, blocks, n), depth = start_of(k, blocks, n + 1) - p;
    VIEW a = {a_base + a_at + p * a_column, a_column, a_row, 0, 0, 0};
    const R *b = packed_base + packed_at + n * PACKED(k, columns);
    R *c = c_base + c_at;
    for (int64_t j = 0; j < as_is; j++)
      SUM(in_place)(rows, depth, (const R *)a.at, a_row, a_column,
                    b + j * PANEL(parts(depth, STEP)), COLUMNS, c + j * COLUMNS, c_row, add + n);
    int64_t left = as_is * COLUMNS;
    if (left < columns)
      IN(strips)(c + left, c_row, a, b + as_is * PANEL(parts(depth, STEP)), rows, columns - left,
                 depth, add + n, work_base + work_at, &none);
  }
}

/* STEP rows of b, `there` of them within it, times the columns of a packed in one panel; sums
 * (rows x columns) lie in workspace, for rows of c may be a power of two apart. */
INLINE void IN(strip)(const int there, R *restrict sums, const R *restrict a, const T *restrict b,
                      int64_t ldb, int64_t ahead, int64_t rows, int64_t columns, int64_t add) {
  for (int64_t j = 0; j < columns; j += COLUMNS) {
    V x[STEP][2];
    UNROLL for (int p = 0; p < there; p++) {
      x[p][0] = IN(load)(b + p * ldb + j), x[p][1] = IN(load)(b + p * ldb + j + VL);
      __builtin_prefetch(b + p * ldb + j + ahead);
      if (COLUMNS * sizeof(T) > LINE) __builtin_prefetch(b + p * ldb + j + VL + ahead);
    }
    for (int64_t i = 0; i < rows; i++) {
      V *to = (V *)(sums + i * columns + j), s = {0}, t = {0};
      if (add) s = to[0], t = to[1];
      UNROLL for (int p = 0; p < there; p++) {
        R y = a[i * STEP + p];
        s += y * x[p][0], t += y * x[p][1];
      }
      to[0] = s, to[1] = t;
    }
  }
}

/* A cell of few rows and whole vectors of columns, b's rows read as they lie. */
ONCE void IN(stream)(R *restrict c, int64_t ldc, VIEW a, VIEW b, int64_t rows, int64_t columns,
                     int64_t k, R *restrict work) {
  R *packed = work + rows * columns;
  for (int64_t p = 0; p < k; p += DEPTH) {
    int64_t depth = smaller(DEPTH, k - p);
    for (int64_t s = 0; s < parts(depth, STEP); s++)
      for (int64_t i = 0; i < rows; i += STEP) {
        QUAD x[STEP];
        VIEW v = IN(from)(a, p + s * STEP, i);
        IN(block)(x, v, depth - s * STEP, rows - i);
        for (int64_t q = 0; q < smaller(rows - i, STEP); q++)
          ((QUAD *)packed)[s * rows + i + q] = x[q];
      }
    for (int64_t q = 0; q < depth; q += STEP) {
      const T *from = b.at + (p + q) * b.deep;
      const R *by = packed + q * rows;
      int64_t ahead = p + q + 2 * STEP <= k ? STEP * b.deep : 0;
      switch (smaller(depth - q, STEP)) {
        case 1: IN(strip)(1, work, by, from, b.deep, ahead, rows, columns, q); break;
        case 2: IN(strip)(2, work, by, from, b.deep, ahead, rows, columns, q); break;
        case 3: IN(strip)(3, work, by, from, b.deep, ahead, rows, columns, q); break;
        default: IN(strip)(STEP, work, by, from, b.deep, ahead, rows, columns, q);
      }
    }
    for (int64_t i = 0; i < rows; i++) /* sums of many are sums of sums: fewer errors of rounding */
      for (int64_t j = 0; j < columns; j += VL) {
        V sum = *(const V *)(work + i * columns + j), *to = (V *)(c + i * ldc + j);
        if (p) sum += *to;
        *to = sum;
      }
  }
}

/* c (batch, split, m, n) = a b, of `split` parts of the k products of each sum, cell by cell, `tall`
 * rows by `broad` columns; each group takes its part of the cells and has `room` numbers to work in. */
void IN(calque_gemm)(const T *a_base, int64_t a_at, const T *b_base, int64_t b_at, R *c_base,
                     int64_t c_at, R *work_base, int64_t work_at, int64_t batch, int64_t m,
                     int64_t n, int64_t every, int64_t split, int64_t a_batch, int64_t a_row,
                     int64_t a_column, int64_t b_batch, int64_t b_row, int64_t b_column,
                     int64_t tall, int64_t broad, int64_t few, int64_t room, int64_t group,
                     int64_t groups) {
  int64_t down = parts(m, tall), along = parts(n, broad), cells = batch * split * down * along;
  R *work = work_base + work_at + group * room;
  for (int64_t at = cells * group / groups; at < cells * (group + 1) / groups; at++) {
    int64_t which = at / (down * along), i = at / along % down * tall, j = at % along * broad;
    int64_t rows = smaller(m - i, tall), columns = smaller(n - j, broad), left = 0;
    int64_t begin = start_of(every, split, which % split);
    int64_t k = start_of(every, split, which % split + 1) - begin;
    const T *a_from = a_base + a_at + which / split * a_batch + i * a_row + begin * a_column;
    const T *b_from = b_base + b_at + which / split * b_batch + j * b_column + begin * b_row;
    VIEW a = {a_from, a_column, a_row, 0, 0, 0}, b = {b_from, b_row, b_column, 0, 0, 0};
    R *c = c_base + c_at + (which * m + i) * n + j;
    if (!k) { /* a size that is known at the call only: sums of nothing */
      for (int64_t r = 0; r < rows; r++)
        for (int64_t q = 0; q < columns; q++) c[r * n + q] = 0;
      continue;
    }
    if (rows <= few && b_column == 1) {
      left = columns / COLUMNS * COLUMNS;
      IN(stream)(c, n, a, b, rows, left, k, work);
    }
    b.at += left * b_column;
    if (left < columns) IN(cell)(c + left, n, a, b, rows, columns - left, k, work);
  }
}

#include "gemm_convolve.inc.h"
#include "gemv.inc.h"

#undef VIEW
#undef PANEL
#undef PACKED
