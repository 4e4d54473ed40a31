// What code for Vulkan may use, compared with what a device has.  runtime/vulkan.py compares the same.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace calque::artifact {

// What one device has, as far as code of IREE's asks for it (the backend fills it in).
struct VulkanDevice {
  std::string name;
  std::vector<std::uint64_t> spirv;        // the newest version, {1, 6}
  std::set<std::string> has;               // Vulkan's names of features, "subgroup shuffles", ...
  std::uint32_t smallest = 0, largest = 0;  // subgroups
  std::set<std::string> matrices;          // "f32_16x16x16_f16": sums, m x n x k, factors
  std::array<std::uint32_t, 3> sizes{}, counts{};  // of a workgroup's axes; workgroups on each axis
  std::uint32_t threads = 0, memory = 0;   // of a workgroup; bytes
};

// What a record's words (lowering/target/vulkan.py) ask for and the device has not, in words of Vulkan's.
std::vector<std::string> missing_on(const VulkanDevice& device, const std::vector<std::string>& words);

}  // namespace calque::artifact
