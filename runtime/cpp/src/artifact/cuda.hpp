// The PTX of a program, compared with what NVIDIA's driver reads and the card takes.  runtime/cuda.py does so.
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

// The compute capability of a card, 90 for 9.0; 0 where the driver does not say.
int cuda_capability(std::size_t index);

// The compute capability that words ask for, 90 for 9.0; 0 where they do not say.
int capability_of(const std::vector<std::string>& words);

// What words ("ptx=8.8", "sm=9.0") ask for and a driver does not read, or a card of that capability has not, in
// a sentence; empty where they do.
std::string missing_on_cuda(const std::vector<std::string>& words, int driver, int capability);

}  // namespace calque::artifact
