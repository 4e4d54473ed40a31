#include "calque/array.hpp"

#include <cmath>
#include <limits>

#include "impl.hpp"
#include "text.hpp"

namespace calque {

using detail::Access;
using detail::ArrayImpl;

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

python::Ref shape_tuple(const Shape& shape) {
  python::Ref tuple(PyTuple_New(static_cast<Py_ssize_t>(shape.size())));
  for (std::size_t i = 0; tuple && i < shape.size(); ++i) {
    PyObject* size = PyLong_FromLongLong(shape[i]);
    if (size == nullptr) return {};
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), size);
  }
  return tuple;
}

Array from_memory(const void* data, std::size_t bytes, DType dtype, const Shape& shape,
                  std::shared_ptr<const void> keep, const Device& device, bool copy,
                  const char* where) {
  const python::Hosting& hosting = python::hosting();
  python::Lock lock;
  python::Ref memory = bytes != 0 ? python::memory_object(data, bytes, std::move(keep))
                                  : python::Ref(Py_NewRef(Py_None));
  python::Ref sizes = shape_tuple(shape);
  python::Ref type(PyLong_FromLong(static_cast<int>(dtype)));
  if (!sizes || !type) python::raise_pending(where);
  PyObject* arguments[] = {memory.get(), sizes.get(), type.get(),
                           Access::impl(device)->object.get(), copy ? Py_True : Py_False};
  auto made = std::make_shared<ArrayImpl>();
  made->buffer = python::checked(
      PyObject_Vectorcall(hosting.from_memory, arguments, 5, nullptr), where);
  made->dtype = dtype;
  made->shape = shape;
  made->device = device;
  return Access::handle<Array>(std::move(made));
}

[[noreturn]] void raise_deleted(const ArrayImpl& array, const char* where) {
  throw Error(Code::deleted,
              "Array has been deleted with shape=" + detail::describe(array.dtype, array.shape) + ".",
              where,
              "it was donated to a call or released; keep the result of that call instead.");
}

const ArrayImpl& alive(const std::shared_ptr<ArrayImpl>& impl, const char* where) {
  if (impl == nullptr)
    throw Error(Code::invalid_argument, "the Array is empty (default-made).", where,
                "assign an array to it first.");
  if (impl->claim.is_taken()) raise_deleted(*impl, where);
  return *impl;
}

const ArrayImpl& made(const std::shared_ptr<ArrayImpl>& impl, const char* where) {
  if (impl != nullptr) return *impl;
  throw Error(Code::invalid_argument, "the Array is empty (default-made).", where,
              "assign an array to it first.");
}

// What a method of a Buffer without arguments says: yes or no.  Under the lock.
bool ask(const ArrayImpl& array, const char* method) {
  const python::Ref answer =
      python::checked(PyObject_CallMethod(array.buffer.get(), method, nullptr), method);
  return answer.get() == Py_True;
}

// Is the value known to be there?  Under the lock.  (Cheaper than asking the Buffer.)
bool has_no_fence(const ArrayImpl& array) {
  static PyObject* name = PyUnicode_InternFromString("fence");
  return python::checked(PyObject_GetAttr(array.buffer.get(), name), "fence").get() == Py_None;
}

bool note_ready(ArrayImpl& array, bool ready) {
  if (ready) array.ready.store(true, std::memory_order_release);
  return ready;
}

// A buffer of Python's, given back under the lock.
struct Held {
  Py_buffer view{};
  python::Ref object;
  ~Held() {
    if (view.obj == nullptr || !python::is_alive()) return;
    python::Lock lock;
    PyBuffer_Release(&view);
  }
};

}  // namespace

Array Array::copy_bytes(const void* data, std::size_t bytes, DType dtype, const Shape& shape,
                        const Device& device) {
  check_memory(data, bytes, dtype, shape, "Array::from_host");
  return from_memory(data, bytes, dtype, shape, nullptr, device, true, "Array::from_host");
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
  return from_memory(data, bytes, dtype, shape, std::move(keep), device, false, "Array::wrap");
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
  python::hosting();
  python::Lock lock;
  return note_ready(*impl_, ask(*impl_, "is_ready"));
}

bool Array::wait_seconds(double seconds) const {
  alive(impl_, "Array::wait_for");
  if (impl_->ready.load(std::memory_order_acquire)) return true;
  const python::Hosting& hosting = python::hosting();
  python::Lock lock;
  if (has_no_fence(*impl_)) return note_ready(*impl_, true);
  // Of Python, a negative time means for ever: 0 looks only.
  const double limit = std::isnan(seconds) || seconds < 0 ? 0 : seconds;
  python::Ref time = python::checked(PyFloat_FromDouble(limit), "Array::wait_for");
  PyObject* arguments[] = {impl_->buffer.get(), time.get()};
  const python::Ref answer = python::checked(
      PyObject_Vectorcall(hosting.wait, arguments, 2, nullptr), "Array::wait_for");
  return note_ready(*impl_, answer.get() == Py_True);
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
  if (!impl_->claim.share()) raise_deleted(array, "Array::view");
  const Sharing sharing{impl_->claim};
  const python::Hosting& hosting = python::hosting();
  python::Lock lock;
  auto held = std::make_shared<Held>();
  held->object =
      python::checked(PyObject_CallOneArg(hosting.view, array.buffer.get()), "Array::view");
  if (held->object.get() == Py_None) return nullptr;
  if (PyObject_GetBuffer(held->object.get(), &held->view, PyBUF_SIMPLE) != 0)
    python::raise_pending("Array::view");
  if (static_cast<std::size_t>(held->view.len) != nbytes())
    throw Error(Code::artifact,
                describe() + " has " + std::to_string(nbytes()) + " bytes, its memory " +
                    std::to_string(held->view.len) + ".",
                "Array::view", "compile the artifact again; its description is wrong.");
  const void* data = held->view.buf;
  hold = std::move(held);
  return data;
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
  if (impl_ == nullptr || !impl_->claim.take()) return;
  if (!python::is_alive()) return;
  python::Lock lock;
  static PyObject* name = PyUnicode_InternFromString("delete");
  python::checked(PyObject_CallMethodNoArgs(impl_->buffer.get(), name), "Array::release");
}

}  // namespace calque
