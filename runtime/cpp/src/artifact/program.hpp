// What is in a compiled module, read without IREE: a file may be damaged, or from anywhere.
// runtime/program.py says what is looked at.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "artifact/container.hpp"

namespace calque::artifact {

using Attributes = std::map<std::string, std::string, std::less<>>;

struct ProgramFunction {
  std::string name;
  std::shared_ptr<const Attributes> attributes;

  // An attribute's text, empty without one.
  std::string_view attribute(std::string_view name) const;
};

struct Program {
  std::vector<ProgramFunction> functions;  // exported ones
  std::vector<std::string> depends_on;     // modules that it calls
};

// What a module says, all of whose structure has been looked at; Error (artifact) otherwise.
Program read_program(Bytes part, const std::string& source);

}  // namespace calque::artifact
