// The backend that hosts a Python: its types.
#pragma once

#include "artifact/dims.hpp"
#include "calque/module.hpp"
#include "hosting/interpreter.hpp"

namespace calque::detail {

struct FunctionImpl;

}  // namespace calque::detail

namespace calque::backend {

struct DeviceState {
  python::Ref object;  // a calque.runtime.Device
};
struct Buffer {
  python::Ref object;  // a calque.runtime.Buffer
};
struct ModuleState {
  python::Ref artifact;
};
struct FunctionState {
  python::Ref target;  // called with a tuple of Buffers, gives a sequence of them
};
struct CallReservation {  // Python waits, within the call
  CallReservation(const detail::FunctionImpl&, Span<const Array>, const artifact::Sizes&) {}
};

}  // namespace calque::backend
