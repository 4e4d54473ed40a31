#include <mutex>

#include "impl.hpp"

namespace calque {

using detail::Access;
using detail::DeviceImpl;

namespace {

std::shared_ptr<const DeviceImpl> open_device(std::string_view uri) {
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
  auto made = std::make_shared<DeviceImpl>();
  made->name = python::text_of(PyTuple_GET_ITEM(raw, 1));
  made->platform = python::text_of(PyTuple_GET_ITEM(raw, 2));
  made->is_host = PyTuple_GET_ITEM(raw, 3) == Py_True;
  made->object = python::Ref(Py_NewRef(PyTuple_GET_ITEM(raw, 0)));
  return made;
}

}  // namespace

Device Device::open(std::string_view uri) {
  if (uri != "cpu") return Access::handle<Device>(open_device(uri));
  // The default of every call that takes a device: made once, and held for ever.
  static auto* kept = new std::atomic<const std::shared_ptr<const DeviceImpl>*>(nullptr);
  auto* cpu = kept->load(std::memory_order_acquire);
  if (cpu == nullptr) {
    auto* made = new std::shared_ptr<const DeviceImpl>(open_device(uri));
    if (kept->compare_exchange_strong(cpu, made)) {
      cpu = made;
    } else {
      delete made;
    }
  }
  return Access::handle<Device>(*cpu);
}

const std::string& Device::name() const { return impl_->name; }
const std::string& Device::platform() const { return impl_->platform; }

}  // namespace calque
