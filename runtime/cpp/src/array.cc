#include "calque/array.hpp"

#include <cmath>
#include <limits>

#include "impl.hpp"
#include "text.hpp"

namespace calque {

using detail::Access;
using detail::ArrayImpl;

namespace detail {

void raise_deleted(const ArrayImpl& array, const std::string& where) {
  throw Error(Code::deleted,
              "Array has been deleted with shape=" + describe(array.dtype, array.shape) + ".", where,
              "it was donated to a call or released; keep the result of that call instead.");
}

}  // namespace detail

namespace {

// Bytes of an array; Error (shape) where a size is negative or the number does not fit.
std::size_t bytes_of(DType dtype, const Shape& shape, const char* where) {
  std::size_t bytes = size_of(dtype);
  bool empty = false;
  for (std::int64_t size : shape) {
    if (size < 0)
      throw Error(Code::shape, "a size of " + detail::describe(dtype, shape) + " is negative.",
                  where, "give sizes of 0 or more.");
    empty = empty || size == 0;
  }
  if (empty) return 0;
  for (std::int64_t size : shape) {
    if (static_cast<std::size_t>(size) > PTRDIFF_MAX / bytes)
      throw Error(Code::shape, detail::describe(dtype, shape) + " is larger than any memory.",
                  where, "give the sizes of the array, not its strides.");
    bytes *= static_cast<std::size_t>(size);
  }
  return bytes;
}

void check_memory(const void* data, std::size_t bytes, DType dtype, const Shape& shape,
                  const char* where) {
  const std::size_t wanted = bytes_of(dtype, shape, where);
  if (bytes != wanted)
    throw Error(Code::shape,
                detail::describe(dtype, shape) + " has " + std::to_string(wanted) +
                    " bytes, the memory " + std::to_string(bytes) + ".",
                where, "give the shape and element type of the memory.");
  if (data == nullptr && bytes != 0)
    throw Error(Code::invalid_argument, "the memory is a null pointer.", where,
                "give the address of the first element.");
}

Array array_of(backend::Buffer buffer, DType dtype, const Shape& shape, const Device& device) {
  auto made = std::make_shared<ArrayImpl>();
  made->buffer = std::move(buffer);
  made->dtype = dtype;
  made->shape = shape;
  made->device = device;
  return Access::handle<Array>(std::move(made));
}

const ArrayImpl& alive(const std::shared_ptr<ArrayImpl>& impl, const char* where) {
  if (impl == nullptr)
    throw Error(Code::invalid_argument, "the Array is empty (default-made).", where,
                "assign an array to it first.");
  if (impl->claim.is_taken()) detail::raise_deleted(*impl, where);
  return *impl;
}

const ArrayImpl& made(const std::shared_ptr<ArrayImpl>& impl, const char* where) {
  if (impl != nullptr) return *impl;
  throw Error(Code::invalid_argument, "the Array is empty (default-made).", where,
              "assign an array to it first.");
}

bool note_ready(ArrayImpl& array, bool ready) {
  if (ready) array.ready.store(true, std::memory_order_release);
  return ready;
}

}  // namespace

Array Array::copy_bytes(const void* data, std::size_t bytes, DType dtype, const Shape& shape,
                        const Device& device) {
  check_memory(data, bytes, dtype, shape, "Array::from_host");
  return array_of(backend::copied(data, bytes, dtype, shape, device), dtype, shape, device);
}

Array Array::wrap_bytes(const void* data, std::size_t bytes, DType dtype, const Shape& shape,
                        std::shared_ptr<const void> keep, const Device& device) {
  check_memory(data, bytes, dtype, shape, "Array::wrap");
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  if (address % alignment != 0)
    throw Error(Code::alignment,
                "the memory is aligned to " + std::to_string(address & (~address + 1)) +
                    " bytes; generated code needs " + std::to_string(alignment) + ".",
                "Array::wrap",
                "allocate it with std::aligned_alloc(64, ...), or copy it: Array::from_host.");
  return array_of(backend::wrapped(data, bytes, dtype, shape, std::move(keep), device), dtype, shape,
                  device);
}

DType Array::dtype() const { return made(impl_, "Array::dtype").dtype; }
const Shape& Array::shape() const { return made(impl_, "Array::shape").shape; }
const Device& Array::device() const { return made(impl_, "Array::device").device; }
std::size_t Array::nbytes() const { return size() * size_of(dtype()); }
std::string Array::describe() const { return detail::describe(dtype(), shape()); }

std::size_t Array::size() const {
  std::size_t size = 1;
  for (std::int64_t extent : shape()) size *= static_cast<std::size_t>(extent);
  return size;
}

bool Array::is_ready() const {
  alive(impl_, "Array::is_ready");
  if (impl_->ready.load(std::memory_order_acquire)) return true;
  return note_ready(*impl_, backend::is_ready(*impl_));
}

bool Array::wait_seconds(double seconds) const {
  alive(impl_, "Array::wait_for");
  if (impl_->ready.load(std::memory_order_acquire)) return true;
  // 0 looks only.
  return note_ready(*impl_, backend::wait(*impl_, std::isnan(seconds) || seconds < 0 ? 0 : seconds));
}

void Array::block_until_ready() const {
  wait_seconds(std::numeric_limits<double>::infinity());
}

const void* Array::read(DType wanted, std::shared_ptr<void>& hold) const {
  const ArrayImpl& array = alive(impl_, "Array::view");
  if (array.dtype != wanted)
    throw Error(Code::dtype,
                "the array is " + describe() + ", not of " + name_of(wanted) + ".", "Array::view",
                std::string("read it as ") + name_of(array.dtype) + ", or convert it in the program.");
  block_until_ready();
  struct Sharing {  // nobody takes the array over between the wait and the view
    detail::Claim& claim;
    ~Sharing() { claim.unshare(); }
  };
  if (!impl_->claim.share()) detail::raise_deleted(array, "Array::view");
  const Sharing sharing{impl_->claim};
  const Span<const std::uint8_t> bytes = backend::view(*impl_, hold);
  if (bytes.size() != nbytes())
    throw Error(Code::artifact,
                describe() + " has " + std::to_string(nbytes()) + " bytes, its memory " +
                    std::to_string(bytes.size()) + ".",
                "Array::view", "compile the artifact again; its description is wrong.");
  return bytes.empty() ? nullptr : bytes.data();
}

void Array::require_size(std::size_t size) const {
  if (size != this->size())
    throw Error(Code::shape,
                describe() + " has " + std::to_string(this->size()) + " elements, not " +
                    std::to_string(size) + ".",
                "reading an Array", "give memory for all of them.");
}

bool Array::is_deleted() const { return made(impl_, "Array::is_deleted").claim.is_taken(); }

void Array::release() {
  if (impl_ != nullptr && impl_->claim.take()) backend::drop(*impl_);
}

}  // namespace calque
