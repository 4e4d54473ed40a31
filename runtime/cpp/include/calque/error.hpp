// Errors: one class with a code, and a message in three parts (what, where, how to mend it).
#pragma once

#include <stdexcept>
#include <string>

#include "calque/export.hpp"

namespace calque {

// What went wrong, for programs; `Error::what()` says it to people.
enum class Code {
  arity,             // another number of arguments than the function's record says
  dtype,             // an element type other than the record's, or than the one asked for
  shape,             // sizes that do not fit the record, or a host span of another length
  alignment,         // memory to be wrapped is not aligned to Array::alignment bytes
  deleted,           // an array was donated to a call or deleted
  device,            // an array lives on another device than the function
  not_found,         // no such function in the module
  artifact,          // a file cannot be loaded here: damaged, foreign, of another target or version
  unavailable,       // no such device, or its driver is missing
  out_of_memory,     // the device has no memory left
  execution,         // a program failed while it ran (possibly one earlier in a chain)
  host,              // the hosted interpreter or its packages cannot be used
  invalid_argument,  // anything else that the caller can mend
};

// The name of a code: "arity", "dtype", ...
CALQUE_API const char* name_of(Code code) noexcept;

class CALQUE_API Error : public std::runtime_error {
 public:
  // `what` and `fix` are sentences, `where` names the function and the argument; either may be empty.
  Error(Code code, const std::string& what, const std::string& where = "",
        const std::string& fix = "");
  ~Error() override;

  Code code() const noexcept { return code_; }
  const std::string& where() const noexcept { return where_; }
  const std::string& fix() const noexcept { return fix_; }

 private:
  Code code_;
  std::string where_, fix_;
};

}  // namespace calque
