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

/* The runs of a vector's places: lanes from one on, `step` apart. */
typedef struct {
  int64_t at[RUNS];              /* where the first lane of all would lie */
  int8_t count, step, lane[RUNS]; /* its first lane */
} IN(runs);

/* Runs of VL places; none where they are too many, or go back (then a load would reach beyond them). */
INLINE IN(runs) IN(runs_of)(const int64_t *across) {
  IN(runs) x = {{0}, 0, 1, {0}};
  int64_t step = across[1] - across[0];
  for (int64_t i = 2; i < VL; i++) step = smaller(step, across[i] - across[i - 1]);
  if (step != 1 && step != 2) return x;
  x.step = (int8_t)step;
  for (int64_t i = 0; i < VL; i++)
    if (!i || across[i] != across[i - 1] + step) {
      if (x.count == RUNS) {
        x.count = 0;
        return x;
      }
      x.at[x.count] = across[i] - i * step;
      x.lane[x.count++] = (int8_t)i;
    }
  return x;
}

/* VL elements, `step` apart; of two nothing is read between the last and the one behind it. */
INLINE V IN(load_run)(const T *from, const int step) {
  if (step == 1) return IN(load)(from);
  V low = IN(load)(from), high = IN(load)(from + VL - 1);
  return MIX(SUM(lanes), low, high, SECONDS);
}

/* A vector of each of `depth` rows of a panel. */
INLINE void IN(pack_run)(R *restrict to, const T *restrict from, const int64_t *deep,
                         int64_t depth, const IN(runs) *x, const int step, const int count) {
  SUM(lanes) of[RUNS], one = {0};
  UNROLL for (int r = 1; r < count; r++) {
    for (int i = 0; i < VL; i++) one[i] = i < x->lane[r] ? 0 : -1;
    of[r] = one;
  }
  for (int64_t p = 0; p < depth; p++, to += COLUMNS) {
    const T *at = from + deep[p];
    V u = IN(load_run)(at + x->at[0], step);
    UNROLL for (int r = 1; r < count; r++) {
      V v = IN(load_run)(at + x->at[r], step);
      u = (V)(((SUM(lanes))u & ~of[r]) | ((SUM(lanes))v & of[r]));
    }
    *(V *)to = u;
  }
}

ONCE void IN(pack_runs)(R *to, const T *from, const int64_t *deep, int64_t depth,
                        const IN(runs) *x) {
#define OF_RUNS(n)                                                       \
  case n: IN(pack_run)(to, from, deep, depth, x, 1, n); break;           \
  case n + RUNS: IN(pack_run)(to, from, deep, depth, x, 2, n); break;
  switch (x->count + (x->step - 1) * RUNS) {
    OF_RUNS(1) OF_RUNS(2) OF_RUNS(3) OF_RUNS(4)
  }
#undef OF_RUNS
}

/* The same of any places, `there` of them. */
ONCE void IN(pack_places)(R *to, const T *from, const int64_t *deep, int64_t depth,
                          const int64_t *places, int64_t there) {
  int64_t at[VL];
  for (int64_t i = 0; i < VL; i++) at[i] = places[smaller(i, there - 1)]; /* not in c */
  for (int64_t i = 0; i < VL; i += STEP)
    if (VL < STEP) { /* two places */
      for (int64_t p = 0; p < depth; p++)
        for (int64_t k = 0; k < VL; k++)
          to[p * COLUMNS + k] = IN(load_at)(from + at[k], deep + p, 1)[0];
    } else if (adjacent(at + i, STEP)) {
      for (int64_t p = 0; p < depth; p++)
        *(QUAD *)(to + p * COLUMNS + i) = IN(load_four)(from + at[i] + deep[p]);
    } else {
      for (int64_t p = 0; p < depth; p += STEP) {
        QUAD x[STEP];
        IN(block_at)(x, from, deep + p, depth - p, at + i, STEP);
        SUM(turn)(x);
        for (int q = 0; q < STEP; q++) *(QUAD *)(to + (p + q) * COLUMNS + i) = x[q];
      }
    }
}

/* Rows of a panel from a block's last on, up to whole steps. */
INLINE void IN(fill)(R *to, int64_t depth) {
  for (int64_t p = depth; p < whole(depth, STEP); p++) {
    V *put = (V *)(to + p * COLUMNS);
    put[0] = put[1] = (V){0};
  }
}
