// A forked child has none of its parent's threads: not the workers, and not the one that may have held
// the interpreter's lock.  A call there would wait for ever; with this it is an Error.
#pragma once

namespace calque::detail {

// From now on a fork is noticed: there is something that does not survive it.
void watch_forks();

// Is this a child forked after that?
bool is_forked() noexcept;

// Error (execution) if it is.
void check_not_forked();

}  // namespace calque::detail
