/* Elements of type T as vectors of R (a template of gemm.c, which see). */
typedef BITS IN(bits) __attribute__((may_alias));
typedef BITS IN(four) __attribute__((vector_size(STEP * sizeof(T)), aligned(sizeof(T)), may_alias));
#ifdef LOAD /* by an instruction of the processor's */
INLINE V IN(load)(const T *at) { return LOAD(at); }
INLINE QUAD IN(load_four)(const T *at) { return LOAD_FOUR(at); }
#else
typedef BITS IN(some) __attribute__((vector_size(VL * sizeof(T)), aligned(sizeof(T)), may_alias));
typedef int16_t IN(shorts) __attribute__((vector_size(VL * 2)));
typedef int16_t IN(four_shorts) __attribute__((vector_size(STEP * 2)));
typedef UBITS IN(wide) __attribute__((vector_size(VECTOR_BYTES)));
typedef UBITS IN(wide_four) __attribute__((vector_size(STEP * sizeof(R))));

INLINE V IN(load)(const T *at) {
  return WIDEN(EXTEND(*(const IN(some) *)at, IN(shorts), IN(wide)), IN(wide), V);
}

INLINE QUAD IN(load_four)(const T *at) {
  return WIDEN(EXTEND(*(const IN(four) *)at, IN(four_shorts), IN(wide_four)), IN(wide_four), QUAD);
}
#endif

/* n numbers, STEP at most, `apart` from each other, filled up with zeros */
INLINE QUAD IN(load_few)(const T *at, int64_t apart, int64_t n) {
  BITS bits[STEP];
  for (int64_t i = 0; i < STEP; i++) bits[i] = i < n ? *(const IN(bits) *)(at + i * apart) : 0;
  return IN(load_four)((const T *)bits);
}
