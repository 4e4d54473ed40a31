/* The k least of each row's unsigned keys, in ascending order, equal ones by position.
 *
 * Few are kept in order, as long as not many keys have to be put in.  Else one pass: blocks without a key below the k-th least so far are skipped by vectors; what is below
 * is collected, and when the room is full only the k least stay (Hoare's selection), so that every
 * order of keys costs a few steps per key.  Conventions: README.md.
 */
#include <stdbool.h>
#include <stdint.h>

#include "macros.h"

enum { ROOM = 1024, BLOCK = 64, PART = 16, FEW = 16, MOST = 256 }; /* MOST: the largest k */

#define KEY uint32_t
#define PAIR uint64_t /* key and position as one number */
#define SUFFIX u32
#include "select.inc.h"
#undef KEY
#undef PAIR
#undef SUFFIX

#define KEY uint64_t
#define PAIR unsigned __int128
#define SUFFIX u64
#include "select.inc.h"
