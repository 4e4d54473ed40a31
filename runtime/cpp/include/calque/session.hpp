// Session: the state of a module beside its program, by name.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "calque/module.hpp"

namespace calque {

// The state of an artifact of an `aot.Module`, and calls of its functions with it.  It holds the leaves of
// the state, passes them, and takes what comes back: leaves that a function writes are donated, no call
// copies them.  Several sessions of one Module share its program and its parameters.  Copies mean the same
// session; one thread at a time calls or changes it, others wait.
class CALQUE_API Session {
 public:
  // A state as the module had it when it was compiled.  Error (artifact) where the module has none.
  explicit Session(const Module& module);

  // Call a function with its own arguments; its own results come back and may be pending.  Error before
  // anything runs where they are not those that it takes; the state stays as it was.
  std::vector<Array> call(std::string_view function, Span<const Array> arguments);

  template <class... A>
  std::vector<Array> operator()(std::string_view function, const A&... arguments) {
    static_assert((std::is_convertible_v<const A&, const Array&> && ...),
                  "arguments are calque::Array; make one with Array::from_host or Array::scalar");
    const Array list[] = {static_cast<const Array&>(arguments)..., Array()};
    return call(function, Span<const Array>(list, sizeof...(A)));
  }

  // The leaves: `path` is the name, such as cache['k'].
  const std::vector<Parameter>& leaves() const;

  // A copy of a leaf, waited for; Error (not_found) names those that there are.
  Array read(std::string_view name) const;
  // Set a leaf to a copy of an array of its type.
  void write(std::string_view name, const Array& value);

  // The whole state as a .safetensors file, each leaf under its name; it takes the place of an older file
  // at once.  `restore` reads that, or what Python's sessions have saved (.safetensors, .irpa): all of it,
  // or nothing where something is wrong.
  void save(const std::string& path) const;
  void restore(const std::string& path);

  const Module& module() const;

 private:
  std::shared_ptr<detail::SessionImpl> impl_;
};

}  // namespace calque
