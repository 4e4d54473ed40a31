/* Passes over the rows of a matrix that the reductions make (a template, see each.h): an update of
 * rank two, and the products of what comes out with a vector on either side.
 */
/* `rows` rows of c: c -= u z + x conj(v), then w += conj(next) c.  z, cv (conj(v)) and w are rows
 * of `count` vectors, `room` elements before i times the same (of w: sums to be multiplied by i).
 */
INLINE void NAME(update_rows)(const int rows, T *c, int64_t ld, int64_t count, int64_t room,
                              const T *u, const T *x, const T *z, const T *cv, const T *next,
                              T *w) {
  const V *zs = (const V *)z, *vs = (const V *)cv;
  V *to[4], *ws = (V *)w;
  R ur[4][PARTS], xr[4][PARTS], nr[4][PARTS];
  UNROLL for (int k = 0; k < rows; k++) {
    to[k] = (V *)(c + k * ld);
    ur[k][0] = RE(u[k]), xr[k][0] = RE(x[k]), nr[k][0] = RE(next[k]);
#if COMPLEX
    ur[k][1] = IM(u[k]), xr[k][1] = IM(x[k]), nr[k][1] = -IM(next[k]);
#endif
  }
#if COMPLEX
  const V *iz = (const V *)(z + room), *iv = (const V *)(cv + room);
  V *iw = (V *)(w + room);
#endif
  (void)room;
  for (int64_t s = 0; s < count; s++) {
    V zx = zs[s], vx = vs[s], sum = ws[s];
#if COMPLEX
    V izx = iz[s], ivx = iv[s], isum = iw[s];
#endif
    UNROLL for (int k = 0; k < rows; k++) {
      V value = to[k][s] - (ur[k][0] * zx + xr[k][0] * vx);
#if COMPLEX
      value -= ur[k][1] * izx + xr[k][1] * ivx;
      isum += nr[k][1] * value;
#endif
      to[k][s] = value;
      sum += nr[k][0] * value;
    }
    ws[s] = sum;
#if COMPLEX
    iw[s] = isum;
#endif
  }
}

/* x[k] = sum of row k of c times v, given conj(v) and i conj(v). */
INLINE void NAME(weigh_columns)(const int rows, const T *c, int64_t ld, int64_t count, int64_t room,
                                const T *cv, T *x) {
  const V *vs = (const V *)cv, *iv = (const V *)(cv + room);
  V sums[4][PARTS];
  (void)iv;
  for (int k = 0; k < rows; k++)
    for (int p = 0; p < PARTS; p++) sums[k][p] = (V){0};
  for (int64_t s = 0; s < count; s++) {
    UNROLL for (int k = 0; k < rows; k++) {
      V value = ((const V *)(c + k * ld))[s];
      sums[k][0] += value * vs[s];
#if COMPLEX
      sums[k][1] += value * iv[s];
#endif
    }
  }
  UNROLL for (int k = 0; k < rows; k++) {
    R real = 0, imaginary = 0;
    for (int64_t lane = 0; lane < VL; lane++) {
      real += sums[k][0][lane];
      if (COMPLEX) imaginary += sums[k][PARTS - 1][lane];
    }
    x[k] = NAME(make)(real, imaginary);
  }
}

static UNUSED void NAME(turn)(T *x, int64_t first, int64_t n, int64_t room) {
#if COMPLEX
  for (int64_t i = first; i < n; i++) x[room + i] = NAME(make)(-IM(x[i]), RE(x[i]));
#else
  (void)x, (void)first, (void)n, (void)room;
#endif
}
