/* Attention of a few queries to the first keys of a cache: what lies behind is not read.
 *
 * A block of keys at a time: its scores, their exponentials less the largest yet (Milakov and Gimelshein,
 * "Online normalizer calculation for softmax", 2018), and the sum of values so weighted, which is scaled
 * where a larger score is found.  Queries that share keys are taken together.  Conventions: README.md.
 */
#ifdef __SSE4_1__
#include <immintrin.h>
#endif
#include <stdint.h>

#include "macros.h"

enum {
  VL = VECTOR_BYTES / 4,
  BLOCK = 64,                /* keys */
  QUERIES = 4,               /* that are taken together */
  DEEPEST = 256,             /* numbers of a query, and of a value */
  LANES = 16,                /* maxima and sums that do not wait for one another */
  PARTS = VL > 8 ? 4 : 2     /* vectors of a value that are summed at once */
};

typedef float V __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));

SUM_OF_LANES(total, V, VL)

/* e^x of what is 0 or less, or NaN; of less than -87 that of -87 (1.6e-38).  Relative error 2e-7. */
INLINE float exponential(float x) {
  union {
    float value;
    int32_t bits;
  } shifted, power;
  x = x < -87 ? -87 : x;
  shifted.value = x * 0x1.715476p0f + 0x1.8p23f; /* the integer nearest to x / log 2, in the last bits */
  float n = shifted.value - 0x1.8p23f;
  float r = x - n * 0x1.62e4p-1f - n * 0x1.7f7d1cp-20f;
  float p = 1 + r * (1 + r * (0.5f + r * (0x1.55554ep-3f + r * (0x1.555736p-5f + r * (0x1.12042p-7f +
            r * 0x1.6850e4p-10f)))));
  power.bits = (int32_t)((uint32_t)shifted.bits << 23) + 0x3f800000;
  return p * power.value;
}

/* Scores of `count` keys for `some` queries, `apart` numbers from one another. */
INLINE void scores(const int some, float (*to)[BLOCK], const float *restrict q, int64_t apart,
                   const float *restrict k, int64_t row, int64_t count, int64_t depth) {
  for (int64_t j = 0; j < count; j++) {
    V sum[QUERIES] = {{0}};
    for (int64_t p = 0; p < depth; p += VL) {
      V key = *(const V *)(k + j * row + p);
      for (int i = 0; i < some; i++) sum[i] += key * *(const V *)(q + i * apart + p);
    }
    for (int i = 0; i < some; i++) to[i][j] = total(sum[i]);
  }
}

/* sums += weights times values. */
INLINE void add_values(const int some, float (*sums)[DEEPEST], const float (*weights)[BLOCK],
                       const float *restrict v, int64_t row, int64_t count, int64_t width) {
  int64_t p = 0;
  for (; p + PARTS * VL <= width; p += PARTS * VL) {
    V sum[QUERIES][PARTS];
    for (int i = 0; i < some; i++)
      for (int c = 0; c < PARTS; c++) sum[i][c] = *(V *)(sums[i] + p + c * VL);
    for (int64_t j = 0; j < count; j++)
      for (int c = 0; c < PARTS; c++) {
        V value = *(const V *)(v + j * row + p + c * VL);
        for (int i = 0; i < some; i++) sum[i][c] += weights[i][j] * value;
      }
    for (int i = 0; i < some; i++)
      for (int c = 0; c < PARTS; c++) *(V *)(sums[i] + p + c * VL) = sum[i][c];
  }
  for (; p < width; p += VL)
    for (int i = 0; i < some; i++) {
      V sum = *(V *)(sums[i] + p);
      for (int64_t j = 0; j < count; j++) sum += weights[i][j] * *(const V *)(v + j * row + p);
      *(V *)(sums[i] + p) = sum;
    }
}

typedef struct {
  const float *k, *v;
  int64_t k_row, v_row, depth, width;
  float scale;
} Keys;

/* `some` queries, each of which sees its own count of keys; scores are 0 where `blank`. */
INLINE void attend(const int some, float *restrict out, const float *restrict q, const Keys *keys,
                   const int64_t *counts, const int *blank) {
  float sums[QUERIES][DEEPEST] = {{0}}, weights[QUERIES][BLOCK], most[QUERIES], norm[QUERIES] = {0};
  int64_t last = 0;
  for (int i = 0; i < some; i++) {
    most[i] = -__builtin_inff();
    last = last > counts[i] ? last : counts[i];
  }
  for (int64_t first = 0; first < last; first += BLOCK) {
    int64_t count = smaller(BLOCK, last - first);
    scores(some, weights, q, keys->depth, keys->k + first * keys->k_row, keys->k_row, count,
           keys->depth);
    for (int i = 0; i < some; i++) {
      int64_t seen = counts[i] - first < 0 ? 0 : smaller(count, counts[i] - first);
      float *weight = weights[i], now = most[i], sum = 0, lanes[LANES];
      for (int64_t j = 0; j < seen; j++) weight[j] = blank[i] ? 0 : weight[j] * keys->scale;
      for (int64_t j = seen; j < BLOCK; j++) weight[j] = -__builtin_inff();
      for (int c = 0; c < LANES; c++) lanes[c] = now;
      for (int j = 0; j < BLOCK; j += LANES)
        for (int c = 0; c < LANES; c++) lanes[c] = weight[j + c] > lanes[c] ? weight[j + c] : lanes[c];
      for (int c = 0; c < LANES; c++) now = lanes[c] > now ? lanes[c] : now;
      float from = now == -__builtin_inff() ? 0 : now;
      for (int j = 0; j < BLOCK; j++) weight[j] = exponential(weight[j] - from);
      for (int64_t j = seen; j < BLOCK; j++) weight[j] = 0;
      for (int c = 0; c < LANES; c++) lanes[c] = 0;
      for (int j = 0; j < BLOCK; j += LANES)
        for (int c = 0; c < LANES; c++) lanes[c] += weight[j + c];
      for (int c = 0; c < LANES; c++) sum += lanes[c];
      if (now != most[i]) { /* (-inf before the first: what there is is 0) */
        float by = exponential(most[i] - from);
        norm[i] *= by;
        for (int64_t p = 0; p < keys->width; p++) sums[i][p] *= by;
        most[i] = now;
      }
      norm[i] += sum;
    }
    add_values(some, sums, (const float(*)[BLOCK])weights, keys->v + first * keys->v_row, keys->v_row,
               count, keys->width);
  }
  for (int i = 0; i < some; i++) {
    float by = most[i] == -__builtin_inff() ? __builtin_nanf("") : 1 / norm[i];
    for (int64_t p = 0; p < keys->width; p++) out[i * keys->width + p] = sums[i][p] * by;
  }
}

/* out (batch, heads, queries, width) of q (batch, heads, queries, depth), and of k and v, whose batches,
 * heads and rows lie so far apart; `shared` heads see the same keys; query t of a batch sees the first
 * counts (batch, queries) of the `room` keys; one that sees none gets the mean of all values.  Depth and width are whole vectors, DEEPEST
 * at most; `scale` is a float's bits. */
void calque_prefix_attention(const float *q_base, int64_t q_at, const float *k_base, int64_t k_at,
                             const float *v_base, int64_t v_at, const int32_t *counts_base,
                             int64_t counts_at, float *out_base, int64_t out_at, int64_t batch,
                             int64_t heads, int64_t shared, int64_t queries, int64_t room,
                             int64_t depth, int64_t width, int64_t k_batch, int64_t k_head,
                             int64_t k_row, int64_t v_batch, int64_t v_head, int64_t v_row,
                             int64_t scale, int64_t group, int64_t groups) {
  int64_t every = batch * (heads / shared), rows = shared * queries;
  union {
    int32_t bits;
    float value;
  } by = {(int32_t)scale};
  for (int64_t i = every * group / groups; i < every * (group + 1) / groups; i++) {
    int64_t b = i / (heads / shared), h = i % (heads / shared);
    const int32_t *counts = counts_base + counts_at + b * queries;
    Keys keys = {k_base + k_at + b * k_batch + h * k_head, v_base + v_at + b * v_batch + h * v_head,
                 k_row, v_row, depth, width, by.value};
    int64_t some, seen[QUERIES];
    int blank[QUERIES];
    for (int64_t r = 0; r < rows; r += some) {
      some = smaller(QUERIES, rows - r);
      some = some == 3 ? 2 : some;
      for (int64_t t = 0; t < some; t++) {
        int64_t count = counts[(r + t) % queries];
        blank[t] = count < 1;
        seen[t] = count < 1 ? room : smaller(count, room);
      }
      const float *q = q_base + q_at + (i * rows + r) * depth;
      float *out = out_base + out_at + (i * rows + r) * width;
      if (some == QUERIES)
        attend(QUERIES, out, q, &keys, seen, blank);
      else if (some == 2)
        attend(2, out, q, &keys, seen, blank);
      else
        attend(1, out, q, &keys, seen, blank);
    }
  }
}
