// Module and Function: a loaded artifact and what can be called in it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "calque/array.hpp"

namespace calque {

// A size of an axis: a number, or a name or an expression of names, "b", "2*b + 1" (then `size` is -1),
// whose value is found at the call.
struct Dim {
  std::int64_t size = -1;
  std::string name;
  bool is_dynamic() const { return !name.empty(); }
};

// What an artifact's record says of one argument or result.
struct CALQUE_API Parameter {
  std::string path;  // where it stands in the function's arguments: params['w']
  DType dtype = DType::float32;
  std::vector<Dim> shape;
  bool donated = false;  // an argument that the call takes over: it is deleted afterwards
  std::string state;     // the leaf of a module's state that it is, empty for others: session.hpp

  std::string describe() const;  // "float32[b,128]"
};

struct CALQUE_API Signature {
  std::string name;
  std::vector<Parameter> arguments, results;
  std::string target;  // "cpu:x86-64-v3"
  std::string record;  // the whole record, JSON
  bool is_initial_state = false;  // it gives the state as a session begins with it

  std::string describe() const;  // "f(x: float32[b,8]) -> float32[b]"
};

// A function of a module; copies are cheap and keep the module alive.  Calls may come from any
// thread, several at once.
class CALQUE_API Function {
 public:
  const Signature& signature() const;

  // Call it.  The arguments are checked against the record first.  The results come back at once and
  // may be pending; they can be passed on without waiting.  Donated arguments are deleted, their
  // memory taken for results where nobody else looks at it.
  std::vector<Array> call(Span<const Array> arguments) const;

  template <class... A>
  std::vector<Array> operator()(const A&... arguments) const {
    static_assert((std::is_convertible_v<const A&, const Array&> && ...),
                  "arguments are calque::Array; make one with Array::from_host or Array::scalar");
    const Array list[] = {static_cast<const Array&>(arguments)..., Array()};
    return call(Span<const Array>(list, sizeof...(A)));
  }

 private:
  friend struct detail::Access;
  std::shared_ptr<const detail::FunctionImpl> impl_;
};

class CALQUE_API Module {
 public:
  // A file made by `calque compile`, or its bytes.  Raises Error (artifact) where it is damaged, of
  // another kind, or compiled for what this machine and device are not.  `parameters` is the archive
  // (.irpa, .safetensors) of an artifact with weights beside its file; for a file the default is the
  // .irpa file beside it.
  static Module load(const std::string& path, const Device& device = Device::open(),
                     const std::string& parameters = "");
  static Module load(Span<const std::uint8_t> bytes, const Device& device = Device::open(),
                     const std::string& parameters = "");

  const std::vector<Signature>& functions() const;
  // A function by name; Error (not_found) names those that there are.
  Function function(std::string_view name) const;
  Function operator[](std::string_view name) const { return function(name); }

 private:
  friend struct detail::Access;
  std::shared_ptr<const detail::ModuleImpl> impl_;
};

}  // namespace calque
