// Runs kernels in PTX on the CPU, thread by thread: slow, and strict about memory.
#pragma once
#include <cstdint>
#include <map>

#include "ptx.h"

namespace machine {

struct Grid { unsigned x, y, z; };

// What kernels may read and write: start -> bytes.
extern std::map<uint64_t, uint64_t> allocations;

// Raises std::runtime_error for what no card forgives: reads and writes outside of every
// allocation, or at addresses that their size does not divide, and threads that wait for ever.
void Launch(const ptx::Entry& entry, Grid grid, Grid block, unsigned shared, void** parameters);

}  // namespace machine
