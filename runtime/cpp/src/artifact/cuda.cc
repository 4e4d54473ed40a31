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

// What ptx=MAJOR.MINOR (the head: ptx=) asks for; any other word asks for nothing.
Version asked_by(std::string_view word, std::string_view head) {
  if (word.substr(0, head.size()) != head) return {0, 0};
  word.remove_prefix(head.size());
  const int major = number(word);
  if (major < 0 || word.empty() || word[0] != '.') return {0, 0};
  word.remove_prefix(1);
  const int minor = number(word);
  return minor < 0 || !word.empty() ? Version{0, 0} : Version{major, minor};
}

// A function of the driver's, or null.
template <class Function>
Function* found(const char* name) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return library == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library, name));
}

// The driver's number of its index-th card; -1 where there is none.
int card_of(std::size_t index) {
  auto* const start = found<int(unsigned)>("cuInit");
  auto* const find = found<int(int*, int)>("cuDeviceGet");
  int card = 0;
  const bool there = start != nullptr && find != nullptr && start(0) == 0 &&
                     find(&card, static_cast<int>(index)) == 0;
  return there ? card : -1;
}

}  // namespace

int cuda_driver() {
  static const int version = [] {
    auto* const ask = found<int(int*)>("cuDriverGetVersion");
    int number = 0;
    return ask != nullptr && ask(&number) == 0 ? number : 0;
  }();
  return version;
}

std::uint64_t cuda_memory(std::size_t index) {
  auto* const ask = found<int(std::size_t*, int)>("cuDeviceTotalMem_v2");
  const int card = card_of(index);
  std::size_t bytes = 0;
  return ask != nullptr && card >= 0 && ask(&bytes, card) == 0 ? bytes : 0;
}

int cuda_capability(std::size_t index) {
  constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_...
  auto* const ask = found<int(int*, int, int)>("cuDeviceGetAttribute");
  const int card = card_of(index);
  int major = 0, minor = 0;
  const bool known = ask != nullptr && card >= 0 && ask(&major, kMajor, card) == 0 &&
                     ask(&minor, kMinor, card) == 0;
  return known ? 10 * major + minor : 0;
}

int capability_of(const std::vector<std::string>& words) {
  Version most{0, 0};
  for (const std::string& word : words) most = std::max(most, asked_by(word, "sm="));
  return 10 * most.first + most.second;
}

std::string missing_on_cuda(const std::vector<std::string>& words, int driver, int capability) {
  Version most{6, 5}, ptx{0, 0}, sm{0, 0};
  for (const std::string& word : words) {
    ptx = std::max(ptx, asked_by(word, "ptx="));
    sm = std::max(sm, asked_by(word, "sm="));
  }
  std::string made;
  const Version there{driver / 1000, driver % 1000 / 10}, card{capability / 10, capability % 10};
  const auto above = kPtx.upper_bound(there);
  if (above != kPtx.begin()) most = std::prev(above)->second;
  if (driver != 0 && there <= kPtx.rbegin()->first && ptx > most)  // (a newer one than is known reads all)
    made = "PTX " + dotted(ptx) + " (the driver, of CUDA " + dotted(there) + ", reads up to " +
           dotted(most) + ")";
  if (capability != 0 && sm > card)
    made += (made.empty() ? "" : ", ") + ("compute capability " + dotted(sm)) + " (the card has " +
            dotted(card) + ")";
  return made;
}

}  // namespace calque::artifact
