/* Matrices of one kind of blocks (a template of quantized.c, which see). */
#define IN(x) JOIN(x, SUFFIX)
#ifndef UNIT
#define UNIT 1 /* bytes that offsets count */
#endif

/* Adds a block, times that of `tall` rows of x, which are k long, to sums of its groups in turn. */
INLINE void IN(add)(const int tall, const int chains, V (*sum)[TALL], const uint8_t *restrict block,
                    const float *restrict x, int64_t k) {
  enum { MORE = GROUPS > CHAINS ? CHAINS : GROUPS };
  float scale[GROUPS], offset[GROUPS];
  IN(scales)(block, scale, offset);
  UNROLL for (int first = 0; first < GROUPS; first += MORE)
    UNROLL for (int c = 0; c < MORE; c++) {
      int g = first + c;
      V part[TALL] = {{0}};
      UNROLL for (int p = 0; p < PARTS; p++) {
        V by = NUMBERS(block, g, p);
        if (OFFSETS) by = by * scale[g] + offset[g];
        UNROLL for (int j = 0; j < tall; j++)
          part[j] += by * *(const V *)(x + j * k + g * GROUP + p * VL);
      }
      UNROLL for (int j = 0; j < tall; j++)
        sum[c % chains][j] += (OFFSETS ? 1 : scale[g]) * part[j];
    }
}

/* y[j * y_apart + i] = row i of w times row j of x, both from where they begin, of `wide` rows of w and
 * `tall` of x; each has so many blocks. */
INLINE void IN(dots)(const int wide, const int tall, float *restrict y, int64_t y_apart,
                     const uint8_t *restrict w, const float *restrict x, int64_t blocks) {
  const int most = CHAINS / (wide * tall), chains = most > 0 ? most : 1;
  const int some = GROUPS < chains ? chains / GROUPS : 1; /* blocks */
  int64_t k = blocks * GROUPS * GROUP, b = 0;
  V sum[WIDE][CHAINS][TALL] = {{{{0}}}};
  for (; b + some <= blocks; b += some)
    UNROLL for (int c = 0; c < some; c++) UNROLL for (int i = 0; i < wide; i++) {
      const uint8_t *block = w + (i * blocks + b + c) * BYTES;
      if (wide > 1)
        UNROLL for (int line = 0; line < BYTES; line += 64) __builtin_prefetch(block + line + AHEAD);
      IN(add)(tall, GROUPS < chains ? 1 : chains, sum[i] + c, block,
              x + (b + c) * GROUPS * GROUP, k);
    }
  for (; b < blocks; b++)
    UNROLL for (int i = 0; i < wide; i++)
      IN(add)(tall, 1, sum[i], w + (i * blocks + b) * BYTES, x + b * GROUPS * GROUP, k);
  UNROLL for (int i = 0; i < wide; i++) UNROLL for (int j = 0; j < tall; j++) {
    UNROLL for (int c = 1; c < chains; c++) sum[i][0][j] += sum[i][c][j];
    y[j * y_apart + i] = total(sum[i][0][j]);
  }
}

/* All rows of x, a few at a time. */
INLINE void IN(strip)(const int wide, float *restrict y, int64_t y_apart, const uint8_t *restrict w,
                      const float *restrict x, int64_t rows, int64_t blocks) {
  int64_t j = 0, k = blocks * GROUPS * GROUP;
  for (; j + TALL <= rows; j += TALL)
    IN(dots)(wide, TALL, y + j * y_apart, y_apart, w, x + j * k, blocks);
  if (TALL > 3 && rows - j == 3)
    IN(dots)(wide, 3, y + j * y_apart, y_apart, w, x + j * k, blocks);
  else if (rows - j == 2)
    IN(dots)(wide, 2, y + j * y_apart, y_apart, w, x + j * k, blocks);
  else if (rows - j == 1)
    IN(dots)(wide, 1, y + j * y_apart, y_apart, w, x + j * k, blocks);
}

/* y (m, n) = x (m, k) times the transpose of w, n rows of blocks; each group takes its part of n, whole
 * lines of y.
 *
 * One row of w at a time is memory read from its beginning to its end, which is faster than two rows side
 * by side (q8_0, one row of x: 16.6 for 6.3 GB/s a core); two rows share what is read of a large x. */
void IN(calque_quantized_dot)(const uint8_t *w_base, int64_t w_at, const float *x_base, int64_t x_at,
                       float *y_base, int64_t y_at, int64_t m, int64_t n, int64_t k, int64_t group,
                       int64_t groups) {
  int64_t lines = parts(n, LINE), blocks = k / (GROUPS * GROUP);
  int64_t i = lines * group / groups * LINE, end = smaller(n, lines * (group + 1) / groups * LINE);
  const uint8_t *w = w_base + w_at * UNIT;
  const float *x = x_base + x_at;
  float *y = y_base + y_at;
  if (smaller(m, TALL) * k > NEAR && m > 1)
    for (; i + WIDE <= end; i += WIDE)
      IN(strip)(WIDE, y + i, n, w + i * blocks * BYTES, x, m, blocks);
  for (; i < end; i++) IN(strip)(1, y + i, n, w + i * blocks * BYTES, x, m, blocks);
}

/* The numbers of a block. */
INLINE void IN(numbers)(float *restrict to, const uint8_t *restrict block) {
  float scale[GROUPS], offset[GROUPS];
  IN(scales)(block, scale, offset);
  TWICE for (int g = 0; g < GROUPS; g++)
    UNROLL for (int p = 0; p < PARTS; p++) {
      V x = scale[g] * NUMBERS(block, g, p);
      if (OFFSETS) x += offset[g];
      *(V *)(to + g * GROUP + p * VL) = x;
    }
}

/* calque_quantized_dot of many rows: strips of w are unpacked to work, STRIP x DEPTH numbers of each
 * group. */
void IN(calque_quantized_product)(const uint8_t *w_base, int64_t w_at, const float *x_base,
                                  int64_t x_at, float *y_base, int64_t y_at, float *work_base,
                                  int64_t work_at, int64_t m, int64_t n, int64_t k, int64_t group,
                                  int64_t groups) {
  enum { BLOCK = GROUPS * GROUP };
  int64_t lines = parts(n, LINE), blocks = k / BLOCK;
  int64_t begin = lines * group / groups * LINE;
  int64_t end = smaller(n, lines * (group + 1) / groups * LINE);
  float *work = work_base + work_at + group * STRIP * DEPTH;
  for (int64_t p = 0; p < k; p += DEPTH) {
    int64_t depth = smaller(DEPTH, k - p), strip;
    for (int64_t i = begin; i < end; i += strip) {
      strip = smaller(STRIP, end - i);
      for (int64_t r = 0; r < strip; r++)
        for (int64_t b = 0; b < depth / BLOCK; b++)
          IN(numbers)(work + r * DEPTH + b * BLOCK,
                      w_base + w_at * UNIT + ((i + r) * blocks + p / BLOCK + b) * BYTES);
      tiles(y_base + y_at + i, n, work, strip, x_base + x_at + p, k, m, depth, p > 0);
    }
  }
}

/* y = the numbers of `count` blocks. */
void IN(calque_dequantize)(const uint8_t *w_base, int64_t w_at, float *y_base, int64_t y_at,
                           int64_t count, int64_t group, int64_t groups) {
  for (int64_t b = count * group / groups; b < count * (group + 1) / groups; b++)
    IN(numbers)(y_base + y_at + b * GROUPS * GROUP, w_base + w_at * UNIT + b * BYTES);
}

#undef IN
#undef SUFFIX
#undef BYTES
#undef GROUPS
#undef OFFSETS
#undef NUMBERS
#undef UNIT
