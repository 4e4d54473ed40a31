/* What windows see of one element type T, packed as an operand of a product (a template of gemm.c,
 * which see): nothing is gathered into memory before. */

/* n numbers at these places, at most STEP, filled up with zeros */
INLINE QUAD IN(load_at)(const T *from, const int64_t *places, int64_t n) {
  const IN(bits) *at = (const IN(bits) *)from;
  BITS bits[STEP] = {0};
  if (n >= STEP) { /* not by way of memory */
    IN(four) x = {at[places[0]], at[places[1]], at[places[2]], at[places[3]]};
    return IN(load_four)((const T *)&x);
  }
  for (int64_t i = 0; i < n; i++) bits[i] = at[places[i]];
  return IN(load_four)((const T *)bits);
}

/* IN(block) of operands whose elements lie at from[deep[p] + across[i]]. */
INLINE void IN(block_at)(QUAD *x, const T *from, const int64_t *deep, int64_t depth,
                         const int64_t *across, int64_t there) {
  if (depth >= STEP && adjacent(deep, STEP)) {
    for (int i = 0; i < STEP; i++)
      x[i] = i < there ? IN(load_four)(from + across[i] + deep[0]) : (QUAD){0};
  } else if (depth >= STEP && there >= STEP && adjacent(across, STEP)) {
    for (int p = 0; p < STEP; p++) x[p] = IN(load_four)(from + across[0] + deep[p]);
    SUM(turn)(x);
  } else {
    for (int i = 0; i < STEP; i++)
      x[i] = i < there ? IN(load_at)(from + across[i], deep, smaller(depth, STEP)) : (QUAD){0};
  }
}

/* IN(pack_a) of windows: as a rule four elements of a row, or four rows, are neighbours. */
ONCE void IN(pack_windows_a)(R *restrict to, VIEW a, int64_t depth, int64_t rows) {
  int64_t panels = parts(rows, TILE_ROWS), steps = parts(depth, STEP);
  int64_t deep[DEPTH], across[TILE_ROWS];
  places(deep, &a.windows->deep, a.p, depth);
  for (int64_t t = 0; t < panels; t++) {
    int64_t first = start_of(rows, panels, t), high = start_of(rows, panels, t + 1) - first;
    QUAD *put = (QUAD *)(to + first * steps * STEP);
    places(across, &a.windows->across, a.i + first, high);
    for (int64_t s = 0; s < steps; s++, put += high) {
      const int64_t *at = deep + s * STEP;
      int64_t left = depth - s * STEP;
      if (left >= STEP && adjacent(at, STEP)) {
        const T *from = a.at + at[0];
        for (int64_t i = 0; i < high; i++) put[i] = IN(load_four)(from + across[i]);
        continue;
      }
      for (int64_t i = 0; i < high; i += STEP) {
        QUAD x[STEP];
        if (i + STEP > high && high > STEP) i = high - STEP; /* some of them again */
        IN(block_at)(x, a.at, at, left, across + i, high - i);
        for (int64_t k = 0; k < smaller(high - i, STEP); k++) put[i + k] = x[k];
      }
    }
  }
}

/* IN(pack_b) of windows. */
ONCE void IN(pack_windows_b)(R *restrict to, VIEW b, int64_t depth, int64_t columns) {
  int64_t steps = parts(depth, STEP), deep[DEPTH], across[COLUMNS];
  places(deep, &b.windows->deep, b.p, depth);
  for (int64_t j = 0; j < columns; j += COLUMNS, to += PANEL(steps)) {
    int64_t there = smaller(columns - j, COLUMNS);
    places(across, &b.windows->across, b.i + j, there);
    for (int64_t i = there; i < COLUMNS; i++) across[i] = across[there - 1]; /* not in c */
    for (int64_t p = depth; p < steps * STEP; p++) {
      V *put = (V *)(to + p * COLUMNS);
      put[0] = put[1] = (V){0};
    }
    if (adjacent(across, COLUMNS)) {
      const T *from = b.at + across[0];
      for (int64_t p = 0; p < depth; p++) {
        V *put = (V *)(to + p * COLUMNS);
        put[0] = IN(load)(from + deep[p]), put[1] = IN(load)(from + deep[p] + VL);
      }
      continue;
    }
    for (int64_t i = 0; i < COLUMNS; i += STEP)
      if (adjacent(across + i, STEP)) {
        for (int64_t p = 0; p < depth; p++)
          *(QUAD *)(to + p * COLUMNS + i) = IN(load_four)(b.at + across[i] + deep[p]);
      } else {
        for (int64_t p = 0; p < depth; p += STEP) {
          QUAD x[STEP];
          IN(block_at)(x, b.at, deep + p, depth - p, across + i, STEP);
          SUM(turn)(x);
          for (int q = 0; q < STEP; q++) *(QUAD *)(to + (p + q) * COLUMNS + i) = x[q];
        }
      }
  }
}
