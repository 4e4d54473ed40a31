// calque for C++: load artifacts made by `calque compile` and call them.
//
//   #include <calque/runtime.hpp>
//   auto module = calque::Module::load("predict.vmfb");
//   auto x = calque::Array::from_host(pixels, {1, 784});
//   float first = module["predict"](weights, x)[0].view<float>()[0];
//
// Header map: error (what can go wrong), dtype (element types), array (devices and values), module
// (artifacts and calls), session (the state of modules).  docs/cpp.md is the tour; runtime/cpp/README.md the map of the sources.
#pragma once

#include "calque/array.hpp"
#include "calque/dtype.hpp"
#include "calque/error.hpp"
#include "calque/module.hpp"
#include "calque/session.hpp"
