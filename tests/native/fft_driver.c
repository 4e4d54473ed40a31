/* Runs calque_fft_<type> once, as a file says: `fft_driver input output`, built with ASan and
 * UBSan, every buffer exactly as large as it may be touched.
 *
 * Input: 8 int64 counts (bytes of a real number, reals of x, of the table, of y, of the workspace,
 * the number of scalars, groups, 0), the scalars, x, the table.  Output: y. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define SCALARS 14
#define DECLARE(name, R)                                                                        \
  void name(const R *, int64_t, const R *, int64_t, R *, int64_t, R *, int64_t, int64_t,        \
            int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,    \
            int64_t, int64_t, int64_t, int64_t, int64_t, int64_t);
DECLARE(calque_fft_c64, float)
DECLARE(calque_fft_c128, double)

static void *read_all(FILE *file, int64_t bytes) {
  void *made = malloc(bytes);
  if (!made || (int64_t)fread(made, 1, bytes, file) != bytes) exit(2);
  return made;
}

#define RUN(name, R)                                                                            \
  for (int64_t g = 0; g < head[6]; g++)                                                         \
    name((const R *)x, 0, (const R *)table, 0, (R *)y, 0, (R *)work, 0, s[0], s[1], s[2], s[3], \
         s[4], s[5], s[6], s[7], s[8], s[9], s[10], s[11], s[12], s[13], g, head[6]);

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  FILE *file = fopen(argv[1], "rb");
  if (!file) return 2;
  int64_t *head = read_all(file, 8 * sizeof(int64_t)), size = head[0];
  if (head[5] != SCALARS) return 2;
  int64_t *s = read_all(file, SCALARS * sizeof(int64_t));
  void *x = read_all(file, head[1] * size), *table = read_all(file, head[2] * size);
  fclose(file);
  void *y = malloc(head[3] * size), *work = malloc(head[4] * size);
  if (size == 4) {
    RUN(calque_fft_c64, float)
  } else {
    RUN(calque_fft_c128, double)
  }
  file = fopen(argv[2], "wb");
  if (!file || (int64_t)fwrite(y, size, head[3], file) != head[3]) return 2;
  fclose(file);
  free(head), free(s), free(x), free(table), free(y), free(work);
  return 0;
}
