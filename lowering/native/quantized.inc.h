/* Matrices of one kind of blocks (a template of quantized.c, which see). */
#define IN(x) JOIN(x, SUFFIX)
#ifndef VECTOR /* of a group's numbers, before they are scaled */
#define VECTOR(from, p) widened((from) + (p) * VL)
#define UNIT 1 /* bytes that offsets count */
#endif

/* y[j * y_apart + i] = row i of w times row j of x, both from where they begin, of `wide` rows of w and
 * `tall` of x; rows of w are `blocks` long. */
INLINE void IN(dots)(const int wide, const int tall, float *restrict y, int64_t y_apart,
                     const uint8_t *restrict w, const float *restrict x, int64_t blocks) {
  V sum[WIDE][TALL] = {{{0}}};
  for (int64_t b = 0; b < blocks; b++) {
    TWICE for (int g = 0; g < GROUPS; g++) {
      const float *at = x + (b * GROUPS + g) * GROUP;
      UNROLL for (int i = 0; i < wide; i++) {
        int8_t room[GROUP];
        float scale, offset = 0;
        const int8_t *from = IN(unpack)(w + (i * blocks + b) * BYTES, g, room, &scale, &offset);
        V part[TALL] = {{0}}, plain[TALL] = {{0}};
        UNROLL for (int p = 0; p < PARTS; p++) {
          V by = VECTOR(from, p);
          UNROLL for (int j = 0; j < tall; j++) {
            V with = *(const V *)(at + j * blocks * GROUPS * GROUP + p * VL);
            part[j] += by * with;
            if (OFFSETS) plain[j] += with;
          }
        }
        UNROLL for (int j = 0; j < tall; j++) {
          sum[i][j] += scale * part[j];
          if (OFFSETS) sum[i][j] += offset * plain[j];
        }
      }
    }
  }
  UNROLL for (int i = 0; i < wide; i++)
    UNROLL for (int j = 0; j < tall; j++) y[j * y_apart + i] = total(sum[i][j]);
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
 * lines of y. */
void IN(calque_quantized_dot)(const uint8_t *w_base, int64_t w_at, const float *x_base, int64_t x_at,
                       float *y_base, int64_t y_at, int64_t m, int64_t n, int64_t k, int64_t group,
                       int64_t groups) {
  int64_t lines = parts(n, LINE), blocks = k / (GROUPS * GROUP);
  int64_t i = lines * group / groups * LINE, end = smaller(n, lines * (group + 1) / groups * LINE);
  const uint8_t *w = w_base + w_at * UNIT;
  const float *x = x_base + x_at;
  float *y = y_base + y_at;
  for (; i + WIDE <= end; i += WIDE)
    IN(strip)(WIDE, y + i, n, w + i * blocks * BYTES, x, m, blocks);
  for (; i < end; i++) IN(strip)(1, y + i, n, w + i * blocks * BYTES, x, m, blocks);
}

/* The numbers of a block. */
INLINE void IN(numbers)(float *restrict to, const uint8_t *restrict block) {
  TWICE for (int g = 0; g < GROUPS; g++) {
    int8_t room[GROUP];
    float scale, offset = 0;
    const int8_t *from = IN(unpack)(block, g, room, &scale, &offset);
    UNROLL for (int p = 0; p < PARTS; p++) {
      V x = scale * VECTOR(from, p);
      if (OFFSETS) x += offset;
      *(V *)(to + g * GROUP + p * VL) = x;
    }
  }
}

/* calque_quantized_dot of many rows: strips of w are unpacked to work, STRIP x DEPTH numbers of each
 * group. */
void IN(calque_quantized_product)(const uint8_t *w_base, int64_t w_at, const float *x_base,
                                  int64_t x_at, float *y_base, int64_t y_at, float *work_base,
                                  int64_t work_at, int64_t m, int64_t n, int64_t k, int64_t group,
                                  int64_t groups) {
  enum { NUMBERS = GROUPS * GROUP };
  int64_t lines = parts(n, LINE), blocks = k / NUMBERS;
  int64_t begin = lines * group / groups * LINE;
  int64_t end = smaller(n, lines * (group + 1) / groups * LINE);
  float *work = work_base + work_at + group * STRIP * DEPTH;
  for (int64_t p = 0; p < k; p += DEPTH) {
    int64_t depth = smaller(DEPTH, k - p), strip;
    for (int64_t i = begin; i < end; i += strip) {
      strip = smaller(STRIP, end - i);
      for (int64_t r = 0; r < strip; r++)
        for (int64_t b = 0; b < depth / NUMBERS; b++)
          IN(numbers)(work + r * DEPTH + b * NUMBERS,
                      w_base + w_at * UNIT + ((i + r) * blocks + p / NUMBERS + b) * BYTES);
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
#undef VECTOR
#undef UNIT
