#include "artifact/vulkan.hpp"

#include <algorithm>
#include <cctype>

#include "artifact/features.hpp"

namespace calque::artifact {

namespace {

using Numbers = std::vector<std::uint64_t>;

// Runs of digits, of at most 18 each.
Numbers numbers_of(const std::string& text) {
  Numbers made;
  std::size_t length = 0;
  for (const char c : text) {
    if (!std::isdigit(static_cast<unsigned char>(c))) {
      length = 0;
      continue;
    }
    if (length == 0 || length == 18) {
      made.push_back(0);
      length = 0;
    }
    made.back() = 10 * made.back() + static_cast<std::uint64_t>(c - '0');
    ++length;
  }
  return made;
}

template <class List>
std::string joined(const List& list, const char* between) {
  std::string made;
  for (const auto& item : list) made += (made.empty() ? "" : between) + std::to_string(item);
  return made;
}

bool exceeds(const Numbers& wanted, const std::array<std::uint32_t, 3>& had) {
  for (std::size_t i = 0; i < std::min(wanted.size(), had.size()); ++i)
    if (wanted[i] > had[i]) return true;
  return false;
}

std::string beyond(const std::string& key, const std::string& value, const VulkanDevice& device) {
  const Numbers numbers = numbers_of(value);
  if (numbers.empty()) return "";
  const std::string times = joined(numbers, " x ");
  if (key == "spirv" && numbers > device.spirv)
    return "SPIR-V " + value + " (the device takes " + joined(device.spirv, ".") + ")";
  if (key == "subgroup" && numbers[0] > device.smallest)  // larger ones are right: parts work as wholes
    return "subgroups of " + value + " (the device's are " + std::to_string(device.smallest) +
           (device.largest > device.smallest ? " to " + std::to_string(device.largest) : "") + ")";
  if (key == "threads" && numbers[0] > device.threads)
    return "workgroups of " + value + " threads (the device's have " + std::to_string(device.threads) + ")";
  if (key == "memory" && numbers[0] > device.memory)
    return value + " bytes of memory a workgroup (the device has " + std::to_string(device.memory) + ")";
  if (key == "sizes" && exceeds(numbers, device.sizes))
    return "workgroups of " + times + " threads (the device's: " + joined(device.sizes, " x ") + ")";
  if (key == "counts" && exceeds(numbers, device.counts))
    return times + " workgroups (the device takes " + joined(device.counts, " x ") + ")";
  return "";
}

}  // namespace

std::vector<std::string> missing_on(const VulkanDevice& device, const std::vector<std::string>& words) {
  std::vector<std::string> made;
  std::set<std::string> seen;
  std::string matrices;
  for (const std::string& word : words) {
    if (!seen.insert(word).second) continue;
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string key = word.substr(0, equals);
    const std::string value = equals == word.size() ? "" : word.substr(equals + 1);
    std::string lacking;
    if (const Json* name = features().at("vulkan").find(word)) {
      if (device.has.count(name->string()) == 0) lacking = name->string();
    } else if (key == "matrix") {
      if (!value.empty() && device.matrices.count(value) == 0) matrices += (matrices.empty() ? "" : " and ") + value;
    } else {
      lacking = beyond(key, value, device);
    }
    if (!lacking.empty()) made.push_back(lacking);
  }
  if (!matrices.empty()) made.push_back("cooperative matrices " + matrices);
  return made;
}

}  // namespace calque::artifact
