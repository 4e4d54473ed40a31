// What stands behind the public handles.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "calque/module.hpp"
#include "interpreter.hpp"

namespace calque::detail {

struct DeviceImpl {
  std::string name, platform;
  bool is_host = true;  // its memory is the host's
  python::Ref object;
};

// Who is using an array right now.  A call that takes an array over (donation) keeps everybody else
// out from then on; calls that only read it share it.  Readers never wait: an array that is being
// taken over counts as deleted.  Takers wait for readers, which hold an array for the time it takes
// to queue a call.  So nobody waits for somebody who waits.
class Claim {
 public:
  bool share() noexcept {
    int users = users_.load(std::memory_order_relaxed);
    while (users >= 0)
      if (users_.compare_exchange_weak(users, users + 1, std::memory_order_acquire)) return true;
    return false;
  }
  void unshare() noexcept { users_.fetch_sub(1, std::memory_order_release); }
  bool take() noexcept {
    int users = users_.load(std::memory_order_relaxed);
    for (;;) {
      if (users < 0) return false;
      // The mark goes in first, so that no new reader comes; then those within leave.
      if (users_.compare_exchange_weak(users, users + kTaken, std::memory_order_acquire)) break;
    }
    while (users_.load(std::memory_order_acquire) != kTaken) python::yield();
    return true;
  }
  void untake() noexcept { users_.store(0, std::memory_order_release); }
  bool is_taken() const noexcept { return users_.load(std::memory_order_acquire) < 0; }

 private:
  static constexpr int kTaken = INT32_MIN / 2;
  std::atomic<int> users_{0};  // kTaken + n: taken, n readers still within
};

struct ArrayImpl {
  python::Ref buffer;  // a calque.runtime.Buffer
  DType dtype = DType::float32;
  Shape shape;
  Device device;
  std::atomic<bool> ready{false};  // seen to be there; never false again
  Claim claim;
};

struct ModuleImpl {
  Device device;
  python::Ref artifact;
  std::vector<Signature> signatures;
  std::vector<bool> dynamic;  // of each: is a size known at the call only?
};

struct FunctionImpl {
  std::shared_ptr<const ModuleImpl> module;
  Signature signature;
  bool dynamic = false, donates = false;
  std::vector<Shape> results;  // where all are known
  python::Ref target;          // called with a tuple of Buffers, gives a sequence of them
};

// The way from handles to what stands behind them, and back.
struct Access {
  template <class Handle>
  static const auto& impl(const Handle& handle) {
    return handle.impl_;
  }
  template <class Handle, class Impl>
  static Handle handle(std::shared_ptr<Impl> impl) {
    Handle made;
    made.impl_ = std::move(impl);
    return made;
  }
};

}  // namespace calque::detail
