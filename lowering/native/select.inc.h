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

/* The k least of a row so far, ascending, in pairs: each key below the last of them takes its place
 * among them.  Returns how many keys were seen: fewer than n where too many had to be put in. */
static int64_t JOIN(inserted, SUFFIX)(const KEY *row, int64_t n, int64_t k, PAIR *pairs) {
  const int shift = 8 * (int)sizeof(KEY);
  for (int64_t j = 0; j < k; j++) pairs[j] = (PAIR)row[j] << shift | (PAIR)j;
  JOIN(ascending, SUFFIX)(pairs, k);
  KEY bound = (KEY)(pairs[k - 1] >> shift);
  int64_t i = k, left = BLOCK + n / 8;
  while (i < n && left > 0) {
    bool some = false;
    if (i + BLOCK <= n) { /* a few comparisons for what has none, which most have in the end */
      for (int64_t j = 0; j < BLOCK; j++) some |= row[i + j] < bound;
      if (!some) {
        i += BLOCK;
        continue;
      }
    }
    int64_t stop = i + BLOCK < n ? i + BLOCK : n;
    for (; i < stop; i += PART) {
      int64_t end = i + PART < stop ? i + PART : stop;
      some = end - i < PART;
      if (!some)
        for (int64_t j = 0; j < PART; j++) some |= row[i + j] < bound;
      if (!some) continue;
      for (int64_t j = i; j < end; j++) {
        if (row[j] >= bound) continue; /* an equal one stands behind those that are kept */
        PAIR own = (PAIR)row[j] << shift | (PAIR)j;
        int64_t at = k - 1;
        for (; at > 0 && own < pairs[at - 1]; at--) pairs[at] = pairs[at - 1];
        pairs[at] = own;
        bound = (KEY)(pairs[k - 1] >> shift);
        left--;
      }
    }
    i = stop;
  }
  return i;
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
    int64_t count = n < limit ? n : limit, i = count;
    KEY bound;
    if (k <= FEW) {
      i = JOIN(inserted, SUFFIX)(row, n, k, pairs);
      bound = (KEY)(pairs[k - 1] >> shift);
    } else {
      for (int64_t j = 0; j < count; j++) pairs[j] = (PAIR)row[j] << shift | (PAIR)j;
      bound = (KEY)(JOIN(keep, SUFFIX)(pairs, count, k) >> shift);
    }
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
