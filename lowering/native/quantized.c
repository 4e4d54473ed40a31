/* Products with matrices of a few bits: rows are blocks of 32 or 256 numbers that share scales, as GGUF
 * files have them (https://github.com/ggml-org/ggml, docs/gguf.md and ggml-common.h give the layouts).
 *
 * Blocks are read once, as they lie, and become floats in registers; rows of both operands are taken a
 * few at a time, so that what was unpacked serves several sums.  Conventions: README.md.
 */
#ifdef __SSE4_1__
#include <immintrin.h>
#endif
#include <stdint.h>

#include "macros.h"

#define TWICE _Pragma("GCC unroll 2")
#ifdef __AVX512F__
#define TILE 4
#else
#define TILE 3
#endif

enum {
  VL = VECTOR_BYTES / 4,
  GROUP = 32, /* numbers that share a scale */
  PARTS = GROUP / VL,
  LINE = 16,             /* floats of a cache's line */
  WIDE = 2,              /* rows of the matrix, and */
  TALL = VL > 4 ? 4 : 2, /* of the other operand that are taken at once */
  CHAINS = 4,            /* sums that do not wait for one another */
  NEAR = 4096,           /* floats that lie next to the core: fewer are read for each row of the matrix */
  AHEAD = 4096,          /* bytes between what is asked for and what is read */
  STRIP = 12,            /* rows of the matrix that are unpacked at once for many rows, */
  DEPTH = 1024,          /* so many numbers of each */
  SHARED = 4,            /* rows that a tile of TILE unpacked ones is multiplied by */
  FEW_ROWS = 4,          /* rounded rows that are taken at once */
  ROOM = 1 << 15         /* numbers of them, on the stack */
};

typedef float V __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));

/* VL signed bytes as floats. */
INLINE V widened(const uint8_t *at) {
#if defined(__AVX512F__)
  return (V)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)at)));
#elif defined(__AVX2__)
  return (V)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)at)));
#elif defined(__SSE4_1__)
  int32_t four;
  __builtin_memcpy(&four, at, 4);
  return (V)_mm_cvtepi32_ps(_mm_cvtepi8_epi32(_mm_cvtsi32_si128(four)));
#else
  V x;
  UNROLL for (int i = 0; i < VL; i++) x[i] = (int8_t)at[i];
  return x;
#endif
}

/* The lower halves of VL bytes less `zero` as floats, or the upper ones. */
INLINE V nibbles(const uint8_t *at, const int upper, const int zero) {
#if defined(__AVX512F__)
  V values;
  UNROLL for (int i = 0; i < VL; i++) values[i] = (float)(i - zero);
  __m512i x = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)at));
  return (V)_mm512_permutexvar_ps(upper ? _mm512_srli_epi32(x, 4) : x, (__m512)values);
#elif defined(__AVX2__)
  __m256i x = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)at));
  x = upper ? _mm256_srli_epi32(x, 4) : _mm256_and_si256(x, _mm256_set1_epi32(15));
  return (V)_mm256_cvtepi32_ps(x) - (float)zero;
#elif defined(__SSE4_1__)
  int32_t four;
  __builtin_memcpy(&four, at, 4);
  __m128i x = _mm_cvtepu8_epi32(_mm_cvtsi32_si128(four));
  x = upper ? _mm_srli_epi32(x, 4) : _mm_and_si128(x, _mm_set1_epi32(15));
  return (V)_mm_cvtepi32_ps(x) - (float)zero;
#else
  V x;
  UNROLL for (int i = 0; i < VL; i++) x[i] = (float)((upper ? at[i] >> 4 : at[i] & 15) - zero);
  return x;
#endif
}

/* IEEE half precision at any address. */
INLINE float half(const uint8_t *at) {
  uint32_t bits = at[0] | (uint32_t)at[1] << 8;
#ifdef __F16C__
  return _cvtsh_ss((uint16_t)bits);
#else
  union {
    uint32_t bits;
    float value;
  } x, least = {.bits = 0x38800000};
  uint32_t size = (bits & 0x7fff) << 13, exponent = size & 0x0f800000;
  if (exponent == 0) { /* a subnormal number: by a subtraction */
    x.bits = size + 0x38800000;
    x.value -= least.value;
  } else
    x.bits = size + (exponent == 0x0f800000 ? 0x70000000 : 0x38000000);
  x.bits |= (bits & 0x8000) << 16;
  return x.value;
#endif
}

SUM_OF_LANES(total, V, VL)

/* y[j * y_apart + i] (+)= row i of a times row j of x, of `wide` rows of a, DEPTH apart, and `tall` of
 * x; `depth` is a multiple of GROUP. */
INLINE void tile(const int wide, const int tall, float *restrict y, int64_t y_apart,
                 const float *restrict a, const float *restrict x, int64_t x_apart, int64_t depth,
                 int64_t add) {
  V sum[TILE][SHARED] = {{{0}}};
  for (int64_t p = 0; p < depth; p += VL) {
    V row[SHARED];
    UNROLL for (int j = 0; j < tall; j++) row[j] = *(const V *)(x + j * x_apart + p);
    UNROLL for (int i = 0; i < wide; i++) {
      V by = *(const V *)(a + i * DEPTH + p);
      UNROLL for (int j = 0; j < tall; j++) sum[i][j] += by * row[j];
    }
  }
  UNROLL for (int i = 0; i < wide; i++)
    UNROLL for (int j = 0; j < tall; j++) {
      float *to = y + j * y_apart + i;
      *to = total(sum[i][j]) + (add ? *to : 0);
    }
}

/* The same of a strip of a and all rows of x. */
ONCE void tiles(float *restrict y, int64_t y_apart, const float *restrict a, int64_t strip,
                const float *restrict x, int64_t x_apart, int64_t rows, int64_t depth, int64_t add) {
  for (int64_t j = 0; j < rows; j += SHARED)
    for (int64_t i = 0; i < strip; i += TILE) {
      float *to = y + j * y_apart + i;
      const float *from = a + i * DEPTH, *by = x + j * x_apart;
      int64_t tall = smaller(SHARED, rows - j), wide = smaller(TILE, strip - i);
      if (tall == SHARED && wide == TILE)
        tile(TILE, SHARED, to, y_apart, from, by, x_apart, depth, add);
      else if (tall == SHARED)
        for (int64_t r = 0; r < wide; r++)
          tile(1, SHARED, to + r, y_apart, from + r * DEPTH, by, x_apart, depth, add);
      else
        for (int64_t r = 0; r < tall; r++) {
          if (wide == TILE)
            tile(TILE, 1, to + r * y_apart, y_apart, from, by + r * x_apart, x_apart, depth, add);
          else
            for (int64_t c = 0; c < wide; c++)
              tile(1, 1, to + r * y_apart + c, y_apart, from + c * DEPTH, by + r * x_apart, x_apart,
                   depth, add);
        }
    }
}

/* Each kind: bytes and groups of a block, whether numbers have an offset, the scales of its groups,
 * and vector p of the integers of group g, NUMBERS: numbers = scale * integers + offset. */
#define SUFFIX q8_0
#define BYTES 34
#define GROUPS 1
#define OFFSETS 0
#define NUMBERS(block, g, p) widened((block) + 2 + (p) * VL)
INLINE void scales_q8_0(const uint8_t *block, float *scale, float *offset) {
  (void)offset;
  scale[0] = half(block);
}
#include "quantized.inc.h"

/* 16 bytes: the first half of a group below, the second above */
#define HALVES(at, p, zero) nibbles((at) + (p) % (PARTS / 2) * VL, (p) >= PARTS / 2, zero)

#define SUFFIX q4_0
#define BYTES 18
#define GROUPS 1
#define OFFSETS 0
#define NUMBERS(block, g, p) HALVES((block) + 2, p, 8)
#define scales_q4_0 scales_q8_0
#include "quantized.inc.h"

#define SUFFIX q4_1
#define BYTES 20
#define GROUPS 1
#define OFFSETS 1
#define NUMBERS(block, g, p) HALVES((block) + 4, p, 0)
INLINE void scales_q4_1(const uint8_t *block, float *scale, float *offset) {
  scale[0] = half(block);
  offset[0] = half(block + 2);
}
#include "quantized.inc.h"

/* scales and offsets are 6 bits each: those of the first four groups in the lower bits of 8 bytes, the
 * others in 4 bytes of halves and the upper bits; 32 bytes hold a group below and the next above */
#define SUFFIX q4_k
#define BYTES 144
#define GROUPS 8
#define OFFSETS 1
#define NUMBERS(block, g, p) nibbles((block) + 16 + 32 * ((g) / 2) + (p) * VL, (g) % 2, 0)
INLINE void scales_q4_k(const uint8_t *block, float *scale, float *offset) {
  const uint8_t *six = block + 4;
  float by = half(block), less = -half(block + 2);
  UNROLL for (int g = 0; g < 4; g++) {
    scale[g] = by * (float)(six[g] & 63);
    offset[g] = less * (float)(six[g + 4] & 63);
    scale[g + 4] = by * (float)((six[g + 8] & 15) | six[g] >> 6 << 4);
    offset[g + 4] = less * (float)(six[g + 8] >> 4 | six[g + 4] >> 6 << 4);
  }
}
#include "quantized.inc.h"

/* Blocks times rows of integers, of the CPUs of the level, and of those that multiply four bytes at once. */
#include "quantized_int8.h"

#define TARGET
#define VARIANT(x) x
#define MULTIPLIED multiplied
#define SIGNED_BYTES(at) bytes32(at)
#define SIGNED 1
#define RAISED 0
#define IN_FOURS(at) 0
#include "quantized_kinds.inc.h"

#ifdef VNNI
#define TARGET VNNI
#define VARIANT(x) JOIN(x, vnni)
#define MULTIPLIED(sum, w, x, is_signed) multiplied_vnni(sum, w, x)
#define SIGNED_BYTES(at) raised(bytes32(at))
#define SIGNED 0
#define RAISED 128
#define IN_FOURS(at) at
#include "quantized_kinds.inc.h"
#endif

/* Halves, which have no scales: the operand is an array of them. */
typedef uint16_t SHORTS __attribute__((vector_size(VL * 2), aligned(1), may_alias));
typedef uint32_t WORDS __attribute__((vector_size(VECTOR_BYTES)));

INLINE V of_bfloat16(const uint8_t *at) {
#if defined(__AVX512F__)
  return (V)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)at)), 16);
#elif defined(__AVX2__)
  return (V)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)at)), 16);
#elif defined(__SSE4_1__)
  return (V)_mm_slli_epi32(_mm_cvtepu16_epi32(_mm_loadl_epi64((const void *)at)), 16);
#else
  return (V)(__builtin_convertvector(*(const SHORTS *)at, WORDS) << 16);
#endif
}

INLINE V of_float16(const uint8_t *at) {
#if defined(__AVX512F__)
  return (V)_mm512_cvtph_ps(_mm256_loadu_si256((const void *)at));
#elif defined(__F16C__)
  return (V)_mm256_cvtph_ps(_mm_loadu_si128((const void *)at));
#else
  V x;
  UNROLL for (int i = 0; i < VL; i++) x[i] = half(at + 2 * i);
  return x;
#endif
}

INLINE void scales_bf16(const uint8_t *block, float *scale, float *offset) {
  (void)block, (void)offset;
  scale[0] = 1;
}
#define scales_f16 scales_bf16

#define SUFFIX bf16
#define BYTES 64
#define GROUPS 1
#define OFFSETS 0
#define UNIT 2
#define NUMBERS(block, g, p) of_bfloat16((block) + 2 * (p) * VL)
#include "quantized.inc.h"

#define SUFFIX f16
#define BYTES 64
#define GROUPS 1
#define OFFSETS 0
#define UNIT 2
#define NUMBERS(block, g, p) of_float16((block) + 2 * (p) * VL)
#include "quantized.inc.h"
