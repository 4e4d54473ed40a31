/* The transforms of one real type R (a template of fft.c, which see). */
#define VL ((int64_t)(VECTOR_BYTES / sizeof(R)))
#define V NAME(vec)
#define C NAME(pair)

typedef R V __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(R)), may_alias));
typedef RINT NAME(order) __attribute__((vector_size(VECTOR_BYTES)));
typedef struct {
  V re, im;
} C;

INLINE C NAME(add)(C a, C b) { return (C){a.re + b.re, a.im + b.im}; }
INLINE C NAME(sub)(C a, C b) { return (C){a.re - b.re, a.im - b.im}; }
/* -i a: a quarter turn in the transform's direction */
INLINE C NAME(quarter)(C a) { return (C){a.im, -a.re}; }
/* a exp(-i pi / 4) */
INLINE C NAME(eighth)(C a) {
  return (C){(a.re + a.im) * ROOT_HALF, (a.im - a.re) * ROOT_HALF};
}
INLINE C NAME(times)(C a, R re, R im) {
  return (C){a.re * re - a.im * im, a.re * im + a.im * re};
}
INLINE C NAME(get)(const V *at) { return (C){at[0], at[1]}; }

/* Element k of a butterfly, turned by its twiddle factor w[k - 1] where there are any. */
INLINE void NAME(put)(V *to, int64_t step, int64_t k, C a, const R *w) {
  if (w && k) a = NAME(times)(a, w[2 * k - 2], w[2 * k - 1]);
  to[k * step] = a.re;
  to[k * step + 1] = a.im;
}

INLINE void NAME(four)(C *a) {
  C s = NAME(add)(a[0], a[2]), d = NAME(sub)(a[0], a[2]);
  C t = NAME(add)(a[1], a[3]), u = NAME(quarter)(NAME(sub)(a[1], a[3]));
  a[0] = NAME(add)(s, t), a[1] = NAME(add)(d, u);
  a[2] = NAME(sub)(s, t), a[3] = NAME(sub)(d, u);
}

INLINE void NAME(even)(int64_t r, const V *from, int64_t across, V *to, int64_t step, const R *w) {
  if (r == 2) {
    C a = NAME(get)(from), b = NAME(get)(from + across);
    NAME(put)(to, step, 0, NAME(add)(a, b), w);
    NAME(put)(to, step, 1, NAME(sub)(a, b), w);
  } else if (r == 4) {
    C a[4];
    for (int64_t j = 0; j < 4; j++) a[j] = NAME(get)(from + j * across);
    NAME(four)(a);
    for (int64_t k = 0; k < 4; k++) NAME(put)(to, step, k, a[k], w);
  } else { /* 8: halves by fours, the odd ones turned by eighths */
    C a[4], b[4];
    for (int64_t j = 0; j < 4; j++) {
      C x = NAME(get)(from + j * across), y = NAME(get)(from + (j + 4) * across);
      a[j] = NAME(add)(x, y), b[j] = NAME(sub)(x, y);
    }
    b[1] = NAME(eighth)(b[1]);
    b[2] = NAME(quarter)(b[2]);
    b[3] = NAME(quarter)(NAME(eighth)(b[3]));
    NAME(four)(a);
    NAME(four)(b);
    for (int64_t k = 0; k < 4; k++) {
      NAME(put)(to, step, 2 * k, a[k], w);
      NAME(put)(to, step, 2 * k + 1, b[k], w);
    }
  }
}

/* An odd radix r: elements j and r - j are paired, so that roots (cosines, negative sines) are
 * real factors. */
INLINE void NAME(odd)(int64_t r, const V *from, int64_t across, V *to, int64_t step, const R *roots,
                      const R *w) {
  C sum[31], difference[31], first = NAME(get)(from), all = first;
  int64_t half = r / 2;
  for (int64_t j = 1; j <= half; j++) {
    C a = NAME(get)(from + j * across), b = NAME(get)(from + (r - j) * across);
    sum[j - 1] = NAME(add)(a, b), difference[j - 1] = NAME(sub)(a, b);
    all = NAME(add)(all, sum[j - 1]);
  }
  NAME(put)(to, step, 0, all, w);
  for (int64_t k = 1; k <= half; k++) {
    C c = first, s = {{0}, {0}};
    for (int64_t j = 1, at = k; j <= half; j++, at = at + k < r ? at + k : at + k - r) {
      R re = roots[2 * at], im = roots[2 * at + 1];
      c.re += sum[j - 1].re * re, c.im += sum[j - 1].im * re;
      s.re += difference[j - 1].re * im, s.im += difference[j - 1].im * im;
    }
    NAME(put)(to, step, k, (C){c.re - s.im, c.im + s.re}, w);
    NAME(put)(to, step, r - k, (C){c.re + s.im, c.im - s.re}, w);
  }
}

/* One of Stockham's passes: m groups of s rows each, r apart. */
INLINE void NAME(pass)(int64_t r, int64_t m, int64_t s, const R *roots, const R *w,
                       const V *restrict in, V *restrict out) {
  for (int64_t p = 0; p < m; p++)
    for (int64_t q = 0; q < s; q++) {
      const V *from = in + 2 * (q + s * p);
      V *to = out + 2 * (q + s * r * p);
      const R *turn = w ? w + 2 * (r - 1) * p : 0;
      if (r % 2)
        NAME(odd)(r, from, 2 * s * m, to, 2 * s, roots, turn);
      else
        NAME(even)(r, from, 2 * s * m, to, 2 * s, turn);
    }
}

#define PASS(radix)                                        \
  case radix:                                              \
    if (m > 1)                                             \
      NAME(pass)(radix, m, s, t, w, in, out);              \
    else                                                   \
      NAME(pass)(radix, 1, s, t, (const R *)0, in, out);   \
    break;

static __attribute__((noinline)) void NAME(one_pass)(int64_t r, int64_t m, int64_t s, const R *t,
                                                     const R *w, const V *in, V *out) {
  switch (r) {
    PASS(2)
    PASS(3)
    PASS(4)
    PASS(5)
    PASS(7)
    PASS(8)
    default:
      NAME(pass)(r, m, s, t, m > 1 ? w : (const R *)0, in, out);
  }
}

/* As many vectors as they have lanes, transposed: halves are interleaved again and again. */
INLINE void NAME(across)(V *a) {
  V b[VL];
  UNROLL for (int64_t done = 1; done < VL; done *= 2) {
    UNROLL for (int64_t i = 0; i < VL / 2; i++) {
      b[2 * i] = MIX(a[i], a[i + VL / 2], L(LOW));
      b[2 * i + 1] = MIX(a[i], a[i + VL / 2], L(HIGH));
    }
    UNROLL for (int64_t i = 0; i < VL; i++) a[i] = b[i];
  }
}

/* Where blocks of VL / 2 elements of a line begin: the last one where a whole one ends with it. */
#define BLOCK (VL / 2)
INLINE int64_t NAME(next)(int64_t first, int64_t n) {
  return first + BLOCK < n && first + 2 * BLOCK > n ? n - BLOCK : first + BLOCK;
}

/* Rows of lanes from lines that lie `lane` apart, their elements `step` apart. */
INLINE void NAME(bring)(const R *x, int64_t n, int64_t step, int64_t lane, int64_t count,
                        int64_t swap, V *to) {
  int64_t re = swap ? 1 : 0, im = 1 - re;
  if (lane == 1 && count == VL) {
    for (int64_t j = 0; j < n; j++) {
      const V *from = (const V *)(x + 2 * j * step);
      V a = from[0], b = from[1];
      to[2 * j + re] = MIX(a, b, L(EVEN));
      to[2 * j + im] = MIX(a, b, L(ODD));
    }
    return;
  }
  if (step == 1 && n >= BLOCK) {
    for (int64_t first = 0; first < n; first = NAME(next)(first, n)) {
      V a[VL];
      UNROLL for (int64_t l = 0; l < VL; l++) /* the last line again where there are fewer */
        a[l] = *(const V *)(x + 2 * ((l < count ? l : count - 1) * lane + first));
      NAME(across)(a);
      UNROLL for (int64_t j = 0; j < BLOCK; j++) {
        to[2 * (first + j) + re] = a[2 * j];
        to[2 * (first + j) + im] = a[2 * j + 1];
      }
    }
    return;
  }
  R *rows = (R *)to;
  if (count < VL)
    for (int64_t i = 0; i < 2 * n; i++) to[i] = (V){0};
  for (int64_t first = 0; first < n; first += CHUNK) {
    int64_t end = first + CHUNK < n ? first + CHUNK : n;
    for (int64_t l = 0; l < count; l++) {
      const R *from = x + 2 * l * lane;
      for (int64_t j = first; j < end; j++) {
        rows[(2 * j + re) * VL + l] = from[2 * j * step];
        rows[(2 * j + im) * VL + l] = from[2 * j * step + 1];
      }
    }
  }
}

/* The way back. */
INLINE void NAME(send)(const V *from, int64_t n, int64_t step, int64_t lane, int64_t count,
                       int64_t swap, R *y) {
  int64_t re = swap ? 1 : 0, im = 1 - re;
  if (lane == 1 && count == VL) {
    for (int64_t k = 0; k < n; k++) {
      V *to = (V *)(y + 2 * k * step);
      V a = from[2 * k + re], b = from[2 * k + im];
      to[0] = MIX(a, b, L(LOW));
      to[1] = MIX(a, b, L(HIGH));
    }
    return;
  }
  if (step == 1 && n >= BLOCK) {
    for (int64_t first = 0; first < n; first = NAME(next)(first, n)) {
      V a[VL];
      UNROLL for (int64_t j = 0; j < BLOCK; j++) {
        a[2 * j] = from[2 * (first + j) + re];
        a[2 * j + 1] = from[2 * (first + j) + im];
      }
      NAME(across)(a);
      for (int64_t l = 0; l < count; l++) *(V *)(y + 2 * (l * lane + first)) = a[l];
    }
    return;
  }
  const R *rows = (const R *)from;
  for (int64_t first = 0; first < n; first += CHUNK) {
    int64_t end = first + CHUNK < n ? first + CHUNK : n;
    for (int64_t l = 0; l < count; l++) {
      R *to = y + 2 * l * lane;
      for (int64_t k = first; k < end; k++) {
        to[2 * k * step] = rows[(2 * k + re) * VL + l];
        to[2 * k * step + 1] = rows[(2 * k + im) * VL + l];
      }
    }
  }
}

/* Each row k of a block times exp(-2 pi i k column / N), by a table for the first columns and one
 * for the number of the block. */
INLINE void NAME(turn)(V *rows, int64_t n, int64_t column, const R *t) {
  const R *lanes = t + column % TURNED_LANES;
  const R *block = t + 2 * TURNED_LANES * n + column / TURNED_LANES * 2 * n;
  for (int64_t k = 0; k < n; k++) {
    V re = *(const V *)(lanes + 2 * TURNED_LANES * k);
    V im = *(const V *)(lanes + 2 * TURNED_LANES * k + TURNED_LANES);
    C w = NAME(times)((C){re, im}, block[2 * k], block[2 * k + 1]);
    C a = NAME(get)(rows + 2 * k);
    rows[2 * k] = a.re * w.re - a.im * w.im;
    rows[2 * k + 1] = a.re * w.im + a.im * w.re;
  }
}

/* Lines (o, l), o < outer, l < lanes: element j of x at o xo + l xl + j xn, of y likewise; strides
 * are complex elements.  x_parts, y_parts: 1 where the memory is of real numbers (two in turn are
 * taken as one), else 2.
 *
 * `radices`: factors of n from the first one on, six bits each.  The table: the scale and a 0; for
 * each factor r its r roots if it is odd, and r - 1 twiddle factors for each of the m elements that
 * are left, if m > 1; if `turned`, for each k the turns of TURNED_LANES columns (real parts, then
 * imaginary ones), then for each block of so many columns those of each k.  `swap` exchanges real
 * and imaginary parts before and after, which makes the inverse.  Workspace: 4 n + 8 vectors of 64
 * bytes for each group. */
void NAME(calque_fft)(
    const R *x, int64_t x_at, const R *table, int64_t t_at, R *y, int64_t y_at, R *work,
    int64_t w_at, int64_t x_parts, int64_t y_parts, int64_t outer, int64_t n, int64_t lanes,
    int64_t xo, int64_t xn, int64_t xl, int64_t yo, int64_t yn, int64_t yl, int64_t radices,
    int64_t turned, int64_t swap, int64_t group, int64_t groups) {
  x += x_at * x_parts, y += y_at * y_parts, table += t_at;
  const int64_t row = 64 / sizeof(R);
  work += w_at + group * (4 * n + 8) * row;
  int64_t each = (lanes + VL - 1) / VL, blocks = outer * each;
  R scale = table[0];
  for (int64_t b = blocks * group / groups; b < blocks * (group + 1) / groups; b++) {
    int64_t o = b / each, column = b % each * VL;
    int64_t count = lanes - column < VL ? lanes - column : VL;
    V *in = (V *)work, *out = (V *)(work + (2 * n + 8) * row);
    NAME(bring)(x + 2 * (o * xo + column * xl), n, xn, xl, count, swap, in);
    const R *t = table + 2;
    int64_t left = n, done = 1;
    for (int64_t code = radices; code; code >>= 6) {
      int64_t r = code & 63, m = left / r;
      const R *w = t + (r % 2 ? 2 * r : 0);
      NAME(one_pass)(r, m, done, t, w, in, out);
      t = w + (m > 1 ? 2 * m * (r - 1) : 0);
      V *other = in;
      in = out, out = other;
      left = m, done *= r;
    }
    if (turned) NAME(turn)(in, n, column, t);
    if (scale != 1)
      for (int64_t i = 0; i < 2 * n; i++) in[i] *= scale;
    NAME(send)(in, n, yn, yl, count, swap, y + 2 * (o * yo + column * yl));
  }
}

/* Rows of y: the first n elements of those of x times a table's, then zeros.  Elements are complex;
 * rows of x have nx of them, of y ny.  `swap` exchanges parts of x and y as above. */
void NAME(calque_fft_times)(
    const R *x, int64_t x_at, const R *table, int64_t t_at, R *y, int64_t y_at, int64_t rows,
    int64_t n, int64_t nx, int64_t ny, int64_t swap, int64_t group, int64_t groups) {
  x += 2 * x_at, y += 2 * y_at, table += t_at;
  const int64_t first = rows * ny * group / groups, last = rows * ny * (group + 1) / groups;
  const int64_t re = swap ? 1 : 0, im = 1 - re;
  for (int64_t at = first; at < last;) {
    int64_t row = at / ny, j = at % ny, end = last - row * ny < ny ? last - row * ny : ny;
    const R *restrict from = x + 2 * row * nx;
    R *restrict to = y + 2 * row * ny;
    int64_t full = end < n ? end : n;
    for (int64_t i = j; i < full; i++) {
      R a = from[2 * i + re], b = from[2 * i + im], c = table[2 * i], s = table[2 * i + 1];
      to[2 * i + re] = a * c - b * s;
      to[2 * i + im] = a * s + b * c;
    }
    for (int64_t i = j > n ? j : n; i < end; i++) to[2 * i] = to[2 * i + 1] = 0;
    at = row * ny + end;
  }
}

/* Elements k and on, and m - k and back, of what calque_fft_real says, BLOCK of each. */
INLINE void NAME(pairs)(const R *from, R *to, const R *table, int64_t k, int64_t m, int64_t back) {
  const R half = 0.5;
  const int64_t other = m - k - BLOCK + 1;
  V conjugate;
  UNROLL for (int64_t i = 0; i < VL; i++) conjugate[i] = i % 2 ? -1 : 1;
  V a = *(const V *)(from + 2 * k), b = *(const V *)(from + 2 * other);
  V w = *(const V *)(table + 2 * k);
  b = MIX(b, b, L(BACK)) * conjugate;
  V even = half * (a + b), odd = half * (a - b), turned = MIX(odd, odd, L(SWAP));
  V c = MIX(w, w, L(REAL)), s = MIX(w, w, L(IMAGINARY)), t;
  if (back) /* i conj(w) odd */
    t = odd * s - turned * c * conjugate;
  else /* w odd / i */
    t = turned * c * conjugate + odd * s;
  V last = (even - t) * conjugate;
  *(V *)(to + 2 * k) = even + t;
  *(V *)(to + 2 * other) = MIX(last, last, L(BACK));
}

/* The transform of 2 m real numbers, rows of m + 1, from that of m complex ones whose parts they
 * are in turn, or (`back`) the latter from the former, of which the first and the last imaginary
 * part are not read.  With x = even + i odd: the even part of element k is (x[k] + conj x[m-k]) / 2,
 * the odd one (x[k] - conj x[m-k]) / 2i, and those of m - k are their conjugates.  The table:
 * exp(-pi i k / m) for k <= m / 2. */
void NAME(calque_fft_real)(
    const R *x, int64_t x_at, const R *table, int64_t t_at, R *y, int64_t y_at, int64_t rows,
    int64_t m, int64_t back, int64_t group, int64_t groups) {
  x += 2 * x_at, y += 2 * y_at, table += t_at;
  const int64_t each = m / 2 + 1;
  const int64_t first = rows * each * group / groups, last = rows * each * (group + 1) / groups;
  const R half = 0.5;
  for (int64_t at = first; at < last;) {
    int64_t row = at / each, k = at % each;
    int64_t end = last - row * each < each ? last - row * each : each;
    at = row * each + end;
    const R *from = x + 2 * row * (back ? m + 1 : m);
    R *to = y + 2 * row * (back ? m : m + 1);
    if (!k) {
      if (back) {
        to[0] = half * (from[0] + from[2 * m]), to[1] = half * (from[0] - from[2 * m]);
      } else {
        to[0] = from[0] + from[1], to[2 * m] = from[0] - from[1];
        to[1] = to[2 * m + 1] = 0;
      }
      k = 1;
    }
    for (; k + BLOCK <= end && 2 * (k + BLOCK) <= m + 1; k += BLOCK)
      NAME(pairs)(from, to, table, k, m, back);
    for (; k < end; k++) {
      const R c = table[2 * k], s = table[2 * k + 1];
      const R ar = from[2 * k], ai = from[2 * k + 1];
      const R br = from[2 * (m - k)], bi = from[2 * (m - k) + 1];
      const R er = half * (ar + br), ei = half * (ai - bi);
      R tr, ti;
      if (back) { /* i conj(w) (a - conj b) / 2 */
        const R dr = half * (ar - br), di = half * (ai + bi);
        tr = dr * s - di * c, ti = dr * c + di * s;
      } else { /* w (a - conj b) / 2i */
        const R dr = half * (ai + bi), di = half * (br - ar);
        tr = dr * c - di * s, ti = dr * s + di * c;
      }
      to[2 * k] = er + tr, to[2 * k + 1] = ei + ti;
      to[2 * (m - k)] = er - tr, to[2 * (m - k) + 1] = ti - ei;
    }
  }
}
#undef BLOCK
#undef VL
#undef V
#undef C
#undef PASS
