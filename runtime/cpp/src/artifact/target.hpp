// Can this machine run what was compiled?  runtime/aot.py (check_target) asks the same.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "artifact/record.hpp"

namespace calque::artifact {

// Error (artifact) if code for `target` cannot run on a device of that name and platform.
void check_target(const Target& target, const std::string& device, const std::string& platform,
                  const std::string& source);

// Of several forms of one function, the one to run on a device: the one that asks most of it.
// Error (artifact) if none can.
std::size_t choose(const std::vector<const Record*>& forms, const std::string& device,
                   const std::string& platform, const std::string& source);

// Features that generated code may use and the CPU lacks (none where the CPU is unknown).
std::vector<std::string> missing_features(const std::vector<std::string>& needed,
                                          const std::set<std::string>& present);

// The CPU's features as the Linux kernel names them; empty where they cannot be read.
const std::set<std::string>& cpu_flags();

}  // namespace calque::artifact
