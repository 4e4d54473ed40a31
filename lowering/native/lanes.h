/* PANEL elements of a row as one vector, whatever the machine's width (a template, see each.h).
 * Parts of complex numbers lie side by side as in memory.
 */
#ifndef PANEL
#define PANEL 8 /* columns that are eliminated one by one */
#endif
#define LANES (PANEL * PARTS)
#define ROW NAME(lanes)
#define MASK NAME(mask)
typedef R ROW __attribute__((vector_size(LANES * sizeof(R)), aligned(sizeof(R)), may_alias));
typedef RINT MASK __attribute__((vector_size(LANES * sizeof(R))));

/* All bits of the columns from `first` up to before `end`. */
INLINE UNUSED MASK NAME(columns)(int64_t first, int64_t end) {
  MASK mask;
  for (int64_t lane = 0; lane < LANES; lane++)
    mask[lane] = lane / PARTS >= first && lane / PARTS < end ? -1 : 0;
  return mask;
}

INLINE UNUSED ROW NAME(only)(ROW x, MASK mask) { return (ROW)((MASK)x & mask); }

INLINE UNUSED ROW NAME(either)(MASK mask, ROW yes, ROW no) {
  return (ROW)(((MASK)yes & mask) | ((MASK)no & ~mask));
}

/* i x: (re, im) becomes (-im, re). */
INLINE UNUSED ROW NAME(turned)(ROW x) {
  ROW y = x;
#if COMPLEX
  for (int64_t lane = 0; lane < LANES; lane += 2) y[lane] = -x[lane + 1], y[lane + 1] = x[lane];
#endif
  return y;
}

/* factor x, with x turned given. */
INLINE UNUSED ROW NAME(times)(T factor, ROW x, ROW x_turned) {
  ROW product = RE(factor) * x;
#if COMPLEX
  product += IM(factor) * x_turned;
#else
  (void)x_turned;
#endif
  return product;
}

/* value in every column. */
INLINE UNUSED ROW NAME(everywhere)(T value) {
  ROW x = RE(value) + (ROW){0};
#if COMPLEX
  for (int64_t lane = 1; lane < LANES; lane += 2) x[lane] = IM(value);
#endif
  return x;
}
