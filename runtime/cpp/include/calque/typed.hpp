// Typed: an Array whose element type and sizes the compiler knows; headers that `calque header` makes use it.
#pragma once

#include <array>
#include <complex>
#include <string>

#include "calque/array.hpp"

namespace calque {

// An array of T with these sizes, -1 for one that is known at run time only.
template <class T, std::int64_t... sizes>
class Typed {
 public:
  static constexpr std::size_t rank = sizeof...(sizes);

  Typed() = default;
  // Error (dtype, shape) where the array is of another type.
  Typed(Array array) : array_(std::move(array)) {  // NOLINT: what it means is in the type
    constexpr std::array<std::int64_t, rank> wanted = {sizes...};
    bool fits = array_.shape().size() == rank;
    for (std::size_t i = 0; fits && i < rank; ++i) fits = wanted[i] < 0 || array_.shape()[i] == wanted[i];
    if (array_.dtype() != dtype_of<T>::value)
      throw Error(Code::dtype, array_.describe() + " is given where " + describe() + " is wanted.", "Typed",
                  std::string("make it of ") + name_of(dtype_of<T>::value) + " elements.");
    if (!fits)
      throw Error(Code::shape, array_.describe() + " is given where " + describe() + " is wanted.", "Typed",
                  "give an array of that shape.");
  }
  // A copy of host memory, whose sizes are all known.
  static Typed from_host(Span<const T> values, const Device& device = Device::open()) {
    static_assert(((sizes >= 0) && ...), "a size is known at run time only: Array::from_host(values, shape)");
    return Typed(Array::from_host(values, Shape{sizes...}, device));
  }
  Typed(T value) : Typed(Array::scalar(value)) {  // NOLINT
    static_assert(rank == 0, "only an array of rank 0 is made of a value");
  }

  operator const Array&() const { return array_; }
  const Array& array() const { return array_; }
  View<T> view() const { return array_.template view<T>(); }
  T item() const { return array_.template item<T>(); }

  static std::string describe() {
    std::string text;
    for (const std::int64_t size : std::array<std::int64_t, rank>{sizes...})
      text += (text.empty() ? "" : ",") + (size < 0 ? "?" : std::to_string(size));
    return std::string(name_of(dtype_of<T>::value)) + "[" + text + "]";
  }

 private:
  Array array_;
};

}  // namespace calque
