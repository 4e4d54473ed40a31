// Words for messages.
#pragma once

#include <string>

#include "calque/module.hpp"

namespace calque::detail {

inline std::string describe(DType dtype, const Shape& shape) {
  std::string text = std::string(name_of(dtype)) + "[";
  for (std::size_t i = 0; i < shape.size(); ++i)
    text += (i == 0 ? "" : ",") + std::to_string(shape[i]);
  return text + "]";
}

inline std::string describe(const Shape& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

// "f; argument 0 is x".
inline std::string context(const Signature& signature, std::size_t position) {
  return signature.name + "; argument " + std::to_string(position) + " is " +
         signature.arguments[position].path;
}

}  // namespace calque::detail
