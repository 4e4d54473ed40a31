/* Products of rounded rows with matrices of one kind of blocks (a template of quantized.c, which see). */
#define IN(x) JOIN(x, SUFFIX)
#define NAME(x) JOIN(VARIANT(x), SUFFIX)
#ifndef ZERO
#define ZERO 0 /* what integers of a block are above those they stand for */
#endif
#ifndef PACKED
#define PACKED 0 /* where halves begin of blocks that are taken four at once */
#endif
#ifndef IS_SIGNED
#define IS_SIGNED 0
#endif

/* Scales, and offsets, of `count` groups, and zeros up to the next vector. */
TARGET INLINE void NAME(chunk)(float *restrict scale, float *restrict offset,
                               const uint8_t *restrict w, int64_t count) {
  int64_t g = 0;
  if (GROUPS == 1)
    for (; g + 4 <= count; g += 4) {
      four_halves(scale + g, w + g * BYTES, BYTES);
      if (OFFSETS) four_halves(offset + g, w + g * BYTES + 2, BYTES);
    }
  _Pragma("GCC unroll 1") for (; g < count; g += GROUPS)
    IN(scales)(w + g / GROUPS * BYTES, scale + g, offset + g);
  for (; g % LANES; g++) scale[g] = offset[g] = 0;
}

/* Adds integers times block `at` of the rows, and `by`, to a sum. */
TARGET INLINE void NAME(add_row)(PRODUCTS *sum, const Rounded *x, int64_t at, BYTES32 w, float by) {
  SUMS part = {0};
  if (ZERO && !PACKED) part = begun(x->sums + at);
  part = MULTIPLIED(part, w, bytes32(x->bytes + at * GROUP), IS_SIGNED);
  *sum += by * __builtin_convertvector(part, PRODUCTS);
}

/* The same of `tall` rows, whose scales are CHUNK apart. (Loops of one step and UNROLL before them would make GCC unroll those around.) */
TARGET INLINE void NAME(add_group)(const int tall, PRODUCTS *sum, const Rounded *x, int64_t at,
                                   BYTES32 w, const float *by) {
  NAME(add_row)(sum, x, at, w, by[0]);
  if (tall > 1) NAME(add_row)(sum + 1, x, x->groups + at, w, by[CHUNK]);
  if (tall > 2) {
    NAME(add_row)(sum + 2, x, 2 * x->groups + at, w, by[2 * CHUNK]);
    NAME(add_row)(sum + 3, x, 3 * x->groups + at, w, by[3 * CHUNK]);
  }
}

/* y[j * y_apart] = a row of blocks times row j of `tall` rounded ones.  Scales of a run of blocks come
 * first, several at once: then one costs a load. */
TARGET INLINE void NAME(row_int8)(const int tall, float *restrict y, int64_t y_apart,
                                  const uint8_t *restrict w, const Rounded *x) {
  PRODUCTS sum[2][FEW_ROWS] = {{{0}}}, rest[FEW_ROWS] = {{0}};
  float scale[CHUNK] __attribute__((aligned(64))), offset[CHUNK] __attribute__((aligned(64)));
  float by[FEW_ROWS * CHUNK] __attribute__((aligned(64)));
#ifdef VNNI
  __m512 four[FEW_ROWS] = {{0}};
#endif
  for (int64_t first = 0; first < x->groups; first += CHUNK, w += CHUNK / GROUPS * BYTES) {
    int64_t count = smaller(CHUNK, x->groups - first), g = 0;
    NAME(chunk)(scale, offset, w, count);
    for (int j = 0; j < tall; j++)
      for (int64_t i = 0; i < count; i += LANES) {
        const LOOSE *scales = (const LOOSE *)(x->scale + j * x->pitch + first + i);
        const LOOSE *shifts = (const LOOSE *)(x->shift + j * x->pitch + first + i);
        *(PRODUCTS *)(by + j * CHUNK + i) = *(PRODUCTS *)(scale + i) * *scales;
        if (OFFSETS) rest[j] += *(PRODUCTS *)(offset + i) * *shifts;
        if (ZERO && PACKED) rest[j] -= (float)ZERO * *(PRODUCTS *)(scale + i) * *shifts;
      }
    if (GROUPS == 1) {
#ifdef VNNI
      if (PACKED) {
        const int8_t *bytes = x->bytes + first * GROUP;
        for (; g + 4 <= count; g += 4) {
          __m512i low = four_packed(w + g * BYTES + PACKED, BYTES), high = _mm512_srli_epi16(low, 4);
          __builtin_prefetch(w + g * BYTES + AHEAD);
          low = _mm512_and_si512(low, _mm512_set1_epi8(15));
          high = _mm512_and_si512(high, _mm512_set1_epi8(15));
          for (int j = 0; j < tall; j++)
            four[j] += four_products(low, high, bytes + (j * x->groups + g) * GROUP, by + j * CHUNK + g);
        }
      }
#endif
      for (; g + 2 <= count; g += 2) {
        const uint8_t *block = w + g * BYTES;
        __builtin_prefetch(block + AHEAD);
        NAME(add_group)(tall, sum[0], x, first + g, INTEGERS(block, 0), by + g);
        NAME(add_group)(tall, sum[1], x, first + g + 1, INTEGERS(block + BYTES, 0), by + g + 1);
      }
      if (g < count) NAME(add_group)(tall, sum[0], x, first + g, INTEGERS(w + g * BYTES, 0), by + g);
    } else
      _Pragma("GCC unroll 1") for (; g < count; g += 2) {
        const uint8_t *block = w + g / GROUPS * BYTES;
        int64_t i = g % GROUPS;
        __builtin_prefetch(block + i * 16 + AHEAD);
        NAME(add_group)(tall, sum[0], x, first + g, INTEGERS(block, i), by + g);
        NAME(add_group)(tall, sum[1], x, first + g + 1, INTEGERS(block, i + 1), by + g + 1);
      }
  }
#ifdef VNNI
  if (PACKED)
    for (int j = 0; j < tall; j++) {
      rest[j] += (PRODUCTS)_mm512_castps512_ps256(four[j]);
      rest[j] += (PRODUCTS)_mm512_extractf32x8_ps(four[j], 1);
    }
#endif
  for (int j = 0; j < tall; j++) y[j * y_apart] = added_up(sum[0][j] + sum[1][j] + rest[j]);
}

/* calque_quantized_dot of rows of x that are rounded to integers of 8 bits first, by each group; k is at
 * most ROOM. */
TARGET void NAME(calque_quantized_int8)(const uint8_t *w_base, int64_t w_at, const float *x_base,
                                      int64_t x_at,
                                      float *y_base, int64_t y_at, int64_t m, int64_t n, int64_t k,
                                      int64_t group, int64_t groups) {
  int8_t bytes[ROOM] __attribute__((aligned(64)));
  float scale[ROOM / GROUP + FEW_ROWS * LANES], shift[ROOM / GROUP + FEW_ROWS * LANES];
  int32_t sums[ROOM / GROUP];
  int64_t lines = parts(n, LINE), size = k / (GROUPS * GROUP) * BYTES;
  int64_t begin = lines * group / groups * LINE;
  int64_t end = smaller(n, lines * (group + 1) / groups * LINE);
  int64_t pitch = parts(k, GROUP * LANES) * LANES; /* whole vectors, with zeros behind */
  const uint8_t *w = w_base + w_at;
  for (int64_t j = 0, tall; j < m && begin < end; j += tall) {
    tall = smaller(smaller(FEW_ROWS, m - j), k ? ROOM / k : FEW_ROWS);
    if (tall == 3) tall = 2;
    const float *x = x_base + x_at + j * k;
    float *y = y_base + y_at + j * n;
    for (int64_t r = 0; r < tall; r++) {
      rounded(bytes + r * k, scale + r * pitch, shift + r * pitch, sums + r * k / GROUP, x + r * k, k,
              -ZERO);
      for (int64_t g = k / GROUP; g < pitch; g++) scale[r * pitch + g] = shift[r * pitch + g] = 0;
    }
#ifdef VNNI
    if (PACKED) by_fours(bytes, tall, k / GROUP);
#endif
    const Rounded rows = {bytes, scale, shift, sums, k / GROUP, pitch};
    for (int64_t i = begin; i < end; i++) {
      const uint8_t *row = w + i * size;
      if (tall == 1)
        NAME(row_int8)(1, y + i, n, row, &rows);
      else if (tall == 2)
        NAME(row_int8)(2, y + i, n, row, &rows);
      else
        NAME(row_int8)(FEW_ROWS, y + i, n, row, &rows);
    }
  }
}

#undef IN
#undef NAME
#undef SUFFIX
#undef BYTES
#undef GROUPS
#undef OFFSETS
#undef INTEGERS
#undef IS_SIGNED
#undef ZERO
#undef PACKED
