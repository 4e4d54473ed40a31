/* The kernel for elements of one size (see transpose.c). */
#define NAME(x) JOIN(x, SUFFIX)
#define V NAME(turned_run)
#define L NAME(turned_line)
#define LINE_BYTES (TILE * sizeof(T) < VECTOR_BYTES ? TILE * sizeof(T) : VECTOR_BYTES)
typedef T V __attribute__((vector_size(16), aligned(sizeof(T)), may_alias));
typedef T L __attribute__((vector_size(LINE_BYTES), aligned(sizeof(T)), may_alias));

/* LANES rows of as many elements: interleaved by halves as often as they can be halved, they are columns. */
INLINE void NAME(turn)(const T *x, int64_t apart, T *y) {
  V a[LANES], b[LANES];
  UNROLL for (int i = 0; i < LANES; i++) a[i] = *(const V *)(x + i * apart);
  UNROLL for (int done = 1; done < LANES; done *= 2) {
    UNROLL for (int i = 0; i < LANES / 2; i++) {
      b[2 * i] = LOW(a[i], a[i + LANES / 2]);
      b[2 * i + 1] = HIGH(a[i], a[i + LANES / 2]);
    }
    UNROLL for (int i = 0; i < LANES; i++) a[i] = b[i];
  }
  UNROLL for (int i = 0; i < LANES; i++) *(V *)(y + i * TILE) = a[i];
}

/* TILE rows of as many elements, `apart` in x, which are columns of y, whose rows are `wide` apart. */
INLINE void NAME(turn_tile)(const T *x, int64_t apart, T *y, int64_t wide) {
  T tile[TILE * TILE] __attribute__((aligned(64)));
  for (int c = 0; c < TILE; c += LANES)
    for (int r = 0; r < TILE; r += LANES) NAME(turn)(x + c * apart + r, apart, tile + r * TILE + c);
  for (int r = 0; r < TILE; r++)
    UNROLL for (int c = 0; c < TILE; c += (int)(LINE_BYTES / sizeof(T)))
      *(L *)(y + r * wide + c) = *(const L *)(tile + r * TILE + c);
}

/* y[i, j, k, r, c] = x[i, j, k, c, r]: `rows` of r and `columns` of c, TILE or more of each; x's elements are
 * side by side along r and x_apart along c, y's side by side along c and y_apart along r; i, j and k are
 * further axes, each with its size and how far apart it is in x and in y.  Tiles at the ends overlap those
 * before them, and write the same there.  Workgroups share the tiles. */
void NAME(calque_transpose)(const T *x_base, int64_t x_at, T *y_base, int64_t y_at, int64_t n0, int64_t x0,
                            int64_t y0, int64_t n1, int64_t x1, int64_t y1, int64_t n2, int64_t x2,
                            int64_t y2, int64_t rows, int64_t columns, int64_t x_apart, int64_t y_apart,
                            int64_t group, int64_t groups) {
  int64_t down = parts(rows, TILE), across = parts(columns, TILE);
  int64_t total = n0 * n1 * n2 * down * across;
  int64_t at = total * group / groups, end = total * (group + 1) / groups;
  while (at < end) {
    int64_t strip = at / across, first = at % across, rest = strip / down;
    int64_t r = smaller(strip % down * TILE, rows - TILE), last = smaller(across, first + end - at);
    int64_t i = rest / (n1 * n2), j = rest / n2 % n1, k = rest % n2;
    const T *x = x_base + x_at + i * x0 + j * x1 + k * x2 + r;
    T *y = y_base + y_at + i * y0 + j * y1 + k * y2 + r * y_apart;
    for (int64_t t = first; t < last; t++) {
      int64_t c = smaller(t * TILE, columns - TILE);
      NAME(turn_tile)(x + c * x_apart, x_apart, y + c, y_apart);
    }
    at += last - first;
  }
}

#undef T
#undef SUFFIX
#undef LANES
#undef TILE
#undef LOW
#undef HIGH
#undef NAME
#undef V
#undef L
#undef LINE_BYTES
