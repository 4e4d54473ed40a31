/* Products of numbers of 16 bits, or of bytes that are widened to these, two at a time: an instruction
 * multiplies a pair of each operand, neighbours along what is contracted, and adds up both products
 * (a template of gemm.c and gemm_int.c for each type T; ADDED and TARGET as in gemm_panels.inc.h).
 * Operands are packed as gemm.inc.h does it, with a pair in the place of a number.
 */
#define PAIRS(x) JOIN(IN(x), pairs)
#define VIEW PAIRS(view)
#define PAIR PAIRS(pair)    /* in one number of 32 bits, the first in its lower half; */
#define WORDS PAIRS(words)  /* a vector, */
#define FOUR PAIRS(four)    /* STEP of them */

typedef int32_t PAIR __attribute__((may_alias));
typedef int32_t WORDS __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));
typedef int32_t FOUR __attribute__((vector_size(STEP * 4), aligned(4), may_alias));
typedef T PAIRS(some) __attribute__((vector_size(VL * sizeof(T)), aligned(sizeof(T)), may_alias));
typedef T PAIRS(few) __attribute__((vector_size(STEP * sizeof(T)), aligned(sizeof(T)), may_alias));
typedef T PAIRS(row) __attribute__((vector_size(2 * STEP * sizeof(T)), aligned(sizeof(T)), may_alias));
typedef int16_t PAIRS(shorts) __attribute__((vector_size(VL * 2)));
typedef int16_t PAIRS(few_shorts) __attribute__((vector_size(STEP * 2)));
typedef int16_t PAIRS(row_shorts) __attribute__((vector_size(2 * STEP * 2)));

/* An operand: element (i, p) of a, or (p, j) of b, at at[p * deep + i * across]. */
typedef struct {
  const T *at;
  int64_t deep, across;
} VIEW;

/* Numbers side by side with those `next` behind them. */
INLINE WORDS PAIRS(beside)(const T *at, int64_t next) {
  WORDS low = EXTEND(*(const PAIRS(some) *)at, PAIRS(shorts), WORDS);
  WORDS high = EXTEND(*(const PAIRS(some) *)(at + next), PAIRS(shorts), WORDS);
  return (low & 0xffff) | high << 16;
}

INLINE FOUR PAIRS(four_beside)(const T *at, int64_t next) {
  FOUR low = EXTEND(*(const PAIRS(few) *)at, PAIRS(few_shorts), FOUR);
  FOUR high = EXTEND(*(const PAIRS(few) *)(at + next), PAIRS(few_shorts), FOUR);
  return (low & 0xffff) | high << 16;
}

/* Neighbours. */
INLINE FOUR PAIRS(along)(const T *at) {
  return (FOUR)__builtin_convertvector(*(const PAIRS(row) *)at, PAIRS(row_shorts));
}

/* The pairs of n numbers, 2 STEP at most, `apart` from each other, filled up with zeros. */
INLINE FOUR PAIRS(partly)(const T *at, int64_t apart, int64_t n) {
  T x[2 * STEP];
  for (int64_t i = 0; i < 2 * STEP; i++) x[i] = i < n ? at[i * apart] : 0;
  return PAIRS(along)(x);
}

/* 2 STEP rows, of which `depth` are there, by STEP columns of which `across` are: four vectors along
 * the depth. */
INLINE void PAIRS(block)(FOUR *x, VIEW v, int64_t depth, int64_t across) {
  if (depth >= 2 * STEP && across >= STEP && v.across == 1) {
    for (int p = 0; p < STEP; p++) x[p] = PAIRS(four_beside)(v.at + 2 * p * v.deep, v.deep);
    SUM(turn)((QUAD *)x);
  } else if (depth >= 2 * STEP && v.deep == 1) {
    for (int i = 0; i < STEP; i++)
      x[i] = i < across ? PAIRS(along)(v.at + i * v.across) : (FOUR){0};
  } else {
    for (int i = 0; i < STEP; i++)
      x[i] = i < across ? PAIRS(partly)(v.at + i * v.across, v.deep, smaller(depth, 2 * STEP))
                        : (FOUR){0};
  }
}

/* Rows of a block of a as panels of nearly equal heights. */
ONCE void PAIRS(pack_a)(PAIR *restrict to, VIEW a, int64_t depth, int64_t rows) {
  int64_t panels = parts(rows, TILE_ROWS), steps = parts(depth, 2 * STEP);
  for (int64_t t = 0; t < panels; t++) {
    int64_t first = start_of(rows, panels, t), high = start_of(rows, panels, t + 1) - first;
    FOUR *put = (FOUR *)(to + first * steps * STEP);
    for (int64_t s = 0; s < steps; s++, put += high)
      for (int64_t i = 0; i < high; i += STEP) {
        FOUR x[STEP];
        if (i + STEP > high && high > STEP) i = high - STEP; /* some of them again */
        VIEW v = {a.at + s * 2 * STEP * a.deep + (first + i) * a.across, a.deep, a.across};
        PAIRS(block)(x, v, depth - s * 2 * STEP, high - i);
        for (int64_t k = 0; k < smaller(high - i, STEP); k++) put[i + k] = x[k];
      }
  }
}

/* Columns of b as panels of two vectors; behind each a line, that panels are no power of two apart. */
#define PANEL(steps) ((steps) * STEP * COLUMNS + LINE / 4)

ONCE void PAIRS(pack_b)(PAIR *restrict to, VIEW b, int64_t depth, int64_t columns) {
  int64_t steps = parts(depth, 2 * STEP), full = b.across == 1 ? columns / COLUMNS : 0;
  int64_t there = full ? depth / 2 : 0;
  for (int64_t p = 0; p < there; p++)
    for (int64_t t = 0; t < full; t++) {
      const T *from = b.at + 2 * p * b.deep + t * COLUMNS;
      WORDS *put = (WORDS *)(to + t * PANEL(steps) + p * COLUMNS);
      put[0] = PAIRS(beside)(from, b.deep), put[1] = PAIRS(beside)(from + VL, b.deep);
    }
  for (int64_t t = 0; t < full; t++)
    for (int64_t p = there; p < steps * STEP; p++)
      for (int64_t j = 0; j < COLUMNS; j++)
        to[t * PANEL(steps) + p * COLUMNS + j] =
            2 * p < depth ? (uint16_t)(int16_t)b.at[2 * p * b.deep + t * COLUMNS + j] : 0;
  for (int64_t j = full * COLUMNS; j < whole(columns, COLUMNS); j += STEP)
    for (int64_t s = 0; s < steps; s++) {
      PAIR *put = to + j / COLUMNS * PANEL(steps) + s * STEP * COLUMNS + j % COLUMNS;
      FOUR x[STEP];
      VIEW v = {b.at + s * 2 * STEP * b.deep + j * b.across, b.deep, b.across};
      PAIRS(block)(x, v, depth - s * 2 * STEP, columns - j);
      SUM(turn)((QUAD *)x);
      for (int p = 0; p < STEP; p++) *(FOUR *)(put + p * COLUMNS) = x[p];
    }
}

#define OF(x) PAIRS(x)
#define ELEMENT PAIR
#define VECTOR WORDS
#include "gemm_panels.inc.h"

/* c (batch, m, n) = a b, cell by cell as in gemm.inc.h. */
void IN(calque_pairs)(const T *a_base, int64_t a_at, const T *b_base, int64_t b_at, R *c_base,
                      int64_t c_at, PAIR *work_base, int64_t work_at, int64_t batch, int64_t m,
                      int64_t n, int64_t k, int64_t a_batch, int64_t a_row, int64_t a_column,
                      int64_t b_batch, int64_t b_row, int64_t b_column, int64_t tall, int64_t broad,
                      int64_t room, int64_t group, int64_t groups) {
  int64_t down = parts(m, tall), along = parts(n, broad), cells = batch * down * along;
  int64_t blocks = parts(k, 2 * DEPTH), widest = parts(parts(k, blocks), 2 * STEP);
  for (int64_t at = cells * group / groups; at < cells * (group + 1) / groups; at++) {
    int64_t which = at / (down * along), i = at / along % down * tall, j = at % along * broad;
    int64_t rows = smaller(m - i, tall), columns = smaller(n - j, broad);
    int64_t strips = parts(rows, TALL);
    PAIR *packed_a = work_base + work_at + group * room;
    PAIR *packed_b = packed_a + widest * STEP * parts(rows, strips);
    const T *a = a_base + a_at + which * a_batch + i * a_row;
    const T *b = b_base + b_at + which * b_batch + j * b_column;
    R *c = c_base + c_at + (which * m + i) * n + j;
    for (int64_t block = 0; block < blocks; block++) {
      int64_t p = start_of(k, blocks, block), depth = start_of(k, blocks, block + 1) - p;
      int64_t steps = parts(depth, 2 * STEP);
      PAIRS(pack_b)(packed_b, (VIEW){b + p * b_row, b_row, b_column}, depth, columns);
      for (int64_t r = 0; r < strips; r++) {
        int64_t from = start_of(rows, strips, r), high = start_of(rows, strips, r + 1) - from;
        int64_t panels = parts(high, TILE_ROWS);
        PAIRS(pack_a)(packed_a, (VIEW){a + p * a_column + from * a_row, a_column, a_row}, depth,
                      high);
        for (int64_t t = 0; t < panels; t++) {
          int64_t first = start_of(high, panels, t), height = start_of(high, panels, t + 1) - first;
          for (int64_t q = 0; q < columns; q += COLUMNS)
            PAIRS(tiles)(height, steps, packed_a + first * steps * STEP,
                         packed_b + q / COLUMNS * PANEL(steps), c + (from + first) * n + q, n,
                         smaller(columns - q, COLUMNS), block);
        }
      }
    }
  }
}

#undef PAIRS
#undef VIEW
#undef PAIR
#undef WORDS
#undef FOUR
#undef PANEL
#undef T
#undef SUFFIX
