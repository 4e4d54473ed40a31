#include "artifact/cuda.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>
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

// A number of one to four digits at the front of a text, which it leaves; -1 where there is none.
int number(std::string_view& text) {
  std::size_t digits = 0;
  int value = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9' && digits < 5)
    value = 10 * value + (text[digits++] - '0');
  text.remove_prefix(digits);
  return digits == 0 || digits == 5 ? -1 : value;
}

// What ptx=MAJOR.MINOR asks for; any other word asks for nothing.
Version asked_by(std::string_view word) {
  constexpr std::string_view head = "ptx=";
  if (word.substr(0, head.size()) != head) return {0, 0};
  word.remove_prefix(head.size());
  const int major = number(word);
  if (major < 0 || word.empty() || word[0] != '.') return {0, 0};
  word.remove_prefix(1);
  const int minor = number(word);
  return minor < 0 || !word.empty() ? Version{0, 0} : Version{major, minor};
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

std::uint64_t cuda_memory(std::size_t index) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return 0;
  const auto start = reinterpret_cast<int (*)(unsigned)>(dlsym(library, "cuInit"));
  const auto find = reinterpret_cast<int (*)(int*, int)>(dlsym(library, "cuDeviceGet"));
  const auto ask = reinterpret_cast<int (*)(std::size_t*, int)>(dlsym(library, "cuDeviceTotalMem_v2"));
  int card = 0;
  std::size_t bytes = 0;
  if (start == nullptr || find == nullptr || ask == nullptr || start(0) != 0 ||
      find(&card, static_cast<int>(index)) != 0 || ask(&bytes, card) != 0)
    return 0;
  return bytes;
}

std::string missing_ptx(const std::vector<std::string>& words, int driver) {
  if (driver == 0) return "";
  const Version there{driver / 1000, driver % 1000 / 10};
  if (there > kPtx.rbegin()->first) return "";  // newer than what is known here
  Version most{6, 5}, asked{0, 0};
  const auto above = kPtx.upper_bound(there);
  if (above != kPtx.begin()) most = std::prev(above)->second;
  for (const std::string& word : words) asked = std::max(asked, asked_by(word));
  if (asked <= most) return "";
  return "PTX " + dotted(asked) + " (the driver, of CUDA " + dotted(there) + ", reads up to " +
         dotted(most) + ")";
}

}  // namespace calque::artifact
