/* The kernel for one element type T (see spmm.c). */
#define NAME(x) JOIN(x, SUFFIX)
#define VL ((int64_t)(VECTOR_BYTES / sizeof(T)))
#define V NAME(spmm_vector)
typedef T V __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(T)), may_alias));

typedef struct {
  const T *values, *dense;
  const int32_t *rows, *columns;
  T *out;
  int64_t count, height, depth, width, row_step, column_step, weighted, clips, clips_rows;
  T fill;
} NAME(Spmm);

/* `vectors` vectors of columns from `at` on, whose sums stay in registers while rows repeat, as in an
 * order by rows they do. */
INLINE void NAME(spmm_panel)(const NAME(Spmm) * s, int64_t at, const int vectors) {
  V sums[4];
  int64_t held = -1;
  for (int64_t i = 0; i < s->count; i++) {
    int64_t row = s->rows[i * s->row_step], column = s->columns[i * s->column_step];
    if (s->clips_rows) row = larger(0, smaller(row, s->height - 1));
    if (s->clips) column = larger(0, smaller(column, s->depth - 1));
    if ((uint64_t)row >= (uint64_t)s->height) continue;
    if (row != held) {
      if (held >= 0)
        UNROLL for (int k = 0; k < vectors; k++)
          *(V *)(s->out + held * s->width + at + k * VL) = sums[k];
      UNROLL for (int k = 0; k < vectors; k++) sums[k] = *(V *)(s->out + row * s->width + at + k * VL);
      held = row;
    }
    T value = s->weighted ? s->values[i] : (T)1;
    if ((uint64_t)column >= (uint64_t)s->depth) {
      UNROLL for (int k = 0; k < vectors; k++) sums[k] += value * s->fill;
    } else {
      const T *x = s->dense + column * s->width + at;
      UNROLL for (int k = 0; k < vectors; k++) sums[k] += value * *(const V *)(x + k * VL);
    }
  }
  if (held >= 0)
    UNROLL for (int k = 0; k < vectors; k++) *(V *)(s->out + held * s->width + at + k * VL) = sums[k];
}

/* The columns from `at` to `to`, which are no whole vector. */
ONCE void NAME(spmm_rest)(const NAME(Spmm) * s, int64_t at, int64_t to) {
  for (int64_t i = 0; i < s->count; i++) {
    int64_t row = s->rows[i * s->row_step], column = s->columns[i * s->column_step];
    if (s->clips_rows) row = larger(0, smaller(row, s->height - 1));
    if (s->clips) column = larger(0, smaller(column, s->depth - 1));
    if ((uint64_t)row >= (uint64_t)s->height) continue;
    T value = s->weighted ? s->values[i] : (T)1, *out = s->out + row * s->width;
    if ((uint64_t)column >= (uint64_t)s->depth) {
      for (int64_t c = at; c < to; c++) out[c] += value * s->fill;
    } else {
      const T *x = s->dense + column * s->width;
      for (int64_t c = at; c < to; c++) out[c] += value * x[c];
    }
  }
}

/* out (height, width) = sum over i of values[i] dense[columns[i]], in row rows[i]; rows out of range are left
 * out, of columns out of range the dense row is `fill` (a float's bits).  Indices are read `row_step` and
 * `column_step` apart, from `row_at` and `column_at` on; `weighted`: else all values are 1; `clips`,
 * `clips_rows`: indices out of range are the nearest in range.  Workgroups share the columns, `panel`
 * at a time. */
void NAME(calque_spmm)(const T *values_base, int64_t values_at, const int32_t *rows_base, int64_t rows_at,
                       const int32_t *columns_base, int64_t columns_at, const T *dense_base,
                       int64_t dense_at, T *out_base, int64_t out_at, int64_t count, int64_t height,
                       int64_t depth, int64_t width, int64_t row_at, int64_t row_step,
                       int64_t column_at, int64_t column_step, int64_t weighted, int64_t clips,
                       int64_t clips_rows, int64_t fill, int64_t panel, int64_t group, int64_t groups) {
  union {
    int32_t bits;
    float value;
  } filled = {(int32_t)fill};
  NAME(Spmm) s = {values_base + values_at, dense_base + dense_at, rows_base + rows_at + row_at,
                  columns_base + columns_at + column_at, out_base + out_at, count, height, depth, width,
                  row_step, column_step, weighted, clips, clips_rows, (T)filled.value};
  int64_t strips = parts(width, panel);
  int64_t from = panel * (strips * group / groups);
  int64_t to = smaller(width, panel * (strips * (group + 1) / groups));
  for (int64_t r = 0; r < height; r++)
    for (int64_t c = from; c < to; c++) s.out[r * width + c] = 0;
  int64_t at = from;
  for (; at + 4 * VL <= to; at += 4 * VL) NAME(spmm_panel)(&s, at, 4);
  for (; at + 2 * VL <= to; at += 2 * VL) NAME(spmm_panel)(&s, at, 2);
  for (; at + VL <= to; at += VL) NAME(spmm_panel)(&s, at, 1);
  if (at < to) NAME(spmm_rest)(&s, at, to);
}
