#include "calque/error.hpp"

namespace calque {

namespace {

std::string join(const std::string& what, const std::string& where, const std::string& fix) {
  std::string text = what;
  if (!where.empty()) text += "\n  In " + where + ".";
  if (!fix.empty()) text += "\n  Fix: " + fix;
  return text;
}

}  // namespace

const char* name_of(Code code) noexcept {
  static const char* const names[] = {
      "arity",       "dtype",         "shape",     "alignment", "deleted",         "device",
      "not_found",   "artifact",      "unavailable", "out_of_memory", "execution", "host",
      "invalid_argument"};
  return names[static_cast<int>(code)];
}

Error::Error(Code code, const std::string& what, const std::string& where, const std::string& fix)
    : std::runtime_error(join(what, where, fix)), code_(code), where_(where), fix_(fix) {}

Error::~Error() = default;

}  // namespace calque
