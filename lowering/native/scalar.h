/* Arithmetic of one element type (a template, see each.h): parts, quotients, magnitudes, vectors.
 *
 * Complex products are the plain ones of four (-fcx-limited-range): callers scale what could
 * overflow in them.  Quotients are Smith's ("Algorithm 116", CACM 1962).
 */
#define VL ((int64_t)(VECTOR_BYTES / sizeof(R)))
#define PARTS (COMPLEX + 1)
#define V NAME(vec)
#define RE(x) (__real__(x))
#define IM(x) (__imag__(x))

typedef R V __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(R)), may_alias));

#if COMPLEX
INLINE UNUSED T NAME(make)(R re, R im) {
  T x;
  __real__ x = re;
  __imag__ x = im;
  return x;
}
INLINE UNUSED T NAME(conjugate)(T x) { return NAME(make)(RE(x), -IM(x)); }
INLINE UNUSED T NAME(scale)(T x, R by) { return NAME(make)(RE(x) * by, IM(x) * by); }
#else
INLINE UNUSED R NAME(magnitude)(R x) { return x < 0 ? -x : x + 0; }
INLINE UNUSED R NAME(root)(R x) {
  return sizeof(R) == 4 ? (R)__builtin_sqrtf((float)x) : (R)__builtin_sqrt((double)x);
}
INLINE UNUSED R NAME(make)(R re, R im) { return (void)im, re; }
INLINE UNUSED R NAME(conjugate)(R x) { return x; }
INLINE UNUSED R NAME(scale)(R x, R by) { return x * by; }
INLINE UNUSED R NAME(nan)(void) { return (R)__builtin_nan(""); }
#endif

/* |re| + |im|, by which LAPACK picks pivots. */
INLINE UNUSED R NAME(size)(T x) {
  R size = RNAME(magnitude)(RE(x));
  return COMPLEX ? size + RNAME(magnitude)(IM(x)) : size;
}

INLINE UNUSED T NAME(divide)(T x, T y) {
#if COMPLEX
  if (RNAME(magnitude)(RE(y)) >= RNAME(magnitude)(IM(y))) {
    R ratio = IM(y) / RE(y), below = RE(y) + IM(y) * ratio;
    return NAME(make)((RE(x) + IM(x) * ratio) / below, (IM(x) - RE(x) * ratio) / below);
  }
  R ratio = RE(y) / IM(y), below = RE(y) * ratio + IM(y);
  return NAME(make)((RE(x) * ratio + IM(x)) / below, (IM(x) * ratio - RE(x)) / below);
#else
  return x / y;
#endif
}

/* Whether 1 / x may stand for division by x: neither overflows nor loses digits. */
INLINE UNUSED bool NAME(has_inverse)(T x) {
  R size = NAME(size)(x);
  return size > 4 * R_MIN && size < R_MAX / 16;
}

INLINE UNUSED void NAME(fill)(T *to, int64_t count, T value) {
  for (int64_t i = 0; i < count; i++) to[i] = value;
}

INLINE UNUSED void NAME(copy)(T *restrict to, const T *restrict from, int64_t count) {
  for (int64_t i = 0; i < count; i++) to[i] = from[i];
}
