/* Lines of complex numbers transformed side by side, one in each lane of a vector.
 *
 * calque_fft_<type> transforms `outer` x `lanes` lines of n elements, each line wherever three
 * strides put it.  A block of as many lines as a vector has lanes is brought to workspace as
 * rows of (re, im) vectors, goes through Stockham's passes there (Van Loan, "Computational
 * Frameworks for the Fast Fourier Transform", 1.7: no shuffling at the end) and is written out.
 * So long lines, lines across memory and many short ones are all the same code; a long single line
 * is two calls, the columns of a matrix and then its rows (lowering/kernels/fft.py).
 */
#include <stdint.h>

#include "macros.h"

#define NAME(x) JOIN(x, SUFFIX)
#define TURNED_LANES 16 /* columns of one table of turns: the most lanes of any vector */
#define CHUNK 32        /* elements of a line that are brought to lanes at a time */

#if defined(__clang__) || __GNUC__ >= 12
#define MIX(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define MIX(a, b, ...) __builtin_shuffle(a, b, (NAME(order)){__VA_ARGS__})
#endif

#define EVEN_2 0, 2
#define ODD_2 1, 3
#define LOW_2 0, 2
#define HIGH_2 1, 3
#define EVEN_4 0, 2, 4, 6
#define ODD_4 1, 3, 5, 7
#define LOW_4 0, 4, 1, 5
#define HIGH_4 2, 6, 3, 7
#define EVEN_8 0, 2, 4, 6, 8, 10, 12, 14
#define ODD_8 1, 3, 5, 7, 9, 11, 13, 15
#define LOW_8 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_8 4, 12, 5, 13, 6, 14, 7, 15
#define EVEN_16 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD_16 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define LOW_16 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_16 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
/* of complex numbers whose parts lie in turn: in reverse order, one part twice, parts exchanged */
#define BACK_2 0, 1
#define REAL_2 0, 0
#define IMAGINARY_2 1, 1
#define SWAP_2 1, 0
#define BACK_4 2, 3, 0, 1
#define REAL_4 0, 0, 2, 2
#define IMAGINARY_4 1, 1, 3, 3
#define SWAP_4 1, 0, 3, 2
#define BACK_8 6, 7, 4, 5, 2, 3, 0, 1
#define REAL_8 0, 0, 2, 2, 4, 4, 6, 6
#define IMAGINARY_8 1, 1, 3, 3, 5, 5, 7, 7
#define SWAP_8 1, 0, 3, 2, 5, 4, 7, 6
#define BACK_16 14, 15, 12, 13, 10, 11, 8, 9, 6, 7, 4, 5, 2, 3, 0, 1
#define REAL_16 0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 10, 10, 12, 12, 14, 14
#define IMAGINARY_16 1, 1, 3, 3, 5, 5, 7, 7, 9, 9, 11, 11, 13, 13, 15, 15
#define SWAP_16 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14

#define R float
#define RINT int32_t
#define SUFFIX c64
#define ROOT_HALF 0.70710678118654752440f
#if VECTOR_BYTES == 64
#define L(x) x##_16
#elif VECTOR_BYTES == 32
#define L(x) x##_8
#else
#define L(x) x##_4
#endif
#include "fft.inc.h"
#undef R
#undef RINT
#undef SUFFIX
#undef ROOT_HALF
#undef L

#define R double
#define RINT int64_t
#define SUFFIX c128
#define ROOT_HALF 0.70710678118654752440
#if VECTOR_BYTES == 64
#define L(x) x##_8
#elif VECTOR_BYTES == 32
#define L(x) x##_4
#else
#define L(x) x##_2
#endif
#include "fft.inc.h"
