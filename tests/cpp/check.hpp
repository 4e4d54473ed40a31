// What the test programs share: checks that print where they fail, and errors caught whole.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "calque/runtime.hpp"

#define CHECK(condition)                                                       \
  do {                                                                         \
    if (!(condition)) {                                                        \
      std::fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                            \
    }                                                                          \
  } while (0)

// Does `body` raise an Error of this code whose message has all these texts?
template <class Body>
void check_error(const char* file, int line, calque::Code code,
                 const std::vector<std::string>& texts, Body body) {
  try {
    body();
  } catch (const calque::Error& error) {
    bool right = error.code() == code;
    for (const std::string& text : texts)
      right = right && std::string(error.what()).find(text) != std::string::npos;
    if (right) return;
    std::fprintf(stderr, "%s:%d: another error (%s, wanted %s): %s\n", file, line,
                 name_of(error.code()), name_of(code), error.what());
    std::exit(1);
  }
  std::fprintf(stderr, "%s:%d: no error\n", file, line);
  std::exit(1);
}
#define CHECK_ERROR(code, texts, body) \
  check_error(__FILE__, __LINE__, calque::Code::code, std::vector<std::string> texts, [&] { body; })

// The folder of the artifacts: the program's first argument, kept by `main`.
inline std::string& artifacts() {
  static std::string folder;
  return folder;
}

inline std::string path_of(const std::string& name) { return artifacts() + "/" + name + ".vmfb"; }

inline calque::Module load(const std::string& name, const char* device = "cpu") {
  return calque::Module::load(path_of(name), calque::Device::open(device));
}

inline std::vector<std::uint8_t> bytes_of(const std::string& name) {
  std::ifstream file(path_of(name), std::ios::binary);
  CHECK(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}
