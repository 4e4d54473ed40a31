/* Drives every entry on buffers of exactly the sizes that are promised, for the sanitizers.
 *
 * One argument: a family (the stem of a file of lowering/native).  Matrices are ordinary, zero, full
 * of NaN, of infinities, huge or tiny; what comes out is not looked at here.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAMILY "driver.inc.h"
#include "each.h"

int main(int count, char **names) {
  for (int i = 1; i < count; i++) {
    drive_f32(names[i]);
    drive_f64(names[i]);
    drive_c64(names[i]);
    drive_c128(names[i]);
  }
  printf("ok\n");
  return 0;
}
