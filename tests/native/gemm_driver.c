/* Runs calque_gemm_<type>, calque_convolve_<type>, calque_pack_<type>, calque_packed_<type> and calque_direct_<type> on small cases under ASan and UBSan, every buffer exactly as large as it may
 * be touched; prints ok. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define I int64_t
#define ENTRY(name, T, R)                                                                       \
  void name(const T *, I, const T *, I, R *, I, R *, I, I, I, I, I, I, I, I, I, I, I, I, I, I, \
            I, I, I, I);
#define CONVOLVE(type, T, R)                                                                    \
  void calque_convolve_##type(const T *, I, const T *, I, R *, I, R *, I, I, I, I, I, I, I, I,  \
                              I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I);      \
  void calque_convolve_features_epilogue_##type(                                                \
      const T *, I, const T *, I, const R *, I, const R *, I, R *, I, R *, I, I, I, I, I, I, I, \
      I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I);
CONVOLVE(f32, float, float)
CONVOLVE(f64, double, double)
CONVOLVE(bf16, uint16_t, float)
CONVOLVE(f16, uint16_t, float)
ENTRY(calque_gemm_f32, float, float)
ENTRY(calque_gemm_f64, double, double)
ENTRY(calque_gemm_bf16, uint16_t, float)
ENTRY(calque_gemm_f16, uint16_t, float)

#define PACKED(type, T, R)                                                       \
  void calque_pack_##type(const T *, I, R *, I, I, I, I, I);                     \
  void calque_packed_##type(const T *, I, const R *, I, R *, I, R *, I, I, I, I, \
                            I, I, I, I);
PACKED(f32, float, float)
PACKED(f64, double, double)
PACKED(bf16, uint16_t, float)
PACKED(f16, uint16_t, float)

#define DIRECT(type, R)                                                                             \
  void calque_direct_##type(const R *, I, const R *, I, R *, I, I, I, I, I, I, I, I, I, I, I, I, I, \
                            I, I, I);                                                               \
  void calque_add_##type(const R *, I, R *, I, I, I, I, I, I);
DIRECT(f32, float)
DIRECT(f64, double)

static I parts(I n, I most) { return (n + most - 1) / most; }
static I part(I n, I most) { return parts(n, parts(n, most)); }
static I larger(I a, I b) { return a > b ? a : b; }
static I smaller(I a, I b) { return a < b ? a : b; }

#if defined(__AVX512F__)
#define VECTOR 64
#elif defined(__AVX__)
#define VECTOR 32
#else
#define VECTOR 16
#endif

/* numbers of a cell's work space: room_of in lowering/kernels/gemm.py */
static I room_of(I tall, I broad, I k, I few, I size) {
  I columns = 2 * VECTOR / size, depth = parts(part(k, 256), 4) * 4;
  I packed = depth * smaller(tall, 168) + parts(broad, columns) * (depth * columns + 64 / size);
  I sums = tall <= few ? tall * broad + parts(smaller(k, 256), 4) * 4 * tall : 0;
  return larger(packed, sums);
}

#define CASE(name, T, R)                                                                     \
  {                                                                                          \
    T *a = malloc(batch * m * k * sizeof(T)), *b = malloc(batch * k * n * sizeof(T));        \
    R *c = malloc(batch * m * n * sizeof(R)), *work = malloc(groups * room * sizeof(R));     \
    for (I i = 0; i < batch * m * k; i++) a[i] = i % 7;                                      \
    for (I i = 0; i < batch * k * n; i++) b[i] = i % 5;                                      \
    for (I g = 0; g < groups; g++)                                                           \
      name(a, 0, b, 0, c, 0, work, 0, batch, m, n, k, 1, m * k, turned & 1 ? 1 : k,          \
           turned & 1 ? m : 1, k * n, turned & 2 ? 1 : n, turned & 2 ? k : 1, tall, broad,   \
           few, room, g, groups);                                                            \
    if (sizeof(T) == sizeof(R))                                                              \
      for (I i = 0; i < batch * m; i++)                                                      \
        for (I j = 0; j < n; j++) {                                                          \
          double sum = 0;                                                                    \
          I q = i / m, r = i % m;                                                            \
          for (I p = 0; p < k; p++)                                                          \
            sum += (double)a[q * m * k + (turned & 1 ? p * m + r : r * k + p)] *             \
                   (double)b[q * k * n + (turned & 2 ? j * k + p : p * n + j)];              \
          if (sum != (double)c[i * n + j]) return 1; /* integers: exact */                   \
        }                                                                                    \
    free(a), free(b), free(c), free(work);                                                   \
  }

/* Images (count, size, size, c), or (count, c, size, size) where `first`, under o kernels of 3 x 3
 * taps; features of the result are rows where `second`. */
/* Features first, with all that an epilogue does, or last; packed, or as they lie. */
#define WINDOWS(type, T, R)                                                                       \
  {                                                                                               \
    I full = count * size * size * c, spots = put * put, columns = 2 * VECTOR / sizeof(R);        \
    I as_it_lies = sizeof(T) == sizeof(R) ? 8 * (form >> 2) : 0, turned = second && as_it_lies;   \
    I room = second ? 256 * columns + 20 * (columns + 64 / sizeof(R)) + 20 * 256                  \
                    : room_of(20, 32, k, 0, sizeof(R));                                           \
    T *x = malloc(full * sizeof(T)), *y = malloc(k * o * sizeof(T));                              \
    R *out = malloc(places * o * sizeof(R)), *work = malloc(2 * room * sizeof(R));                \
    R *shift = malloc(o * sizeof(R)), *more = malloc(places * o * sizeof(R));                     \
    for (I i = 0; i < full; i++) x[i] = i % 7;                                                    \
    for (I i = 0; i < k * o; i++) y[i] = i % 5;                                                   \
    for (I i = 0; i < o; i++) shift[i] = i % 3;                                                   \
    for (I i = 0; i < places * o; i++) more[i] = -(i % 900);                                      \
    for (I g = 0; g < 2; g++)                                                                     \
      if (second)                                                                                 \
        calque_convolve_features_epilogue_##type(                                                 \
            x, 0, y, 0, shift, 0, more, 0, out, 0, work, 0, count, o, spots, k, 1, 3, 3, c, 0,    \
            row, column, feature, 1, count, put, put, 0, image, row * by, column * by,            \
            turned ? 1 : o, turned ? k : 1, 7 + as_it_lies, 20, columns, room, g, 2);             \
      else                                                                                        \
        calque_convolve_##type(x, 0, y, 0, out, 0, work, 0, places, o, k, 1, 3, 3, c, 0, row,     \
                               column, feature, 1, count, put, put, 0, image, row * by,           \
                               column * by, o, 1, as_it_lies, 20, 32, room, g, 2);                \
    for (I i = 0; i < places && sizeof(T) == sizeof(R); i++)                                      \
      for (I j = 0; j < o; j++) {                                                                 \
        I at = second ? (i / spots * o + j) * spots + i % spots : i * o + j;                      \
        double sum = second ? (double)shift[j] + (double)more[at] : 0;                            \
        for (I p = 0; p < k; p++)                                                                 \
          sum += (double)y[turned ? j * k + p : p * o + j] *                                      \
                 (double)x[i / spots * image + (i / put % put * by + p / (3 * c)) * row +         \
                           (i % put * by + p / c % 3) * column + p % c * feature];                \
        if ((second && sum < 0 ? 0 : sum) != (double)out[at]) return 2;                           \
      }                                                                                           \
    free(x), free(y), free(out), free(work), free(shift), free(more);                             \
  }

/* Twice the product, the second time added, in rows further apart than they are long. */
#define PACKED_CASE(type, T, R)                                                                  \
  {                                                                                              \
    I columns = 2 * VECTOR / sizeof(R), blocks = parts(k, 256), apart = n + 3;                   \
    I panel = parts(part(k, 256), 4) * 4 * columns + 64 / sizeof(R);                             \
    I room = smaller(m, 168) * parts(smaller(k, 256), 4) * 4;                                    \
    T *a = malloc(m * k * sizeof(T)), *b = malloc(k * n * sizeof(T));                            \
    R *packed = malloc(blocks * parts(n, columns) * panel * sizeof(R));                          \
    R *c = malloc(((m - 1) * apart + n) * sizeof(R)), *work = malloc(room * sizeof(R));          \
    for (I i = 0; i < m * k; i++) a[i] = i % 7;                                                  \
    for (I i = 0; i < k * n; i++) b[i] = i % 5;                                                  \
    calque_pack_##type(b, 0, packed, 0, k, n, turned & 2 ? 1 : n, turned & 2 ? k : 1);           \
    for (I add = 0; add < 2; add++)                                                              \
      calque_packed_##type(a, 0, packed, 0, c, 0, work, 0, m, n, k, turned & 1 ? 1 : k,          \
                           turned & 1 ? m : 1, apart, add);                                      \
    for (I i = 0; i < m && sizeof(T) == sizeof(R); i++)                                          \
      for (I j = 0; j < n; j++) {                                                                \
        double sum = 0;                                                                          \
        for (I p = 0; p < k; p++)                                                                \
          sum += (double)a[turned & 1 ? p * m + i : i * k + p] *                                 \
                 (double)b[turned & 2 ? j * k + p : p * n + j];                                  \
        if (2 * sum != (double)c[i * apart + j]) return 3; /* integers: exact */                 \
      }                                                                                          \
    free(a), free(b), free(packed), free(c), free(work);                                         \
  }

static int packed_once(void) {
  const I sizes[][3] = {{1, 1, 1}, {5, 3, 6}, {14, 64, 9}, {29, 33, 300}, {171, 70, 3}, {30, 96, 515}};
  for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++)
    for (int turned = 0; turned < 4; turned++) {
      I m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
      PACKED_CASE(f32, float, float)
      PACKED_CASE(bf16, uint16_t, float)
      PACKED_CASE(f16, uint16_t, float)
      PACKED_CASE(f64, double, double)
    }
  return 0;
}

/* Nothing packed: whole panels, and some that go back to where they are whole; and panels packed on the
 * stack, of fewer columns than one has, or of b's transposition. */
#define AS_IS(type, R)                                                                          \
  {                                                                                             \
    I columns = 2 * VECTOR / sizeof(R), across = s % 2;                                         \
    I n = s < 4 ? columns * (1 + s) + (s % 2 ? 3 : 0) : s;                                      \
    R *a = malloc(m * k * sizeof(R)), *b = malloc(k * n * sizeof(R));                           \
    R *c = malloc(m * n * sizeof(R)), *parts = malloc(split * m * n * sizeof(R));               \
    for (I i = 0; i < m * k; i++) a[i] = i % 7;                                                 \
    for (I i = 0; i < k * n; i++) b[i] = i % 5;                                                 \
    across = s > 3 ? across : 0;                                                                \
    for (I g = 0; g < 2; g++)                                                                   \
      calque_direct_##type(a, 0, b, 0, parts, 0, 1, m, n, k, split, 0, turned ? 1 : k,          \
                           turned ? m : 1, 0, across ? 1 : n, across ? k : 1, 9,                \
                           s % 2 && s < 4 ? columns * (1 + s) : columns, g, 2);                 \
    for (I g = 0; g < 2; g++) calque_add_##type(parts, 0, c, 0, 1, m * n, split, g, 2);         \
    for (I i = 0; i < m * n; i++) {                                                             \
      double sum = 0;                                                                           \
      for (I p = 0; p < k; p++)                                                                 \
        sum += (double)a[turned ? p * m + i / n : i / n * k + p] *                              \
               (double)b[across ? i % n * k + p : p * n + i % n];                               \
      if (sum != (double)c[i]) return 1;                                                        \
    }                                                                                           \
    free(a), free(b), free(c), free(parts);                                                     \
  }

static int as_is(void) {
  for (int s = 0; s < 8; s++)
    for (int form = 0; form < 4; form++) {
      I turned = form % 2, split = form < 2 ? 1 : 3; /* the sums in as many parts */
      I m = 1 + 9 * s, k = s == 2 || s == 6 ? 300 : 5 + s;
      AS_IS(f32, float)
      AS_IS(f64, double)
    }
  return 0;
}

static int convolutions(void) {
  const I cases[][5] = {{1, 3, 1, 1, 1}, {2, 8, 3, 5, 1}, {2, 9, 4, 17, 2}, {1, 20, 8, 3, 1},
                        {1, 12, 33, 9, 1}};
  for (unsigned s = 0; s < sizeof cases / sizeof *cases; s++)
    for (int form = 0; form < 8; form++) {
      I count = cases[s][0], size = cases[s][1], c = cases[s][2], o = cases[s][3];
      I by = cases[s][4], put = (size - 3) / by + 1, places = count * put * put, k = 9 * c;
      I first = form & 1, second = form >> 1 & 1, image = size * size * c;
      I row = first ? size : size * c, column = first ? 1 : c, feature = first ? size * size : 1;
      WINDOWS(f32, float, float)
      WINDOWS(bf16, uint16_t, float)
      WINDOWS(f16, uint16_t, float)
      WINDOWS(f64, double, double)
    }
  return 0;
}

int main(void) {
  if (convolutions()) return 2;
  if (packed_once()) return 3;
  if (as_is()) return 4;
  const I sizes[][4] = {{1, 1, 1, 1}, {2, 5, 3, 6}, {1, 7, 33, 9}, {1, 2, 64, 300}, {1, 171, 40, 3},
                        {3, 13, 17, 21}, {1, 64, 70, 258}};
  for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++)
    for (int turned = 0; turned < 4; turned++)
      for (I few = 0; few <= 64; few += 64) {
        I batch = sizes[s][0], m = sizes[s][1], n = sizes[s][2], k = sizes[s][3];
        I tall = few ? m : smaller(m, 50), broad = smaller(n, 32), groups = 1 + s % 3;
        I room = room_of(tall, broad, k, few, 4);
        CASE(calque_gemm_f32, float, float)
        CASE(calque_gemm_bf16, uint16_t, float)
        CASE(calque_gemm_f16, uint16_t, float)
        room = room_of(tall, broad, k, few, 8);
        CASE(calque_gemm_f64, double, double)
      }
  puts("ok");
  return 0;
}
