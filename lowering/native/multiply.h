/* c += op(a) op(b) for matrices of any strides (a template, see each.h), and triangular systems.
 *
 * b is packed on the stack, DEPTH rows by the columns of one tile; a is read where it lies.  A tile
 * of c (TILE_ROWS x TILE_COLUMNS) stays in registers while the packed b (at most 16 KiB: half of a
 * first level cache) passes by.  Goto and van de Geijn, "Anatomy of high-performance matrix
 * multiplication" (2008).
 */
#ifndef DEPTH
#define DEPTH 128
#define TILE_VECTORS 2
#endif
#define TILE_COLUMNS (TILE_VECTORS * VL / PARTS)

/* An operand: element (i, j) at at[i * row + j * column], conjugated or not. */
typedef struct {
  const T *at;
  int64_t row, column;
  bool conj;
} NAME(view);
#define VIEW NAME(view)

INLINE UNUSED VIEW NAME(view_of)(const T *at, int64_t row) { return (VIEW){at, row, 1, false}; }

INLINE UNUSED VIEW NAME(part)(VIEW x, int64_t i, int64_t j) {
  x.at += i * x.row + j * x.column;
  return x;
}

INLINE UNUSED VIEW NAME(transposed)(VIEW x) {
  int64_t row = x.row;
  x.row = x.column;
  x.column = row;
  return x;
}

INLINE UNUSED VIEW NAME(adjoint)(VIEW x) {
  x = NAME(transposed)(x);
  x.conj = !x.conj && COMPLEX;
  return x;
}

/* Rows p of `columns` columns of b, times sign, filled up with zeros; parts of complex numbers lie
 * in vectors of their own. */
ONCE void NAME(pack)(V *restrict packed, VIEW b, int64_t depth, int64_t columns, R sign,
                     bool conj) {
  R *to = (R *)packed;
  const int64_t width = TILE_COLUMNS;
  R imaginary = conj ? -sign : sign;
  (void)imaginary;
  if (!COMPLEX && b.column == 1 && columns == width) {
    for (int64_t p = 0; p < depth; p++) {
      const V *from = (const V *)(b.at + p * b.row);
      UNROLL for (int v = 0; v < TILE_VECTORS; v++) packed[p * TILE_VECTORS + v] = sign * from[v];
    }
    return;
  }
  for (int64_t j = 0; j < width; j++) {
    const T *from = b.at + j * b.column;
    if (j < columns)
      for (int64_t p = 0; p < depth; p++) {
        to[p * width * PARTS + j] = sign * RE(from[p * b.row]);
        if (COMPLEX) to[p * width * PARTS + width + j] = imaginary * IM(from[p * b.row]);
      }
    else
      for (int64_t p = 0; p < depth; p++) {
        to[p * width * PARTS + j] = 0;
        if (COMPLEX) to[p * width * PARTS + width + j] = 0;
      }
  }
}

/* `rows` rows of a tile: c += a packed, conjugated if asked. */
INLINE void NAME(tile)(const int rows, int64_t depth, const T *a, int64_t row, int64_t column,
                       const V *packed, T *c, int64_t ldc, int64_t columns, bool conj) {
  V sum[TILE_ROWS][2];
  UNROLL for (int i = 0; i < rows; i++) sum[i][0] = sum[i][1] = (V){0};
  for (int64_t p = 0; p < depth; p++) {
    V b0 = packed[2 * p], b1 = packed[2 * p + 1];
    const T *from = a + p * column;
    UNROLL for (int i = 0; i < rows; i++) {
      T x = from[i * row];
#if COMPLEX
      sum[i][0] += RE(x) * b0;
      sum[i][1] += RE(x) * b1;
      sum[i][0] -= IM(x) * b1;
      sum[i][1] += IM(x) * b0;
#else
      sum[i][0] += x * b0;
      sum[i][1] += x * b1;
#endif
    }
  }
#if COMPLEX
  R imaginary = conj ? -1 : 1;
  UNROLL for (int i = 0; i < rows; i++) {
    V parts[2] = {sum[i][0], sum[i][1] * imaginary};
    const R *real = (const R *)parts, *rest = real + VL;
    R *to = (R *)(c + i * ldc);
    if (columns == TILE_COLUMNS)
      for (int64_t j = 0; j < TILE_COLUMNS; j++) {
        to[2 * j] += real[j];
        to[2 * j + 1] += rest[j];
      }
    else
      for (int64_t j = 0; j < columns; j++) {
        to[2 * j] += real[j];
        to[2 * j + 1] += rest[j];
      }
  }
#else
  (void)conj;
  if (columns == TILE_COLUMNS) {
    UNROLL for (int i = 0; i < rows; i++) {
      V *to = (V *)(c + i * ldc);
      to[0] += sum[i][0];
      to[1] += sum[i][1];
    }
    return;
  }
  UNROLL for (int i = 0; i < rows; i++) {
    V parts[2] = {sum[i][0], sum[i][1]};
    const R *from = (const R *)parts;
    for (int64_t j = 0; j < columns; j++) c[i * ldc + j] += from[j];
  }
#endif
}

/* c (m x n, rows ldc apart) += sign op(a) op(b), summed over k.  With `lower`, only what lies on
 * and below c's diagonal is needed: above it c may take anything. */
ONCE void NAME(multiply)(T *c, int64_t ldc, VIEW a, VIEW b, int64_t m, int64_t n, int64_t k, R sign,
                         bool lower) {
  V packed[DEPTH * 2] __attribute__((aligned(64)));
  for (int64_t p = 0; p < k; p += DEPTH) {
    int64_t depth = smaller(DEPTH, k - p);
    for (int64_t j = 0; j < n; j += TILE_COLUMNS) {
      int64_t columns = smaller(TILE_COLUMNS, n - j);
      /* conj(a) b = conj(a conj(b)) */
      NAME(pack)(packed, NAME(part)(b, p, j), depth, columns, sign, b.conj != a.conj);
      int64_t i = lower ? j : 0;
      while (i < m) {
        const T *from = a.at + i * a.row + p * a.column;
        T *to = c + i * ldc + j;
        int64_t left = m - i;
        if (left >= TILE_ROWS) {
          NAME(tile)(TILE_ROWS, depth, from, a.row, a.column, packed, to, ldc, columns, a.conj);
          i += TILE_ROWS;
        } else if (left >= 4) {
          NAME(tile)(4, depth, from, a.row, a.column, packed, to, ldc, columns, a.conj);
          i += 4;
        } else if (left >= 2) {
          NAME(tile)(2, depth, from, a.row, a.column, packed, to, ldc, columns, a.conj);
          i += 2;
        } else {
          NAME(tile)(1, depth, from, a.row, a.column, packed, to, ldc, columns, a.conj);
          i += 1;
        }
      }
    }
  }
}
