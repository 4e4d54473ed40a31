#include "artifact/cuda.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <regex>
#include <utility>

namespace calque::artifact {

namespace {

using Version = std::pair<int, int>;

// CUDA -> PTX: the table of runtime/cuda.py; tests/cpp/test_cpp.py compares the answers.
const std::map<Version, Version> kPtx = {
    {{11, 0}, {7, 0}}, {{11, 1}, {7, 1}}, {{11, 2}, {7, 2}}, {{11, 3}, {7, 3}}, {{11, 4}, {7, 4}},
    {{11, 5}, {7, 5}}, {{11, 6}, {7, 6}}, {{11, 7}, {7, 7}}, {{11, 8}, {7, 8}}, {{12, 0}, {8, 0}},
    {{12, 1}, {8, 1}}, {{12, 2}, {8, 2}}, {{12, 3}, {8, 3}}, {{12, 4}, {8, 4}}, {{12, 5}, {8, 5}},
    {{12, 6}, {8, 5}}, {{12, 7}, {8, 6}}, {{12, 8}, {8, 7}}, {{12, 9}, {8, 8}}, {{13, 0}, {9, 0}}};

std::string dotted(Version version) {
  return std::to_string(version.first) + "." + std::to_string(version.second);
}

}  // namespace

int cuda_driver() {
  static const int version = [] {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return 0;
    const auto ask = reinterpret_cast<int (*)(int*)>(dlsym(library, "cuDriverGetVersion"));
    int found = 0;
    return ask != nullptr && ask(&found) == 0 ? found : 0;
  }();
  return version;
}

std::string missing_ptx(const std::vector<std::string>& words, int driver) {
  if (driver == 0) return "";
  const Version there{driver / 1000, driver % 1000 / 10};
  if (there > kPtx.rbegin()->first) return "";  // newer than what is known here
  Version most{6, 5}, asked{0, 0};
  const auto above = kPtx.upper_bound(there);
  if (above != kPtx.begin()) most = std::prev(above)->second;
  static const std::regex pattern("ptx=([0-9]{1,4})\\.([0-9]{1,4})");
  for (const std::string& word : words) {
    std::smatch found;
    if (std::regex_match(word, found, pattern))
      asked = std::max(asked, Version{std::stoi(found[1]), std::stoi(found[2])});
  }
  if (asked <= most) return "";
  return "PTX " + dotted(asked) + " (the driver, of CUDA " + dotted(there) + ", reads up to " +
         dotted(most) + ")";
}

}  // namespace calque::artifact
