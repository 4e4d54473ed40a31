// What the files of this backend share.
#pragma once

#include <atomic>

#include "fork.hpp"
#include "impl.hpp"
#include "text.hpp"

namespace calque::native {

inline ci_type type_of(DType dtype, const Shape& shape) {
  return {static_cast<int>(dtype), shape.size(), shape.data()};
}

inline Queues& queues_of(const Device& device) {
  return *detail::Access::impl(device)->state.queues;
}
inline bool is_host(const Device& device) { return detail::Access::impl(device)->is_host; }

// A module of an artifact: loaded once, put on a device at the first call there.
class Variant {
 public:
  explicit Variant(ci_module* module) : module_(module) {}
  Variant(const Variant&) = delete;
  Variant& operator=(const Variant&) = delete;
  ~Variant();

  ci_module* module() const { return module_; }
  void read_from(std::shared_ptr<ci_archive> archive) { archive_ = std::move(archive); }

  ci_program* on_inline_queue(Queues& queues) { return on(sync_, queues.inline_queue()); }
  ci_program* on_queue(Queues& queues) { return on(task_, queues.queue()); }

 private:
  ci_program* on(std::atomic<ci_program*>& program, ci_device* device) {
    ci_program* found = program.load(std::memory_order_acquire);
    return found != nullptr ? found : load(program, device);
  }
  ci_program* load(std::atomic<ci_program*>& program, ci_device* device);

  ci_module* const module_;
  std::shared_ptr<ci_archive> archive_;
  std::atomic<ci_program*> sync_{nullptr}, task_{nullptr};
};

// Readers of an array while they take what they need out of it.
class Sharing {
 public:
  Sharing(detail::ArrayImpl& array, const char* where) : claim_(array.claim) {
    if (!claim_.share()) detail::raise_deleted(array, where);
  }
  Sharing(const Sharing&) = delete;
  Sharing& operator=(const Sharing&) = delete;
  ~Sharing() { claim_.unshare(); }

 private:
  detail::Claim& claim_;
};

// A copy on the same device; one of a value that is not there yet waits for it there, not on the host.
backend::Buffer copy_of(detail::ArrayImpl& array);

}  // namespace calque::native
