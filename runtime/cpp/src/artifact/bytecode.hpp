// The code that IREE's virtual machine runs for a module, walked once: does it stay inside?
// runtime/bytecode.py says what is looked at; what is wrong is Unreadable.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "artifact/container.hpp"

namespace calque::artifact {

// Where a function's code is, and how many registers it has of numbers and of references.
struct CodeOfFunction {
  std::size_t start, size, numbers, references;
};

struct Bytecode {
  std::uint32_t version = 0;
  Bytes data;
  std::vector<CodeOfFunction> functions;
  std::vector<std::string_view> signatures, imports;  // "0rr_r"
  std::size_t types = 0, variables = 0;               // of references; bytes
};

void check_code(const Bytecode& code);

}  // namespace calque::artifact
