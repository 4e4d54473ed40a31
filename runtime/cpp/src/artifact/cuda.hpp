// The PTX of kernels in a program, compared with what NVIDIA's driver reads.  runtime/cuda.py does so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace calque::artifact {

// The CUDA that the driver is of, 12040 for 12.4; 0 where there is none, or it does not say.
int cuda_driver();

// Bytes of memory of a card, 0 where the driver does not say.
std::uint64_t cuda_memory(std::size_t index);

// What words ("ptx=8.8") ask for and a driver does not read, in a sentence; empty where it does.
std::string missing_ptx(const std::vector<std::string>& words, int driver);

}  // namespace calque::artifact
