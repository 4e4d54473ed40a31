#include <atomic>

#include "impl.hpp"

namespace calque {

using detail::Access;
using detail::DeviceImpl;

namespace {

std::shared_ptr<const DeviceImpl> open_device(std::string_view uri) {
  auto made = std::make_shared<DeviceImpl>();
  backend::open(uri, *made);
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
