// Device and Array: where values live, and values that may still be on their way.
#pragma once

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "calque/dtype.hpp"
#include "calque/error.hpp"

namespace calque {

namespace detail {
struct ArrayImpl;
struct DeviceImpl;
struct ModuleImpl;
struct FunctionImpl;
struct SessionImpl;
struct Access;
}  // namespace detail

using Shape = std::vector<std::int64_t>;

// A pointer and a number of elements (std::span of C++20).
template <class T>
class Span {
 public:
  constexpr Span() = default;
  constexpr Span(T* data, std::size_t size) : data_(data), size_(size) {}
  // From anything with data() and size(): vector, array, string_view.
  template <class C, class = std::enable_if_t<
                         std::is_convertible_v<decltype(std::declval<C&>().data()), T*>>>
  constexpr Span(C&& container) : data_(container.data()), size_(container.size()) {}

  constexpr T* data() const { return data_; }
  constexpr std::size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr T* begin() const { return data_; }
  constexpr T* end() const { return data_ + size_; }
  constexpr T& operator[](std::size_t i) const { return data_[i]; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

// A device.  Devices live as long as the process; copies mean the same one.
class CALQUE_API Device {
 public:
  // "cpu", "cuda" (or "gpu"), "vulkan", each with a number if there are several: "cuda:1",
  // "cuda://1".  Raises Error (unavailable) if there is none.
  static Device open(std::string_view uri = "cpu");

  const std::string& name() const;      // "cpu:0"
  const std::string& platform() const;  // "cpu", "cuda", "vulkan"
  friend bool operator==(const Device& a, const Device& b) { return a.name() == b.name(); }
  friend bool operator!=(const Device& a, const Device& b) { return !(a == b); }

 private:
  friend struct detail::Access;
  std::shared_ptr<const detail::DeviceImpl> impl_;
};

// A look at the memory of an array on the host.  While a view lives, the memory stays as it is: a
// donation of the array then works on a copy.
template <class T>
class View : public Span<const T> {
 public:
  View(const T* data, std::size_t size, std::shared_ptr<void> hold)
      : Span<const T>(data, size), hold_(std::move(hold)) {}

 private:
  std::shared_ptr<void> hold_;
};

// An immutable array, and the future of its value.  Copies are cheap and mean the same array.
// All methods may be called from any thread.  A default-made Array is empty: only assign to it.
class CALQUE_API Array {
 public:
  static constexpr std::size_t alignment = 64;  // of memory that is wrapped

  Array() = default;

  // A copy of host memory, in C order; `data` may change as soon as this returns.
  template <class T>
  static Array from_host(Span<const T> data, const Shape& shape,
                         const Device& device = Device::open()) {
    return copy_bytes(data.data(), data.size() * sizeof(T), dtype_of<T>::value, shape, device);
  }
  template <class T>
  static Array from_host(const std::vector<T>& data, const Shape& shape,
                         const Device& device = Device::open()) {
    return from_host(Span<const T>(data), shape, device);
  }
  template <class T>
  static Array scalar(T value, const Device& device = Device::open()) {
    return from_host(Span<const T>(&value, 1), {}, device);
  }
  // Host memory itself, without a copy: aligned to `alignment` bytes, not written to while the array
  // or a call that reads it lives.  `keep` is held until then (it may be null for memory that lives
  // for ever) and let go of on any thread.  Such memory is never overwritten by donation.  Where the
  // device's memory is not the host's, this copies.
  template <class T>
  static Array wrap(Span<T> data, const Shape& shape, std::shared_ptr<const void> keep,
                    const Device& device = Device::open()) {
    using Element = std::remove_const_t<T>;
    return wrap_bytes(data.data(), data.size() * sizeof(T), dtype_of<Element>::value, shape,
                      std::move(keep), device);
  }
  // The same for a type known at run time only; `bytes` must be what the shape needs.
  static Array copy_bytes(const void* data, std::size_t bytes, DType dtype, const Shape& shape,
                          const Device& device = Device::open());
  static Array wrap_bytes(const void* data, std::size_t bytes, DType dtype, const Shape& shape,
                          std::shared_ptr<const void> keep,
                          const Device& device = Device::open());

  DType dtype() const;
  const Shape& shape() const;
  std::size_t size() const;    // elements
  std::size_t nbytes() const;
  const Device& device() const;
  std::string describe() const;  // "float32[8,128]"

  // Is the value there?  False also for one whose program failed: waiting tells.
  bool is_ready() const;
  // Wait for the value; Error (execution) if its program, or one before it, failed.
  void block_until_ready() const;
  // Wait no longer than `time`; false if the value is not there then.
  template <class Rep, class Period>
  bool wait_for(std::chrono::duration<Rep, Period> time) const {
    return wait_seconds(std::chrono::duration<double>(time).count());
  }

  // The value, waited for: without a copy, into memory of the caller's, or as a vector.
  template <class T>
  View<T> view() const {
    std::shared_ptr<void> hold;
    const void* data = read(dtype_of<T>::value, hold);
    return View<T>(static_cast<const T*>(data), size(), std::move(hold));
  }
  template <class T>
  void to_host(Span<T> target) const {
    View<T> source = view<T>();
    require_size(target.size());
    if (!source.empty()) std::memcpy(target.data(), source.data(), source.size() * sizeof(T));
  }
  template <class T>
  std::vector<T> to_vector() const {
    static_assert(!std::is_same_v<T, bool>, "std::vector<bool> holds no bools: use view<bool>()");
    View<T> source = view<T>();
    return std::vector<T>(source.begin(), source.end());
  }
  // The value of an array with one element.
  template <class T>
  T item() const {
    require_size(1);
    return view<T>()[0];
  }

  bool is_deleted() const;
  // Give the memory up now (calls that still read it finish first).
  void release();

 private:
  friend struct detail::Access;
  bool wait_seconds(double seconds) const;
  const void* read(DType dtype, std::shared_ptr<void>& hold) const;
  void require_size(std::size_t size) const;
  std::shared_ptr<detail::ArrayImpl> impl_;
};

}  // namespace calque
