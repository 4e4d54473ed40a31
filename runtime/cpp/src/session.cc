// Session: written on the public interface of Module, Function and Array.
#include "calque/session.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>

#include "artifact/archive.hpp"
#include "artifact/json.hpp"
#include "impl.hpp"
#include "text.hpp"

namespace calque {

namespace detail {

// A form of a function: where its arguments and results are in the state, -1 for its own.
struct SessionForm {
  const Signature* signature;
  std::vector<int> arguments, results;
};

struct SessionFunction {
  Function function;
  std::vector<SessionForm> forms;
};

struct SessionImpl {
  explicit SessionImpl(const Module& given) : module(given) {}

  Module module;
  std::vector<Parameter> leaves;
  std::map<std::string, std::size_t, std::less<>> positions;  // of leaves
  std::vector<Array> values;
  std::map<std::string, SessionFunction, std::less<>> functions;  // those that were called
  std::mutex mutex;

  std::string names() const {
    std::string text;
    for (const Parameter& leaf : leaves) text += (text.empty() ? "" : ", ") + leaf.path;
    return text;
  }
  std::size_t position(std::string_view name) const {
    const auto found = positions.find(name);
    if (found != positions.end()) return found->second;
    throw Error(Code::not_found, "the state has no leaf '" + std::string(name) + "'; it has " + names() + ".",
                "Session", "name one of those.");
  }
};

}  // namespace detail

namespace {

using detail::SessionImpl;

Shape sizes_of(const Parameter& parameter) {
  Shape made;
  for (const Dim& dim : parameter.shape) made.push_back(dim.size);
  return made;
}

bool same_type(const Parameter& a, const Parameter& b) {
  return a.dtype == b.dtype && sizes_of(a) == sizes_of(b);
}

void check_leaf(const SessionImpl& session, const Signature& signature, const Parameter& parameter) {
  if (parameter.state.empty()) return;
  const auto found = session.positions.find(parameter.state);
  if (found != session.positions.end() && same_type(session.leaves[found->second], parameter)) return;
  throw Error(Code::artifact,
              signature.name + " has the leaf " + parameter.state + " of the state as " + parameter.describe() +
                  ", a new session has " +
                  (found == session.positions.end() ? "none of it"
                                                    : session.leaves[found->second].describe()) + ".",
              "Session", "compile the module anew, all of it at once.");
}

Array copy_of(const Array& array, const Device& device) {
  std::shared_ptr<void> hold;
  const void* data = detail::Access::read(array, hold);
  return Array::copy_bytes(data, array.nbytes(), array.dtype(), array.shape(), device);
}

void check_value(const Parameter& leaf, DType dtype, const Shape& shape) {
  if (dtype != leaf.dtype)
    throw Error(Code::dtype, leaf.path + " must be " + leaf.describe() + ", got dtype " + name_of(dtype) + ".",
                "the state of a session", std::string("make it of ") + name_of(leaf.dtype) + " elements.");
  if (shape != sizes_of(leaf))
    throw Error(Code::shape,
                leaf.path + " must be " + leaf.describe() + ", got shape " + detail::describe(shape) + ".",
                "the state of a session", "pass an array of that shape.");
}

std::vector<int> positions_of(const SessionImpl& session, const std::vector<Parameter>& parameters) {
  std::vector<int> made;
  for (const Parameter& parameter : parameters)
    made.push_back(parameter.state.empty() ? -1 : static_cast<int>(session.position(parameter.state)));
  return made;
}

detail::SessionFunction found(const SessionImpl& session, std::string_view name) {
  detail::SessionFunction made{session.module.function(name), {}};
  for (const Signature& form : session.module.functions())
    if (form.name == name)
      made.forms.push_back({&form, positions_of(session, form.arguments), positions_of(session, form.results)});
  return made;
}

bool takes(const detail::SessionForm& form, Span<const Array> arguments) {
  std::size_t k = 0;
  for (std::size_t i = 0; i < form.arguments.size(); ++i) {
    if (form.arguments[i] >= 0) continue;
    const std::vector<Dim>& wanted = form.signature->arguments[i].shape;
    if (k == arguments.size() || detail::Access::impl(arguments[k]) == nullptr) return false;
    const Shape& given = arguments[k++].shape();
    for (std::size_t axis = 0; axis < wanted.size(); ++axis)
      if (given.size() != wanted.size() || given[axis] != wanted[axis].size) return false;
  }
  return k == arguments.size();
}

// The form of a function that takes arguments of these shapes besides the state; the first where none does.
const detail::SessionForm& form_of(const detail::SessionFunction& function, Span<const Array> arguments) {
  if (function.forms.size() > 1)
    for (const detail::SessionForm& form : function.forms)
      if (takes(form, arguments)) return form;
  return function.forms.front();
}

[[noreturn]] void raise_arity(const Signature& signature, std::size_t wanted, std::size_t given) {
  std::string paths;
  for (const Parameter& parameter : signature.arguments)
    if (parameter.state.empty()) paths += (paths.empty() ? "" : ", ") + parameter.path;
  throw Error(Code::arity,
              signature.name + "() takes " + std::to_string(wanted) + " arguments besides the state, got " +
                  std::to_string(given) + ".",
              signature.describe(), paths.empty() ? "pass none." : "pass " + paths + ".");
}

std::vector<std::uint8_t> bytes_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file.is_open() ? static_cast<std::streamoff>(file.tellg()) : -1;
  std::vector<std::uint8_t> made(size < 0 ? 0 : static_cast<std::size_t>(size));
  file.seekg(0);
  if (size < 0 || !file.read(reinterpret_cast<char*>(made.data()), size))
    throw Error(Code::artifact, "there is no archive " + path + ", or it cannot be read.", "Session::restore",
                "check the path.");
  return made;
}

std::string suffix_of(const std::string& path) {
  const std::size_t dot = path.rfind('.');
  return dot == path.npos || path.find('/', dot) != path.npos ? "" : path.substr(dot);
}

}  // namespace

Session::Session(const Module& module) : impl_(std::make_shared<SessionImpl>(module)) {
  const Signature* initial = nullptr;
  for (const Signature& signature : module.functions())
    if (signature.is_initial_state) initial = &signature;
  if (initial == nullptr)
    throw Error(Code::artifact, "the artifact has no state.", "Session",
                "compile an aot.Module whose attributes hold arrays, or call the functions themselves.");
  for (const Parameter& result : initial->results) {
    impl_->positions[result.state] = impl_->leaves.size();
    impl_->leaves.push_back(result);
    impl_->leaves.back().path = result.state;
  }
  for (const Signature& signature : module.functions()) {
    for (const Parameter& parameter : signature.arguments) check_leaf(*impl_, signature, parameter);
    for (const Parameter& parameter : signature.results) check_leaf(*impl_, signature, parameter);
  }
  impl_->values = module.function(initial->name)();
}

std::vector<Array> Session::call(std::string_view name, Span<const Array> arguments) {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  auto known = impl_->functions.find(name);
  if (known == impl_->functions.end())
    known = impl_->functions.emplace(std::string(name), found(*impl_, name)).first;
  const detail::SessionForm& form = form_of(known->second, arguments);
  std::vector<Array> given;
  given.reserve(form.arguments.size());
  std::size_t own = 0;
  for (const int leaf : form.arguments) {
    if (leaf >= 0)
      given.push_back(impl_->values[static_cast<std::size_t>(leaf)]);
    else if (own++ < arguments.size())
      given.push_back(arguments[own - 1]);
  }
  if (own != arguments.size()) raise_arity(*form.signature, own, arguments.size());
  std::vector<Array> made = known->second.function.call(given), results;
  for (std::size_t k = 0; k < made.size(); ++k) {
    if (form.results[k] < 0)
      results.push_back(std::move(made[k]));
    else
      impl_->values[static_cast<std::size_t>(form.results[k])] = std::move(made[k]);
  }
  return results;
}

const std::vector<Parameter>& Session::leaves() const { return impl_->leaves; }
const Module& Session::module() const { return impl_->module; }

Array Session::read(std::string_view name) const {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  const Array& value = impl_->values[impl_->position(name)];
  return copy_of(value, value.device());
}

void Session::write(std::string_view name, const Array& value) {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  const std::size_t position = impl_->position(name);
  if (detail::Access::impl(value) == nullptr)
    throw Error(Code::invalid_argument, std::string(name) + " is given an empty Array.", "Session::write",
                "assign an array to it first.");
  check_value(impl_->leaves[position], value.dtype(), value.shape());
  impl_->values[position] = copy_of(value, impl_->values[position].device());
}

void Session::save(const std::string& path) const {
  if (suffix_of(path) != ".safetensors")
    throw Error(Code::invalid_argument, path + " cannot be written: its name says no format.", "Session::save",
                "give a name that ends in .safetensors.");
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  std::map<std::string, artifact::ArrayType> types;
  for (const Parameter& leaf : impl_->leaves) types[leaf.path] = {leaf.dtype, sizes_of(leaf)};
  artifact::Layout layout;
  try {
    layout = artifact::safetensors_layout(types);
  } catch (const artifact::Unreadable& error) {
    throw Error(Code::dtype, std::string(error.what()) + ".", "Session::save",
                "keep such a leaf as bytes (uint8) in the module.");
  }
  const std::string made = path + ".part";
  std::ofstream file(made, std::ios::binary | std::ios::trunc);
  file.write(layout.head.data(), static_cast<std::streamsize>(layout.head.size()));
  for (const std::string& name : layout.order) {
    const Array& value = impl_->values[impl_->position(name)];
    std::shared_ptr<void> hold;
    const void* data = detail::Access::read(value, hold);
    file.write(static_cast<const char*>(data), static_cast<std::streamsize>(value.nbytes()));
  }
  file.close();
  if (!file.good() || std::rename(made.c_str(), path.c_str()) != 0) {
    std::remove(made.c_str());
    throw Error(Code::invalid_argument, path + " cannot be written.", "Session::save",
                "check the folder, and the room on the disk.");
  }
}

void Session::restore(const std::string& path) {
  const std::string suffix = suffix_of(path);
  if (suffix != ".safetensors" && suffix != ".irpa")
    throw Error(Code::artifact, path + " is no archive of a session.", "Session::restore",
                "give a file that ends in .safetensors or .irpa.");
  const std::vector<std::uint8_t> file = bytes_of_file(path);
  artifact::Archive archive;
  try {
    archive = artifact::read_archive(Span<const std::uint8_t>(file.data(), file.size()), suffix);
  } catch (const artifact::Unreadable& error) {
    throw Error(Code::artifact, path + " cannot be read: " + error.what() + ".", "Session::restore",
                "copy it again, or write it again.");
  }
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  std::vector<Array> made;
  for (std::size_t i = 0; i < impl_->leaves.size(); ++i) {
    const Parameter& leaf = impl_->leaves[i];
    const auto found = archive.find(leaf.path);
    if (found == archive.end() || !found->second.type || found->second.is_pattern)
      throw Error(Code::artifact, path + " has no leaf " + leaf.path + ".", "Session::restore",
                  "give an archive that a session of this module has saved.");
    check_value(leaf, found->second.type->dtype, found->second.type->shape);
    std::size_t bytes = size_of(leaf.dtype);
    for (const Dim& dim : leaf.shape) bytes *= static_cast<std::size_t>(dim.size);
    if (found->second.bytes != bytes)
      throw Error(Code::artifact, path + " has other bytes of " + leaf.path + " than its type says.",
                  "Session::restore", "copy it again, or write it again.");
    made.push_back(Array::copy_bytes(file.data() + found->second.offset, bytes, leaf.dtype, sizes_of(leaf),
                                     impl_->values[i].device()));
  }
  impl_->values = std::move(made);
}

}  // namespace calque
