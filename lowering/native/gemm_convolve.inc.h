/* Convolutions of one element type T, as products with what windows see (a template of gemm.c, which
 * see): a cell's sums stay in work space until they are whole, and what is done to them is done as
 * they are written.
 */

#define NEST_OF(x)                                                                       \
  {                                                                                      \
    {x##_0, x##_1, x##_2, x##_3}, { x##_apart_0, x##_apart_1, x##_apart_2, x##_apart_3 } \
  }
#define NEST_ARGUMENTS(x)                                                                       \
  int64_t x##_0, int64_t x##_1, int64_t x##_2, int64_t x##_3, int64_t x##_apart_0,              \
      int64_t x##_apart_1, int64_t x##_apart_2, int64_t x##_apart_3

/* A cell of c (places, features), whose rows of x are read as they lie: places `step` apart in a row at
 * once, elements of a window as far as they are side by side. */
ONCE void IN(cell_as_it_lies)(R *restrict c, int64_t ldc, VIEW x, VIEW b, int64_t rows,
                              int64_t columns, int64_t k, R *restrict packed) {
  int64_t blocks = parts(k, DEPTH), deeply[DEPTH], of[ROWS_AT_ONCE];
  for (int64_t n = 0; n < blocks; n++) {
    int64_t p = start_of(k, blocks, n), depth = start_of(k, blocks, n + 1) - p;
    int64_t steps = parts(depth, STEP);
    places(deeply, &x.windows->deep, p, depth);
    IN(pack_b)(packed, IN(from)(b, p, 0), depth, columns);
    for (int64_t first = 0; first < rows; first += ROWS_AT_ONCE) {
      int64_t some = smaller(rows - first, ROWS_AT_ONCE);
      places(of, &x.windows->across, x.i + first, some);
      for (int64_t j = 0; j < columns; j += COLUMNS)
        for (int64_t i = 0, high; i < some; i += high) {
          int64_t step = i + 1 < some ? of[i + 1] - of[i] : 0;
          for (high = 1; i + high < some && of[i + high] - of[i + high - 1] == step;) high++;
          if (high == 1 || step < 0) high = 1, step = 0;
          for (int64_t q = 0, run; q < depth; q += run) {
            for (run = 1; q + run < depth && deeply[q + run] == deeply[q] + run;) run++;
            const R *a = (const R *)(const void *)(x.at + of[i] + deeply[q]);
            const R *by = packed + j / COLUMNS * PANEL(steps) + q * COLUMNS;
            R *to = c + (first + i) * ldc + j;
            if (columns - j == VL)
              SUM(of_a_vector)(high, run, a, step, by, to, ldc, n + q);
            else
              SUM(narrow)(high, run, a, step, 1, by, to, ldc, smaller(columns - j, COLUMNS),
                          n + q);
          }
        }
    }
  }
}

/* c (places, features) = what windows see of x times y; `how`: EPILOGUE, or AS_IT_LIES, x. */
ONCE void IN(convolved)(const T *x_from, const T *y_from, const R *shift, const R *more, R *to,
                        R *work, int64_t m, int64_t n, int64_t k, const NEST *deep,
                        const NEST *across, int64_t y_deep, int64_t y_across, int64_t how,
                        int64_t tall, int64_t broad, int64_t group, int64_t groups) {
  WINDOWS windows = {*deep, *across};
  int64_t along = parts(n, broad), cells = parts(m, tall) * along;
  for (int64_t at = cells * group / groups; at < cells * (group + 1) / groups; at++) {
    int64_t i = at / along * tall, j = at % along * broad;
    int64_t rows = smaller(m - i, tall), columns = smaller(n - j, broad);
    VIEW x = {x_from, 0, 0, &windows, 0, i};
    VIEW y = {y_from + j * y_across, y_deep, y_across, 0, 0, 0};
    R *c = to + i * n + j;
    (how & AS_IT_LIES ? IN(cell_as_it_lies) : IN(cell))(c, n, x, y, rows, columns, k, work);
    for (int64_t r = 0; r < rows && how & (SHIFTED | ADDED_TO | RECTIFIED); r++)
      SUM(finish)(c + r * n, c + r * n, columns, shift + j, 1, more + (i + r) * n + j, how);
  }
}

/* c (images, features, places) = y times what windows see of x, a panel of them at a time, packed
 * where it is read; `how`: EPILOGUE, or AS_IT_LIES, y's rows. */
ONCE void IN(featured)(const T *from, const T *y_from, const R *shift, const R *more, R *c, R *work,
                       int64_t images, int64_t m, int64_t spots, int64_t k, const NEST *deep,
                       const NEST *across, int64_t y_deep, int64_t y_across, int64_t how,
                       int64_t tall, int64_t broad, int64_t group, int64_t groups) {
  int64_t n = images * spots, along = parts(n, broad), cells = parts(m, tall) * along;
  int64_t blocks = parts(k, DEPTH), widest = whole(parts(k, blocks), STEP), ldc = LDC(broad);
  R *panel = work, *sums = panel + widest * COLUMNS, *packed = sums + tall * ldc;
  int64_t ready = -1; /* the rows of y that are packed */
  for (int64_t at = cells * group / groups; at < cells * (group + 1) / groups; at++) {
    int64_t i = at / along * tall, j = at % along * broad;
    int64_t rows = smaller(m - i, tall), columns = smaller(n - j, broad);
    int64_t panels = parts(rows, TILE_ROWS), places_of[COLUMNS], deeply[DEPTH];
    const T *y = y_from + i * y_across;
    IN(runs) runs[VECTORS];
    for (int64_t v = 0; v < columns / VL; v++) {
      places(places_of, across, j + v * VL, VL);
      runs[v] = IN(runs_of)(places_of);
    }
    for (int64_t b = 0; b < blocks; b++) {
      int64_t p = start_of(k, blocks, b), depth = start_of(k, blocks, b + 1) - p;
      int64_t steps = parts(depth, STEP);
      places(deeply, deep, p, depth);
      if (!(how & AS_IT_LIES) && (blocks > 1 || ready != i)) {
        VIEW view = {y + p * y_deep, y_deep, y_across, 0, 0, 0};
        IN(pack_a)(packed, view, depth, rows);
        ready = i;
      }
      IN(fill)(panel, depth);
      for (int64_t q = 0; q < columns; q += COLUMNS) {
        for (int64_t v = q; v < smaller(columns, q + COLUMNS); v += VL) {
          R *to = panel + v - q;
          if (columns - v >= VL && runs[v / VL].count) {
            IN(pack_runs)(to, from, deeply, depth, &runs[v / VL]);
          } else {
            int64_t there = smaller(columns - v, VL);
            places(places_of, across, j + v, there);
            IN(pack_places)(to, from, deeply, depth, places_of, there);
          }
        }
        const R *as_is = (const R *)(const void *)(y + p);
        if (how & AS_IT_LIES && columns <= VL) {
          SUM(of_a_vector)(rows, depth, as_is, y_across, panel, sums, ldc, b);
          continue;
        }
        if (how & AS_IT_LIES) {
          SUM(in_place)(rows, depth, as_is, y_across, 1, panel, COLUMNS, sums + q, ldc, b);
          continue;
        }
        for (int64_t t = 0; t < panels; t++) {
          int64_t first = start_of(rows, panels, t);
          SUM(tiles)(start_of(rows, panels, t + 1) - first, steps, packed + first * steps * STEP,
                     panel, sums + first * ldc + q, ldc, COLUMNS, b);
        }
      }
    }
    for (int64_t q = 0; q < columns;) { /* image by image */
      int64_t image = (j + q) / spots, spot = (j + q) % spots;
      int64_t some = smaller(spots - spot, columns - q);
      for (int64_t r = 0; r < rows; r++) {
        int64_t to = (image * m + i + r) * spots + spot;
        SUM(finish)(c + to, sums + r * ldc + q, some, shift + i + r, 0, more + to, how);
      }
      q += some;
    }
  }
}

#define EPILOGUE , const R *shift_base, int64_t shift_at, const R *more_base, int64_t more_at
#define KERNEL(name, f, epilogue, shift, more, counts, ...)                                        \
  void IN(name)(const T *x_base, int64_t x_at, const T *y_base, int64_t y_at epilogue, R *c_base,  \
                int64_t c_at, R *work_base, int64_t work_at, counts, NEST_ARGUMENTS(deep),       \
                NEST_ARGUMENTS(across), int64_t y_deep, int64_t y_across, int64_t how,           \
                int64_t tall, int64_t broad, int64_t room, int64_t group, int64_t groups) {      \
    NEST deep = NEST_OF(deep), across = NEST_OF(across);                                         \
    IN(f)(x_base + x_at, y_base + y_at, shift, more, c_base + c_at,                              \
          work_base + work_at + group * room, __VA_ARGS__, &deep, &across, y_deep, y_across, how, \
          tall, broad, group, groups);                                                           \
  }
#define COUNTS_OF_PLACES int64_t m, int64_t n, int64_t k
#define COUNTS_OF_FEATURES int64_t images, int64_t m, int64_t spots, int64_t k
#define SHIFT shift_base + shift_at
#define MORE more_base + more_at
KERNEL(calque_convolve, convolved, , 0, 0, COUNTS_OF_PLACES, m, n, k)
KERNEL(calque_convolve_epilogue, convolved, EPILOGUE, SHIFT, MORE, COUNTS_OF_PLACES, m, n, k)
KERNEL(calque_convolve_features, featured, , 0, 0, COUNTS_OF_FEATURES, images, m, spots, k)
KERNEL(calque_convolve_features_epilogue, featured, EPILOGUE, SHIFT, MORE, COUNTS_OF_FEATURES, images,
       m, spots, k)
#undef EPILOGUE
#undef KERNEL
#undef COUNTS_OF_PLACES
#undef COUNTS_OF_FEATURES
#undef SHIFT
#undef MORE
#undef NEST_OF
#undef NEST_ARGUMENTS
