#include "calque/module.hpp"

#include <algorithm>

#include "impl.hpp"
#include "text.hpp"

namespace calque {

using artifact::Sizes;
using detail::Access;
using detail::ArrayImpl;
using detail::FunctionImpl;
using detail::ModuleImpl;
using detail::context;

namespace {

std::string paths(const Signature& signature) {
  std::string text;
  for (const Parameter& parameter : signature.arguments)
    text += (text.empty() ? "" : ", ") + parameter.path;
  return text;
}

std::string arguments_of(const Signature& signature) {
  std::string text;
  for (const Parameter& argument : signature.arguments)
    text += (text.empty() ? "" : ", ") + argument.path + ": " + argument.describe();
  return text;
}

[[noreturn]] void raise_shape(const FunctionImpl& function, std::size_t position, const Shape& shape,
                              const Sizes& sizes) {
  const Parameter& expected = function.signature().arguments[position];
  std::string known;
  for (const auto& [name, size] : sizes)
    known += (known.empty() ? " with " : ", ") + name + " = " + std::to_string(size);
  if (!function.forms.empty()) {
    std::string takes = arguments_of(function.signature());
    for (const auto& form : function.forms) takes += " or " + arguments_of(form->signature());
    throw Error(Code::shape,
                function.signature().name + " was not compiled for " + expected.path + " of shape " +
                    detail::describe(shape) + known + "; it takes " + takes + ".",
                context(function.signature(), position),
                "pass arrays of these shapes, or compile it for this one, too.");
  }
  throw Error(Code::shape,
              expected.path + " must be " + expected.describe() + known + ", got shape " +
                  detail::describe(shape) + ".",
              context(function.signature(), position),
              "pass an array of that shape, or compile the function for this one.");
}

// May the sizes fit?  A variable takes its value where it is met first.
bool may_fit(const Shape& shape, const std::vector<artifact::Size>& expected, Sizes& sizes) {
  if (shape.size() != expected.size()) return false;
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (artifact::fits(shape[i], expected[i], sizes) == artifact::Fit::no) return false;
  return true;
}

bool mentions(const artifact::Constraint& constraint, const std::string& name) {
  const auto has = [&](const artifact::Expression& side) {
    const auto& names = side.variables();
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  return has(constraint.left) || has(constraint.right);
}

[[noreturn]] void raise_constraint(const FunctionImpl& function,
                                   const artifact::Constraint& constraint, const Sizes& sizes) {
  std::string known, users;
  for (const auto& [name, size] : sizes)
    if (mentions(constraint, name))
      known += (known.empty() ? "" : ", ") + name + " = " + std::to_string(size);
  const artifact::Record& record = function.record();
  for (std::size_t i = 0; i < record.arguments.size(); ++i) {
    const artifact::Argument& argument = record.arguments[i];
    const bool concerned = std::any_of(argument.shape.begin(), argument.shape.end(), [&](auto& size) {
      if (!size.expression) return false;
      const auto& names = size.expression->variables();
      return std::any_of(names.begin(), names.end(),
                         [&](const std::string& name) { return mentions(constraint, name); });
    });
    if (concerned)
      users += (users.empty() ? "" : ", ") + argument.path + " is " +
               function.signature().arguments[i].describe();
  }
  throw Error(Code::shape,
              constraint.text() + " must hold of the arguments' sizes, got " + known + ".",
              record.name + "; " + users,
              "pass arrays of other sizes, or compile the function for these.");
}

// What could not be said of one argument alone; the record's constraints.
void check_related(const FunctionImpl& function, Span<const Array> arguments, Sizes& sizes) {
  const artifact::Record& record = function.record();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Shape& shape = arguments[i].shape();
    for (std::size_t k = 0; k < shape.size(); ++k)
      if (artifact::fits(shape[k], record.arguments[i].shape[k], sizes) != artifact::Fit::yes)
        raise_shape(function, i, shape, sizes);
  }
  for (const artifact::Constraint& constraint : record.constraints) {
    bool holds = false;
    try {
      holds = constraint.holds(sizes);
    } catch (const artifact::Undefined&) {  // a division by zero: it does not hold
    }
    if (!holds) raise_constraint(function, constraint, sizes);
  }
}

Sizes check_arguments(const FunctionImpl& function, Span<const Array> arguments) {
  const Signature& signature = function.signature();
  if (arguments.size() != signature.arguments.size())
    throw Error(Code::arity,
                signature.name + "() takes " + std::to_string(signature.arguments.size()) +
                    " arguments, got " + std::to_string(arguments.size()) + ".",
                signature.describe(), "pass " + paths(signature) + ".");
  Sizes sizes;
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
    if (!may_fit(given->shape, function.record().arguments[i].shape, sizes))
      raise_shape(function, i, given->shape, sizes);
    if (Access::impl(given->device) != Access::impl(function.module->device) &&
        given->device != function.module->device)
      throw Error(Code::device,
                  expected.path + " lives on " + given->device.name() + ", the module on " +
                      function.module->device.name() + ".",
                  context(signature, i), "make it on that device: Array::from_host(..., device).");
  }
  if (function.related) check_related(function, arguments, sizes);
  return sizes;
}

// Are there constraints, or sizes that are more than factor * variable + offset?
bool is_related(const artifact::Record& record) {
  if (!record.constraints.empty()) return true;
  for (const artifact::Argument& argument : record.arguments)
    for (const artifact::Size& size : argument.shape)
      if (size.expression && !size.expression->linear()) return true;
  return false;
}

// Function i of a module's records.
std::shared_ptr<FunctionImpl> bound(const std::shared_ptr<const ModuleImpl>& module, std::size_t i) {
  auto made = std::make_shared<FunctionImpl>();
  made->module = module;
  made->index = i;
  const artifact::Record& record = module->records[i];
  made->dynamic = record.is_dynamic();
  made->related = is_related(record);
  const Signature& signature = module->signatures[i];
  for (const Parameter& argument : signature.arguments) made->donates |= argument.donated;
  for (const Parameter& result : signature.results) {
    Shape shape;
    for (const Dim& dim : result.shape) shape.push_back(dim.size);
    made->results.push_back(std::move(shape));
  }
  backend::bind(*made);
  return made;
}

bool has_shapes(const FunctionImpl& function, Span<const Array> arguments) {
  const std::vector<artifact::Argument>& expected = function.record().arguments;
  if (arguments.size() != expected.size()) return false;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const ArrayImpl* given = Access::impl(arguments[i]).get();
    if (given == nullptr || given->shape.size() != expected[i].shape.size()) return false;
    for (std::size_t k = 0; k < given->shape.size(); ++k)
      if (expected[i].shape[k].expression || expected[i].shape[k].number != given->shape[k]) return false;
  }
  return true;
}

// What is called for these arguments: the form of their shapes, else the first, which is of any size
// where there is such a one.
const FunctionImpl& form_of(const FunctionImpl& function, Span<const Array> arguments) {
  for (const auto& form : function.forms)
    if (has_shapes(*form, arguments)) return *form;
  return function;
}

Module load_module(const std::string* path, Span<const std::uint8_t> bytes, const Device& device,
                   const std::string& parameters) {
  auto made = std::make_shared<ModuleImpl>();
  made->device = device;
  backend::load(path, bytes, parameters, *made);
  for (const artifact::Record& record : made->records)
    made->signatures.push_back(record.signature());
  return Access::handle<Module>(std::shared_ptr<const ModuleImpl>(std::move(made)));
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
  return load_module(&path, {}, device, parameters);
}

Module Module::load(Span<const std::uint8_t> bytes, const Device& device,
                    const std::string& parameters) {
  return load_module(nullptr, bytes, device, parameters);
}

const std::vector<Signature>& Module::functions() const { return impl_->signatures; }

Function Module::function(std::string_view name) const {
  std::string names;
  std::shared_ptr<FunctionImpl> first;
  for (std::size_t i = 0; i < impl_->signatures.size(); ++i) {
    const std::string& own = impl_->signatures[i].name;
    if (i == 0 || own != impl_->signatures[i - 1].name) names += (names.empty() ? "" : ", ") + own;
    if (own != name) continue;
    std::shared_ptr<FunctionImpl> made = bound(impl_, i);
    if (first == nullptr)
      first = std::move(made);
    else
      first->forms.push_back(std::move(made));
  }
  if (first != nullptr) return Access::handle<Function>(std::shared_ptr<const FunctionImpl>(std::move(first)));
  throw Error(Code::not_found,
              "no function '" + std::string(name) + "' in this module; it has " + names + ".",
              "Module::function", "name one of those.");
}

const Signature& Function::signature() const { return impl_->signature(); }

std::vector<Array> Function::call(Span<const Array> arguments) const {
  const FunctionImpl& function = form_of(*impl_, arguments);
  const Sizes sizes = check_arguments(function, arguments);
  backend::CallReservation reservation(function, arguments, sizes);
  detail::Borrows borrows(function, arguments);
  return backend::call(function, arguments, sizes, reservation, borrows);
}

}  // namespace calque
