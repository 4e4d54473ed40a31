/* Selection for one type of keys (a template, see select.c). */

/* Moves the k least of count pairs to the front; returns the largest of them. */
static PAIR JOIN(keep, SUFFIX)(PAIR *pairs, int64_t count, int64_t k) {
  int64_t low = 0, high = count - 1;
  while (low < high) {
    PAIR a = pairs[low], b = pairs[low + (high - low) / 2], c = pairs[high];
    PAIR pivot = a < b ? (b < c ? b : (a < c ? c : a)) : (a < c ? a : (b < c ? c : b));
    int64_t i = low, j = high;
    while (i <= j) {
      while (pairs[i] < pivot) i++;
      while (pivot < pairs[j]) j--;
      if (i <= j) {
        PAIR t = pairs[i];
        pairs[i++] = pairs[j];
        pairs[j--] = t;
      }
    }
    if (k - 1 <= j)
      high = j;
    else if (k - 1 >= i)
      low = i;
    else
      break;
  }
  PAIR most = pairs[0];
  for (int64_t i = 1; i < k; i++) most = pairs[i] > most ? pairs[i] : most;
  return most;
}

static void JOIN(ascending, SUFFIX)(PAIR *pairs, int64_t k) {
  for (int64_t i = 1; i < k; i++) {
    PAIR own = pairs[i];
    int64_t j = i;
    for (; j > 0 && own < pairs[j - 1]; j--) pairs[j] = pairs[j - 1];
    pairs[j] = own;
  }
}

/* keys (batch, n) -> positions (batch, k); 0 < k <= n, k <= 256. */
void JOIN(calque_select, SUFFIX)(const KEY *keys, int64_t keys_at, int32_t *out, int64_t out_at,
                                 int64_t batch, int64_t n, int64_t k, int64_t group,
                                 int64_t groups) {
  const int shift = 8 * (int)sizeof(KEY);
  const int64_t limit = 2 * k + 2 * BLOCK; /* at most ROOM; a small one tightens the bound soon */
  for (int64_t b = batch * group / groups; b < batch * (group + 1) / groups; b++) {
    const KEY *row = keys + keys_at + b * n;
    PAIR pairs[ROOM];
    int64_t count = n < ROOM ? n : ROOM, i = count;
    for (int64_t j = 0; j < count; j++) pairs[j] = (PAIR)row[j] << shift | (PAIR)j;
    KEY bound = (KEY)(JOIN(keep, SUFFIX)(pairs, count, k) >> shift);
    count = k;
    while (i < n) { /* a key equal to the bound stands behind those that are kept */
      int64_t end = i + BLOCK < n ? i + BLOCK : n;
      bool some = false;
      if (end - i == BLOCK)
        for (int64_t j = 0; j < BLOCK; j++) some |= row[i + j] < bound;
      else
        for (int64_t j = i; j < end; j++) some |= row[j] < bound;
      if (some) {
        if (count + BLOCK > limit) {
          bound = (KEY)(JOIN(keep, SUFFIX)(pairs, count, k) >> shift);
          count = k;
        }
        for (int64_t j = i; j < end; j++)
          if (row[j] < bound) pairs[count++] = (PAIR)row[j] << shift | (PAIR)j;
      }
      i = end;
    }
    JOIN(keep, SUFFIX)(pairs, count, k);
    JOIN(ascending, SUFFIX)(pairs, k);
    for (int64_t j = 0; j < k; j++) out[out_at + b * k + j] = (int32_t)pairs[j];
  }
}
