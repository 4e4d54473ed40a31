/* Sequences of plane rotations on the rows of a real matrix (a template, see each.h).
 *
 * A sweep walks through neighbouring rows: the row that it carries stays in registers, so each
 * rotation reads and writes one row.  Sweeps are collected and applied to a strip of columns at a
 * time, which stays in the cache.
 */
#ifndef SWEEPS
#define SWEEPS 32 /* collected before they are applied */
typedef struct {
  int64_t first, step, count; /* the carried row, +1 or -1, rotations */
} sweep;
#endif

#if !COMPLEX
typedef struct {
  R *rows;           /* the matrix, or none: then sweeps are dropped */
  int64_t ld, width; /* width: a multiple of VL */
  R *pairs;          /* (c, s) of every rotation: room for 2 * capacity */
  int64_t capacity, used;
  int64_t sweeps;
  sweep list[SWEEPS];
} NAME(rotations);

/* One sweep on `vectors` vectors of columns: out = s x + c carried, carried = c x - s carried. */
INLINE void NAME(rotate_strip)(const int vectors, R *rows, int64_t ld, sweep by, const R *pairs) {
  R *at = rows + by.first * ld;
  int64_t step = by.step * ld;
  V carried[4];
  UNROLL for (int k = 0; k < vectors; k++) carried[k] = ((V *)at)[k];
  for (int64_t i = 0; i < by.count; i++) {
    R c = pairs[2 * i], s = pairs[2 * i + 1];
    const V *next = (const V *)(at + step);
    UNROLL for (int k = 0; k < vectors; k++) {
      V x = next[k];
      ((V *)at)[k] = s * x + c * carried[k];
      carried[k] = c * x - s * carried[k];
    }
    at += step;
  }
  UNROLL for (int k = 0; k < vectors; k++)((V *)at)[k] = carried[k];
}

/* The same for two sweeps from one row, the second not longer and two rows behind: every row is
 * read and written once for both. */
INLINE void NAME(rotate_twice)(const int vectors, R *rows, int64_t ld, sweep by, int64_t count,
                               const R *pairs) {
  R *at = rows + by.first * ld;
  int64_t step = by.step * ld;
  const R *behind = pairs + 2 * by.count;
  V first[4], second[4]; /* what each sweep carries */
  R c = pairs[0], s = pairs[1];
  UNROLL for (int k = 0; k < vectors; k++) {
    V carried = ((const V *)at)[k], x = ((const V *)(at + step))[k];
    second[k] = s * x + c * carried;
    first[k] = c * x - s * carried;
  }
  int64_t both = smaller(count, by.count - 1), i = 1;
  for (; i <= both; i++, at += step) {
    c = pairs[2 * i], s = pairs[2 * i + 1];
    R c2 = behind[2 * i - 2], s2 = behind[2 * i - 1];
    UNROLL for (int k = 0; k < vectors; k++) {
      V x = ((const V *)(at + 2 * step))[k], y = s * x + c * first[k];
      first[k] = c * x - s * first[k];
      ((V *)at)[k] = s2 * y + c2 * second[k];
      second[k] = c2 * y - s2 * second[k];
    }
  }
  if (count == by.count) { /* the second sweep ends with the first */
    c = behind[2 * i - 2], s = behind[2 * i - 1];
    UNROLL for (int k = 0; k < vectors; k++) {
      ((V *)at)[k] = s * first[k] + c * second[k];
      ((V *)(at + step))[k] = c * first[k] - s * second[k];
    }
    return;
  }
  UNROLL for (int k = 0; k < vectors; k++)((V *)at)[k] = second[k];
  at += step;
  for (; i < by.count; i++, at += step) {
    c = pairs[2 * i], s = pairs[2 * i + 1];
    UNROLL for (int k = 0; k < vectors; k++) {
      V x = ((const V *)(at + step))[k];
      ((V *)at)[k] = s * x + c * first[k];
      first[k] = c * x - s * first[k];
    }
  }
  UNROLL for (int k = 0; k < vectors; k++)((V *)at)[k] = first[k];
}

ONCE void NAME(rotate_all)(NAME(rotations) *work) {
  for (int64_t j = 0; j < work->width;) {
    int64_t left = (work->width - j) / VL, vectors = left >= 4 ? 4 : 1;
    const R *pairs = work->pairs;
    for (int64_t k = 0; k < work->sweeps; k++) {
      sweep by = work->list[k], next = k + 1 < work->sweeps ? work->list[k + 1] : by;
      R *rows = work->rows + j;
      if (k + 1 < work->sweeps && next.first == by.first && next.step == by.step &&
          next.count <= by.count) {
        if (vectors == 4)
          NAME(rotate_twice)(4, rows, work->ld, by, next.count, pairs);
        else
          NAME(rotate_twice)(1, rows, work->ld, by, next.count, pairs);
        pairs += 2 * next.count, k++;
      } else if (vectors == 4) {
        NAME(rotate_strip)(4, rows, work->ld, by, pairs);
      } else {
        NAME(rotate_strip)(1, rows, work->ld, by, pairs);
      }
      pairs += 2 * by.count;
    }
    j += vectors * VL;
  }
  work->used = work->sweeps = 0;
}

/* Room for the (c, s) of one more sweep. */
INLINE UNUSED R *NAME(next_sweep)(NAME(rotations) *work, int64_t first, int64_t step,
                                  int64_t count) {
  if (work->sweeps == SWEEPS || work->used + count > work->capacity) NAME(rotate_all)(work);
  R *pairs = work->pairs + 2 * work->used;
  work->list[work->sweeps++] = (sweep){first, step, count};
  work->used += count;
  return pairs;
}

/* c and s with c f + s g = r and c g - s f = 0.  f and g are below the root of R_MAX. */
INLINE UNUSED void NAME(rotation)(R f, R g, R *c, R *s, R *r) {
  const R small = R_MIN / (R_EPSILON * R_EPSILON), up = 1 / small;
  R squares = f * f + g * g;
  if (squares < small) { /* their digits are lost, or all of them */
    R up_f = f * up, up_g = g * up;
    squares = up_f * up_f + up_g * up_g;
    if (squares < small) {
      *c = 1, *s = 0, *r = f;
      return;
    }
    R length = NAME(root)(squares);
    *c = up_f / length, *s = up_g / length, *r = length * small;
    return;
  }
  R length = NAME(root)(squares), inverse = 1 / length;
  *c = f * inverse, *s = g * inverse, *r = length;
}
#endif
