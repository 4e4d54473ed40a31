/* Integers of 8 bits: 32 numbers of a block and of a rounded row, and sums of their products.
 *
 * BYTES32 is 32 of them, SUMS the sums of their products in turn: LANES of them, so that one conversion
 * and one multiplication by the block's scales are left.
 */
#ifndef QUANTIZED_INT8_H
#define QUANTIZED_INT8_H

#if defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#ifdef __AVX2__
enum { LANES = 8, CHUNK = 32 /* groups whose scales are read at once */ };
typedef __m256i BYTES32;
#else
enum { LANES = 4, CHUNK = 32 };
typedef int8_t BYTES16 __attribute__((vector_size(16)));
typedef struct {
  BYTES16 low, high;
} BYTES32;
#endif
typedef int32_t SUMS __attribute__((vector_size(LANES * 4)));
typedef float PRODUCTS __attribute__((vector_size(LANES * 4), may_alias));
typedef float LOOSE __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

INLINE BYTES32 bytes32(const void *at) {
#ifdef __AVX2__
  return _mm256_loadu_si256((const __m256i *)at);
#else
  BYTES32 x;
  __builtin_memcpy(&x, at, sizeof x);
  return x;
#endif
}

/* The lower halves of 16 bytes, then the upper ones. */
INLINE BYTES32 halves32(const uint8_t *at) {
#ifdef __AVX2__
  __m256i both = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)at));
  both = _mm256_srlv_epi32(both, _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4));
  return _mm256_and_si256(both, _mm256_set1_epi8(15));
#else
  typedef uint8_t U __attribute__((vector_size(16)));
  U x;
  __builtin_memcpy(&x, at, sizeof x);
  return (BYTES32){(BYTES16)(x & 15), (BYTES16)(x >> 4)};
#endif
}

/* Four halves, `apart` bytes from one another, as floats. */
INLINE void four_halves(float *to, const uint8_t *at, const int apart) {
#ifdef __F16C__
  uint64_t bits = 0;
  UNROLL for (int i = 0; i < 4; i++) {
    uint16_t one;
    __builtin_memcpy(&one, at + i * apart, 2);
    bits |= (uint64_t)one << 16 * i;
  }
  _mm_storeu_ps(to, _mm_cvtph_ps(_mm_cvtsi64_si128((int64_t)bits)));
#else
  for (int i = 0; i < 4; i++) to[i] = half(at + i * apart);
#endif
}

/* The lower or the upper halves of 32 bytes. */
INLINE BYTES32 half32(const uint8_t *at, const int upper) {
#ifdef __AVX2__
  __m256i x = _mm256_loadu_si256((const __m256i *)at);
  return _mm256_and_si256(upper ? _mm256_srli_epi16(x, 4) : x, _mm256_set1_epi8(15));
#else
  typedef uint8_t U __attribute__((vector_size(16)));
  U x, y;
  __builtin_memcpy(&x, at, sizeof x);
  __builtin_memcpy(&y, at + 16, sizeof y);
  return upper ? (BYTES32){(BYTES16)(x >> 4), (BYTES16)(y >> 4)}
               : (BYTES32){(BYTES16)(x & 15), (BYTES16)(y & 15)};
#endif
}

/* A sum that begins with an integer in the memory. */
INLINE SUMS begun(const int32_t *at) {
#ifdef __AVX2__
  return (SUMS)_mm256_castsi128_si256(_mm_cvtsi32_si128(*at)); /* (zero above: VEX) */
#else
  SUMS x = {*at};
  return x;
#endif
}

#if !defined(__AVX2__) && defined(__SSSE3__)
INLINE SUMS pairs16(BYTES16 w, BYTES16 x, const int is_signed) {
  __m128i a = (__m128i)w, b = (__m128i)x;
  if (is_signed) b = _mm_sign_epi8(b, a), a = _mm_abs_epi8(a);
  return (SUMS)_mm_madd_epi16(_mm_maddubs_epi16(a, b), _mm_set1_epi16(1));
}
#elif defined(__ARM_NEON)
INLINE SUMS pairs16(BYTES16 w, BYTES16 x, const int is_signed) {
  (void)is_signed;
  int8x16_t a = (int8x16_t)w, b = (int8x16_t)x;
  int32x4_t sum = vpaddlq_s16(vmull_s8(vget_low_s8(a), vget_low_s8(b)));
  return (SUMS)vpadalq_s16(sum, vmull_s8(vget_high_s8(a), vget_high_s8(b)));
}
#elif !defined(__AVX2__)
INLINE SUMS pairs16(BYTES16 w, BYTES16 x, const int is_signed) {
  (void)is_signed;
  SUMS sum = {0};
  UNROLL for (int i = 0; i < 16; i++) sum[i / 4] += w[i] * x[i];
  return sum;
}
#endif

/* sum + w times x: x is -127 to 127; w of 4 bits, or, where `is_signed`, of 8.  Sums of two products fit
 * 16 bits: 2 * 128 * 127. */
INLINE SUMS multiplied(SUMS sum, BYTES32 w, BYTES32 x, const int is_signed) {
#ifdef __AVX2__
  if (is_signed) x = _mm256_sign_epi8(x, w), w = _mm256_abs_epi8(w);
  return sum + (SUMS)_mm256_madd_epi16(_mm256_maddubs_epi16(w, x), _mm256_set1_epi16(1));
#else
  return sum + pairs16(w.low, x.low, is_signed) + pairs16(w.high, x.high, is_signed);
#endif
}

#ifdef __AVX512VL__ /* the same of unsigned bytes, on CPUs that have it; `is_signed` there is none */
#define VNNI __attribute__((target("avx512vnni")))
VNNI INLINE SUMS multiplied_vnni(SUMS sum, BYTES32 w, BYTES32 x) {
  return (SUMS)_mm256_dpbusd_epi32((__m256i)sum, w, x);
}

/* Four blocks of halves side by side; rows have lower and upper halves of four blocks alike. */
INLINE __m512i four_packed(const uint8_t *at, const int apart) {
  __m512i x = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)at));
  x = _mm512_inserti32x4(x, _mm_loadu_si128((const __m128i *)(at + apart)), 1);
  x = _mm512_inserti32x4(x, _mm_loadu_si128((const __m128i *)(at + 2 * apart)), 2);
  return _mm512_inserti32x4(x, _mm_loadu_si128((const __m128i *)(at + 3 * apart)), 3);
}

VNNI INLINE __m512 four_products(__m512i low, __m512i high, const int8_t *x, const float *by) {
  __m512i part = _mm512_dpbusd_epi32(_mm512_setzero_si512(), low, _mm512_loadu_si512(x));
  part = _mm512_dpbusd_epi32(part, high, _mm512_loadu_si512(x + 64));
  __m512 scale = _mm512_broadcast_f32x4(_mm_loadu_ps(by));
  const __m512i own = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
  return _mm512_mul_ps(_mm512_cvtepi32_ps(part), _mm512_permutevar_ps(scale, own));
}

/* Rows of `groups` blocks so. */
INLINE void by_fours(int8_t *bytes, int64_t rows, int64_t groups) {
  for (int64_t j = 0; j < rows; j++)
    for (int64_t g = 0; g + 4 <= groups; g += 4) {
      int8_t *to = bytes + (j * groups + g) * GROUP;
      __m128i x[8];
      UNROLL for (int i = 0; i < 8; i++) x[i] = _mm_loadu_si128((const __m128i *)(to + 16 * i));
      UNROLL for (int i = 0; i < 8; i++)
        _mm_storeu_si128((__m128i *)(to + 16 * (i % 2 * 4 + i / 2)), x[i]);
    }
}

/* Signed bytes, 128 above. */
INLINE BYTES32 raised(BYTES32 x) { return _mm256_xor_si256(x, _mm256_set1_epi8(-128)); }
#endif

SUM_OF_LANES(added_up, PRODUCTS, LANES)

/* Rounded rows: bytes and sums of `groups` blocks of GROUP, scales and shifts `pitch` apart. */
typedef struct {
  const int8_t *bytes;
  const float *scale, *shift; /* shift: scale times the sum of the bytes */
  const int32_t *sums;        /* of the bytes, or what sums of products begin with */
  int64_t groups, pitch;
} Rounded;

/* A row, rounded to scale * bytes in each block of GROUP: scale is the largest number / 127, where that
 * is no number or infinite all of the block is; of `sums` those of the bytes, times `times`. */
ONCE void rounded(int8_t *restrict bytes, float *restrict scale, float *restrict shift,
                  int32_t *restrict sums, const float *restrict x, int64_t k, int32_t times) {
  union {
    float value;
    int32_t bits;
  } most;
  for (int64_t b = 0; b < k / GROUP; b++, x += GROUP, bytes += GROUP) {
    int32_t bits[GROUP], sum = 0;
    float near[GROUP];
    most.bits = 0;
    __builtin_memcpy(bits, x, sizeof bits);
    for (int i = 0; i < GROUP; i++) {
      int32_t size = bits[i] & 0x7fffffff; /* (as integers: NaN is the largest) */
      most.bits = most.bits > size ? most.bits : size;
    }
    if (most.bits <= 0x03800000) most.value = 0; /* 2^-120: 127 of it divided by it is finite */
    float by = most.bits ? 127 / most.value : 0;
    scale[b] = most.value / 127;
    for (int i = 0; i < GROUP; i++) near[i] = x[i] * by + 0x1.8p23f; /* to the nearest, ties to even */
    __builtin_memcpy(bits, near, sizeof bits);
    for (int i = 0; i < GROUP; i++) {
      bytes[i] = (int8_t)bits[i];
      sum += (int8_t)bits[i];
    }
    shift[b] = scale[b] * (float)sum;
    sums[b] = times * sum;
  }
}

#endif
