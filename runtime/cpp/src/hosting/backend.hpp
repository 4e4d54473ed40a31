// The backend that hosts a Python: its types.
#pragma once

#include "hosting/interpreter.hpp"

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

}  // namespace calque::backend
