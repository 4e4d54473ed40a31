// Can this machine run what was compiled?  runtime/target.py asks the same.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "artifact/record.hpp"
#include "artifact/vulkan.hpp"

namespace calque::artifact {

// Where code is to run: the device's name and platform, and what it has, where it is one of Vulkan's and
// that is known (else nothing of it is compared).
struct Place {
  std::string device, platform;
  const VulkanDevice* vulkan = nullptr;
  int cuda = 0, capability = 0;  // cuda_driver() and cuda_capability(), of a CUDA device
};

// Error (artifact) if code for `target` cannot run there.
void check_target(const Target& target, const Place& place, const std::string& source);

// Of several forms of one function, the one to run on a device: the one that asks most of it.
// Error (artifact) if none can.
std::size_t choose(const std::vector<const Record*>& forms, const Place& place,
                   const std::string& source);

// Features that generated code may use and the CPU lacks (none where the CPU is unknown).
std::vector<std::string> missing_features(const std::vector<std::string>& needed,
                                          const std::set<std::string>& present);

// The CPU's features as the Linux kernel names them; empty where they cannot be read.
const std::set<std::string>& cpu_flags();

}  // namespace calque::artifact
