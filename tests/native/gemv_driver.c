/* Runs calque_gemv_<type> and calque_few_<type> on small cases under ASan and UBSan, every buffer exactly as large as it may
 * be touched; prints ok. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define I int64_t
#define ENTRY(name, T, R) void name(const T *, I, const R *, I, R *, I, I, I, I, I, I, I, I, I, I);
ENTRY(calque_gemv_f32, float, float)
ENTRY(calque_gemv_f64, double, double)
ENTRY(calque_gemv_bf16, uint16_t, float)
ENTRY(calque_gemv_f16, uint16_t, float)
ENTRY(calque_gemv_i8, int8_t, float)

#define VECTORS(name, R)                                                                          \
  void name(const R *, I, const R *, I, R *, I, I, I, I, I, I, I, I, I, I, I, I, I);
VECTORS(calque_few_f32, float)
VECTORS(calque_few_f64, double)

#define FEW(name, R)                                                                               \
  {                                                                                                \
    R *a = malloc(batch * n * k * sizeof(R)), *x = malloc(batch * m * k * sizeof(R));              \
    R *y = malloc(batch * n * m * sizeof(R));                                                      \
    for (I i = 0; i < batch * n * k; i++) a[i] = i % 7 - 3;                                        \
    for (I i = 0; i < batch * m * k; i++) x[i] = i % 5;                                            \
    for (I g = 0; g < groups; g++)                                                                 \
      name(a, 0, x, 0, y, 0, batch, n, m, k, n * k, k, m * k, k, turned ? m : 1, turned ? 1 : n, g, \
           groups);                                                                                \
    for (I q = 0; q < batch; q++)                                                                  \
      for (I i = 0; i < n; i++)                                                                    \
        for (I j = 0; j < m; j++) {                                                                \
          double sum = 0;                                                                          \
          for (I p = 0; p < k; p++)                                                                \
            sum += (double)a[(q * n + i) * k + p] * (double)x[(q * m + j) * k + p];                \
          if (sum != (double)y[q * n * m + (turned ? i * m + j : j * n + i)])                      \
            return printf(#name " is wrong\n"), 1;                                                 \
        }                                                                                          \
    free(a), free(x), free(y);                                                                     \
  }

#define CASE(name, T, R)                                                                        \
  {                                                                                             \
    T *a = malloc(batch * n * k * sizeof(T));                                                   \
    R *x = malloc(batch * k * sizeof(R)), *y = malloc(batch * n * sizeof(R));                   \
    for (I i = 0; i < batch * n * k; i++) a[i] = i % 7 - 3;                                     \
    for (I i = 0; i < batch * k; i++) x[i] = i % 5;                                             \
    for (I g = 0; g < groups; g++)                                                              \
      name(a, 0, x, 0, y, 0, batch, n, k, n * k, turned ? 1 : k, turned ? n : 1, k, g, groups); \
    if (sizeof(T) != 2) /* halves' bits are other numbers */                                    \
      for (I q = 0; q < batch; q++)                                                             \
        for (I i = 0; i < n; i++) {                                                             \
          double sum = 0;                                                                       \
          for (I p = 0; p < k; p++)                                                             \
            sum += (double)a[q * n * k + (turned ? p * n + i : i * k + p)] * (double)x[q * k + p]; \
          if (sum != (double)y[q * n + i]) return printf(#name " is wrong\n"), 1;               \
        }                                                                                       \
    free(a), free(x), free(y);                                                                  \
  }

int main(void) {
  const I sizes[] = {1, 2, 3, 5, 8, 15, 16, 17, 31, 33, 64, 71};
  const int count = sizeof sizes / sizeof *sizes;
  for (int turned = 0; turned < 2; turned++)
    for (int i = 0; i < count; i++)
      for (int j = 0; j < count; j++)
        for (I batch = 1; batch < 4; batch += 2)
          for (I groups = 1; groups < 6; groups += 2) {
            I n = sizes[i], k = sizes[j];
            CASE(calque_gemv_f32, float, float)
            CASE(calque_gemv_f64, double, double)
            CASE(calque_gemv_bf16, uint16_t, float)
            CASE(calque_gemv_f16, uint16_t, float)
            CASE(calque_gemv_i8, int8_t, float)
            for (I m = 2; m < 8; m += 1 + m % 2) {
              FEW(calque_few_f32, float)
              FEW(calque_few_f64, double)
            }
          }
  puts("ok");
  return 0;
}
