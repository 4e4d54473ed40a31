#include "calque/module.hpp"

#include <algorithm>
#include <cctype>
#include <map>

#include "impl.hpp"
#include "text.hpp"

namespace calque {

using detail::Access;
using detail::ArrayImpl;
using detail::FunctionImpl;
using detail::ModuleImpl;

namespace {

std::vector<Parameter> parameters_of(PyObject* list) {
  std::vector<Parameter> made;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    PyObject* row = PyList_GET_ITEM(list, i);
    Parameter parameter;
    parameter.path = python::text_of(PyTuple_GET_ITEM(row, 0));
    parameter.dtype = static_cast<DType>(PyLong_AsLong(PyTuple_GET_ITEM(row, 1)));
    PyObject* sizes = PyTuple_GET_ITEM(row, 2);
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(sizes); ++k) {
      PyObject* size = PyTuple_GET_ITEM(sizes, k);
      Dim dim;
      if (PyUnicode_Check(size)) {
        dim.name = python::text_of(size);
      } else {
        dim.size = PyLong_AsLongLong(size);
        if (dim.size < 0 && PyErr_Occurred() != nullptr) python::raise_pending("Module::load");
      }
      parameter.shape.push_back(std::move(dim));
    }
    parameter.donated = PyTuple_GET_ITEM(row, 3) == Py_True;
    made.push_back(std::move(parameter));
  }
  return made;
}

python::Ref path_text(const std::string& path) {
  return python::checked(
      PyUnicode_DecodeFSDefaultAndSize(path.data(), static_cast<Py_ssize_t>(path.size())), path);
}

Module load_source(PyObject* source, const Device& device, const std::string& parameters,
                   const std::string& where) {
  const python::Ref archive = path_text(parameters);
  PyObject* arguments[] = {source, Access::impl(device)->object.get(), archive.get()};
  python::Ref loaded = python::checked(
      PyObject_Vectorcall(python::hosting().load_artifact, arguments, 3, nullptr), where);
  auto made = std::make_shared<ModuleImpl>();
  made->device = device;
  made->artifact = python::Ref(Py_NewRef(PyTuple_GET_ITEM(loaded.get(), 0)));
  PyObject* rows = PyTuple_GET_ITEM(loaded.get(), 1);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(rows); ++i) {
    PyObject* row = PyList_GET_ITEM(rows, i);
    Signature signature;
    signature.name = python::text_of(PyTuple_GET_ITEM(row, 0));
    signature.target = python::text_of(PyTuple_GET_ITEM(row, 1));
    signature.record = python::text_of(PyTuple_GET_ITEM(row, 2));
    signature.arguments = parameters_of(PyTuple_GET_ITEM(row, 4));
    signature.results = parameters_of(PyTuple_GET_ITEM(row, 5));
    made->dynamic.push_back(PyTuple_GET_ITEM(row, 3) == Py_True);
    made->signatures.push_back(std::move(signature));
  }
  return Access::handle<Module>(std::shared_ptr<const ModuleImpl>(std::move(made)));
}

std::string context(const Signature& signature, std::size_t position) {
  return signature.name + "; argument " + std::to_string(position) + " is " +
         signature.arguments[position].path;
}

std::string paths(const Signature& signature) {
  std::string text;
  for (const Parameter& parameter : signature.arguments)
    text += (text.empty() ? "" : ", ") + parameter.path;
  return text;
}

// Whether a size is a name alone: expressions of names (2*b) are checked by calque.runtime, before the
// program runs, with the record's constraints.
bool is_name(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

// May the sizes fit?  A name takes its value where it is met first.
bool fits(const Shape& shape, const std::vector<Dim>& expected,
          std::map<std::string, std::int64_t>& named) {
  if (shape.size() != expected.size()) return false;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    std::int64_t size = expected[i].size;
    if (expected[i].is_dynamic()) {
      if (!is_name(expected[i].name)) continue;
      size = named.emplace(expected[i].name, shape[i]).first->second;
    }
    if (shape[i] != size) return false;
  }
  return true;
}

void check_arguments(const FunctionImpl& function, Span<const Array> arguments) {
  const Signature& signature = function.signature;
  if (arguments.size() != signature.arguments.size())
    throw Error(Code::arity,
                signature.name + "() takes " + std::to_string(signature.arguments.size()) +
                    " arguments, got " + std::to_string(arguments.size()) + ".",
                signature.describe(), "pass " + paths(signature) + ".");
  std::map<std::string, std::int64_t> named;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Parameter& expected = signature.arguments[i];
    const ArrayImpl* given = Access::impl(arguments[i]).get();
    if (given == nullptr)
      throw Error(Code::invalid_argument, expected.path + " is an empty Array.",
                  context(signature, i), "assign an array to it first.");
    if (given->dtype != expected.dtype)
      throw Error(Code::dtype,
                  expected.path + " must be " + expected.describe() + ", got dtype " +
                      name_of(given->dtype) + ".",
                  context(signature, i),
                  std::string("make it of ") + name_of(expected.dtype) + " elements.");
    if (!fits(given->shape, expected.shape, named)) {
      std::string known;
      for (const auto& [name, size] : named)
        known += (known.empty() ? " with " : ", ") + name + " = " + std::to_string(size);
      throw Error(Code::shape,
                  expected.path + " must be " + expected.describe() + known + ", got shape " +
                      detail::describe(given->shape) + ".",
                  context(signature, i),
                  "pass an array of that shape, or compile the function for this one.");
    }
    if (given->device != function.module->device)
      throw Error(Code::device,
                  expected.path + " lives on " + given->device.name() + ", the module on " +
                      function.module->device.name() + ".",
                  context(signature, i), "make it on that device: Array::from_host(..., device).");
  }
}

// The claims of one call on its arguments: donated ones taken, the others shared.
class Claims {
 public:
  Claims(const FunctionImpl& function, Span<const Array> arguments)
      : function_(function), arguments_(arguments) {
    try {
      if (function.donates) take();
      for (; shared_ < arguments.size(); ++shared_)
        if (!is_taken(shared_) && !impl(shared_).claim.share()) raise_deleted(shared_);
    } catch (...) {
      release(false);
      throw;
    }
  }
  Claims(const Claims&) = delete;
  Claims& operator=(const Claims&) = delete;
  ~Claims() { release(done_); }

  // The call was made: what it took over is gone.
  void done() noexcept { done_ = true; }

  // It failed, maybe after it had given arguments up: what is gone stays taken.  Under the lock.
  void failed() noexcept {
    for (auto i = taken_.begin(); i != taken_.end();) {
      python::Ref gone(PyObject_CallMethod(impl(*i).buffer.get(), "is_deleted", nullptr));
      PyErr_Clear();
      i = gone && gone.get() == Py_False ? i + 1 : forget(i);
    }
  }

 private:
  ArrayImpl& impl(std::size_t i) const { return *Access::impl(arguments_[i]); }

  bool is_taken(std::size_t i) const {
    const auto same = [&](std::size_t k) { return &impl(k) == &impl(i); };
    return std::any_of(taken_.begin(), taken_.end(), same) ||
           std::any_of(gone_.begin(), gone_.end(), same);
  }

  void take() {
    taken_.reserve(arguments_.size());
    gone_.reserve(arguments_.size());
    for (std::size_t i = 0; i < arguments_.size(); ++i) {
      if (!function_.signature.arguments[i].donated || is_taken(i)) continue;
      if (!impl(i).claim.take()) raise_deleted(i);
      taken_.push_back(i);
    }
  }

  // Leaves an argument taken when this ends.
  std::vector<std::size_t>::iterator forget(std::vector<std::size_t>::iterator i) noexcept {
    gone_.push_back(*i);  // reserved in take()
    return taken_.erase(i);
  }

  void release(bool consumed) noexcept {
    while (shared_ > 0)
      if (!is_taken(--shared_)) impl(shared_).claim.unshare();
    if (!consumed)
      for (const std::size_t i : taken_) impl(i).claim.untake();
    taken_.clear();
  }

  [[noreturn]] void raise_deleted(std::size_t i) const {
    throw Error(Code::deleted,
                "Array has been deleted with shape=" + arguments_[i].describe() + ".",
                context(function_.signature, i),
                "it was donated to a call or released; keep the result of that call instead.");
  }

  const FunctionImpl& function_;
  Span<const Array> arguments_;
  std::vector<std::size_t> taken_, gone_;
  std::size_t shared_ = 0;
  bool done_ = false;
};

Shape shape_of(PyObject* tuple) {
  Shape shape(static_cast<std::size_t>(PyTuple_GET_SIZE(tuple)));
  for (std::size_t i = 0; i < shape.size(); ++i)
    shape[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, static_cast<Py_ssize_t>(i)));
  return shape;
}

std::vector<Array> arrays_of(const FunctionImpl& function, PyObject* buffers) {
  const std::vector<Parameter>& expected = function.signature.results;
  python::Ref list = python::checked(PySequence_Fast(buffers, "results"), function.signature.name);
  const auto count = static_cast<std::size_t>(PySequence_Fast_GET_SIZE(list.get()));
  if (count != expected.size())
    throw Error(Code::host, "the program gave " + std::to_string(count) + " results.",
                function.signature.describe(), "compile it again; its record is damaged.");
  python::Ref shapes;
  if (function.dynamic)
    shapes = python::checked(PyObject_CallOneArg(python::hosting().shapes, list.get()),
                             function.signature.name);
  std::vector<Array> arrays;
  arrays.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto index = static_cast<Py_ssize_t>(i);
    auto made = std::make_shared<ArrayImpl>();
    made->buffer = python::Ref(Py_NewRef(PySequence_Fast_GET_ITEM(list.get(), index)));
    made->dtype = expected[i].dtype;
    made->shape = function.dynamic ? shape_of(PyList_GET_ITEM(shapes.get(), index))
                                   : function.results[i];
    made->device = function.module->device;
    arrays.push_back(Access::handle<Array>(std::move(made)));
  }
  return arrays;
}

}  // namespace

std::string Parameter::describe() const {
  std::string text = std::string(name_of(dtype)) + "[";
  for (std::size_t i = 0; i < shape.size(); ++i)
    text += (i == 0 ? "" : ",") +
            (shape[i].is_dynamic() ? shape[i].name : std::to_string(shape[i].size));
  return text + "]";
}

std::string Signature::describe() const {
  std::string inside, behind;
  for (const Parameter& argument : arguments)
    inside += (inside.empty() ? "" : ", ") + argument.path + ": " + argument.describe();
  for (const Parameter& result : results)
    behind += (behind.empty() ? "" : ", ") + result.describe();
  return name + "(" + inside + ") -> " + behind;
}

Module Module::load(const std::string& path, const Device& device, const std::string& parameters) {
  python::hosting();
  python::Lock lock;
  const python::Ref name = path_text(path);
  return load_source(name.get(), device, parameters, path);
}

Module Module::load(Span<const std::uint8_t> bytes, const Device& device,
                    const std::string& parameters) {
  python::hosting();
  python::Lock lock;
  const std::string where = std::to_string(bytes.size()) + " bytes";
  python::Ref copy = python::checked(
      PyBytes_FromStringAndSize(reinterpret_cast<const char*>(bytes.data()),
                                static_cast<Py_ssize_t>(bytes.size())),
      where);
  return load_source(copy.get(), device, parameters, where);
}

const std::vector<Signature>& Module::functions() const { return impl_->signatures; }

Function Module::function(std::string_view name) const {
  std::string names;
  for (std::size_t i = 0; i < impl_->signatures.size(); ++i) {
    const Signature& signature = impl_->signatures[i];
    names += (names.empty() ? "" : ", ") + signature.name;
    if (signature.name != name) continue;
    auto made = std::make_shared<FunctionImpl>();
    made->module = impl_;
    made->signature = signature;
    made->dynamic = impl_->dynamic[i];
    for (const Parameter& argument : signature.arguments) made->donates |= argument.donated;
    for (const Parameter& result : signature.results) {
      Shape shape;
      for (const Dim& dim : result.shape) shape.push_back(dim.size);
      made->results.push_back(std::move(shape));
    }
    python::Lock lock;
    python::Ref text = python::checked(PyUnicode_FromString(signature.name.c_str()), signature.name);
    PyObject* arguments[] = {impl_->artifact.get(), text.get()};
    made->target = python::checked(
        PyObject_Vectorcall(python::hosting().bind, arguments, 2, nullptr), signature.name);
    return Access::handle<Function>(std::shared_ptr<const FunctionImpl>(std::move(made)));
  }
  throw Error(Code::not_found,
              "no function '" + std::string(name) + "' in this module; it has " + names + ".",
              "Module::function", "name one of those.");
}

const Signature& Function::signature() const { return impl_->signature; }

std::vector<Array> Function::call(Span<const Array> arguments) const {
  const FunctionImpl& function = *impl_;
  check_arguments(function, arguments);
  Claims claims(function, arguments);
  python::hosting();
  python::Lock lock;
  python::Ref tuple = python::checked(PyTuple_New(static_cast<Py_ssize_t>(arguments.size())),
                                      function.signature.name);
  for (std::size_t i = 0; i < arguments.size(); ++i)
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i),
                     Py_NewRef(Access::impl(arguments[i])->buffer.get()));
  python::Ref results(PyObject_CallOneArg(function.target.get(), tuple.get()));
  if (!results) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    claims.failed();
    PyErr_Restore(type, value, trace);
    python::raise_pending(function.signature.name);
  }
  claims.done();
  return arrays_of(function, results.get());
}

}  // namespace calque
