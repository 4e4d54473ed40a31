#include "impl.hpp"

namespace calque::backend {

using detail::Access;
using detail::ArrayImpl;
using detail::FunctionImpl;

namespace {

python::Ref path_text(const std::string& path) {
  return python::checked(
      PyUnicode_DecodeFSDefaultAndSize(path.data(), static_cast<Py_ssize_t>(path.size())), path);
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

Shape shape_of(PyObject* tuple) {
  Shape shape(static_cast<std::size_t>(PyTuple_GET_SIZE(tuple)));
  for (std::size_t i = 0; i < shape.size(); ++i)
    shape[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, static_cast<Py_ssize_t>(i)));
  return shape;
}

Buffer from_memory(const void* data, std::size_t bytes, DType dtype, const Shape& shape,
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
                           Access::impl(device)->state.object.get(), copy ? Py_True : Py_False};
  return {python::checked(PyObject_Vectorcall(hosting.from_memory, arguments, 5, nullptr), where)};
}

// What a method of a Buffer without arguments says: yes or no.  Under the lock.
bool ask(const ArrayImpl& array, const char* method) {
  const python::Ref answer =
      python::checked(PyObject_CallMethod(array.buffer.object.get(), method, nullptr), method);
  return answer.get() == Py_True;
}

// Is the value known to be there?  Under the lock.  (Cheaper than asking the Buffer.)
bool has_no_fence(const ArrayImpl& array) {
  static PyObject* name = PyUnicode_InternFromString("fence");
  return python::checked(PyObject_GetAttr(array.buffer.object.get(), name), "fence").get() ==
         Py_None;
}

// A buffer of Python's, given back under the lock.
struct BufferHold {
  Py_buffer view{};
  python::Ref object;
  ~BufferHold() {
    if (view.obj == nullptr || !python::is_alive()) return;
    python::Lock lock;
    PyBuffer_Release(&view);
  }
};

std::vector<Array> arrays_of(const FunctionImpl& function, PyObject* buffers) {
  const Signature& signature = function.signature();
  python::Ref list = python::checked(PySequence_Fast(buffers, "results"), signature.name);
  const auto count = static_cast<std::size_t>(PySequence_Fast_GET_SIZE(list.get()));
  if (count != signature.results.size())
    throw Error(Code::host, "the program gave " + std::to_string(count) + " results.",
                signature.describe(), "compile it again; its record is damaged.");
  python::Ref shapes;
  if (function.dynamic)
    shapes = python::checked(PyObject_CallOneArg(python::hosting().shapes, list.get()),
                             signature.name);
  std::vector<Array> arrays;
  arrays.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto index = static_cast<Py_ssize_t>(i);
    auto made = std::make_shared<ArrayImpl>();
    made->buffer.object =
        python::Ref(Py_NewRef(PySequence_Fast_GET_ITEM(list.get(), index)));
    made->dtype = signature.results[i].dtype;
    made->shape = function.dynamic ? shape_of(PyList_GET_ITEM(shapes.get(), index))
                                   : function.results[i];
    made->device = function.module->device;
    arrays.push_back(Access::handle<Array>(std::move(made)));
  }
  return arrays;
}

}  // namespace

void yield() noexcept { python::yield(); }

void open(std::string_view uri, detail::DeviceImpl& device) {
  const python::Hosting& hosting = python::hosting();
  python::Lock lock;
  const std::string where = "Device::open(\"" + std::string(uri) + "\")";
  python::Ref text = python::checked(
      PyUnicode_DecodeUTF8(uri.data(), static_cast<Py_ssize_t>(uri.size()), "replace"), where);
  PyObject* raw = PyObject_CallOneArg(hosting.open_device, text.get());
  if (raw == nullptr) {
    try {
      python::raise_pending(where);
    } catch (const Error& error) {
      const std::string message = error.what();
      throw Error(Code::unavailable, message.substr(0, message.find("\n  ")), where, error.fix());
    }
  }
  python::Ref parts(raw);
  device.name = python::text_of(PyTuple_GET_ITEM(raw, 1));
  device.platform = python::text_of(PyTuple_GET_ITEM(raw, 2));
  device.is_host = PyTuple_GET_ITEM(raw, 3) == Py_True;
  device.state.object = python::Ref(Py_NewRef(PyTuple_GET_ITEM(raw, 0)));
}

Buffer copied(const void* data, std::size_t bytes, DType dtype, const Shape& shape,
              const Device& device) {
  return from_memory(data, bytes, dtype, shape, nullptr, device, true, "Array::from_host");
}

Buffer wrapped(const void* data, std::size_t bytes, DType dtype, const Shape& shape,
               std::shared_ptr<const void> keep, const Device& device) {
  return from_memory(data, bytes, dtype, shape, std::move(keep), device, false, "Array::wrap");
}

bool is_ready(ArrayImpl& array) {
  python::hosting();
  python::Lock lock;
  return ask(array, "is_ready");
}

bool wait(ArrayImpl& array, double seconds) {
  const python::Hosting& hosting = python::hosting();
  python::Lock lock;
  if (has_no_fence(array)) return true;
  python::Ref time = python::checked(PyFloat_FromDouble(seconds), "Array::wait_for");
  PyObject* arguments[] = {array.buffer.object.get(), time.get()};
  const python::Ref answer = python::checked(
      PyObject_Vectorcall(hosting.wait, arguments, 2, nullptr), "Array::wait_for");
  return answer.get() == Py_True;
}

Span<const std::uint8_t> view(ArrayImpl& array, std::shared_ptr<void>& hold) {
  const python::Hosting& hosting = python::hosting();
  python::Lock lock;
  auto held = std::make_shared<BufferHold>();
  held->object =
      python::checked(PyObject_CallOneArg(hosting.view, array.buffer.object.get()), "Array::view");
  if (held->object.get() == Py_None) return {};
  if (PyObject_GetBuffer(held->object.get(), &held->view, PyBUF_SIMPLE) != 0)
    python::raise_pending("Array::view");
  const Span<const std::uint8_t> bytes(static_cast<const std::uint8_t*>(held->view.buf),
                                       static_cast<std::size_t>(held->view.len));
  hold = std::move(held);
  return bytes;
}

void drop(ArrayImpl& array) {
  if (!python::is_alive()) return;
  python::Lock lock;
  static PyObject* name = PyUnicode_InternFromString("delete");
  python::checked(PyObject_CallMethodNoArgs(array.buffer.object.get(), name), "Array::release");
}

void load(const std::string* path, Span<const std::uint8_t> bytes, const std::string& parameters,
          detail::ModuleImpl& module) {
  python::hosting();
  python::Lock lock;
  const std::string where = path != nullptr ? *path : std::to_string(bytes.size()) + " bytes";
  const python::Ref source =
      path != nullptr
          ? path_text(*path)
          : python::checked(
                PyBytes_FromStringAndSize(reinterpret_cast<const char*>(bytes.data()),
                                          static_cast<Py_ssize_t>(bytes.size())),
                where);
  const python::Ref archive = path_text(parameters);
  PyObject* arguments[] = {source.get(), Access::impl(module.device)->state.object.get(),
                           archive.get()};
  python::Ref loaded = python::checked(
      PyObject_Vectorcall(python::hosting().load_artifact, arguments, 3, nullptr), where);
  module.state.artifact = python::Ref(Py_NewRef(PyTuple_GET_ITEM(loaded.get(), 0)));
  PyObject* rows = PyTuple_GET_ITEM(loaded.get(), 1);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(rows); ++i)
    module.records.push_back(
        artifact::parse_record(python::text_of(PyTuple_GET_ITEM(PyList_GET_ITEM(rows, i), 1))));
}

void bind(FunctionImpl& function) {
  const std::string& name = function.signature().name;
  const python::Hosting& hosting = python::hosting();
  python::Lock lock;
  python::Ref index = python::checked(PyLong_FromSize_t(function.index), name);
  PyObject* arguments[] = {function.module->state.artifact.get(), index.get()};
  function.state.target = python::checked(
      PyObject_Vectorcall(hosting.bind, arguments, 2, nullptr), name);
}

std::vector<Array> call(const FunctionImpl& function, Span<const Array> arguments,
                        const artifact::Sizes&, CallReservation&, detail::Borrows& borrows) {
  const std::string& name = function.signature().name;
  python::hosting();
  python::Lock lock;
  python::Ref tuple =
      python::checked(PyTuple_New(static_cast<Py_ssize_t>(arguments.size())), name);
  for (std::size_t i = 0; i < arguments.size(); ++i)
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i),
                     Py_NewRef(Access::impl(arguments[i])->buffer.object.get()));
  python::Ref results(PyObject_CallOneArg(function.state.target.get(), tuple.get()));
  if (!results) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    borrows.failed([](const ArrayImpl& array) {
      python::Ref gone(PyObject_CallMethod(array.buffer.object.get(), "is_deleted", nullptr));
      PyErr_Clear();
      return !gone || gone.get() != Py_False;
    });
    PyErr_Restore(type, value, trace);
    python::raise_pending(name);
  }
  borrows.done();
  return arrays_of(function, results.get());
}

}  // namespace calque::backend
