// What stands behind the public handles, and what a backend has to give.
//
// One backend is built: hosting (src/hosting: a Python with calque.runtime in the process) or native
// (src/native: IREE's C runtime).  Its folder has a `backend.hpp` with five types, DeviceState, Buffer,
// ModuleState, FunctionState and CallReservation (made before a call borrows its arrays: it may wait),
// and defines the functions of `calque::backend` below.  Everything that does not depend on it is here
// and in array.cc, device.cc and module.cc: handles, checks before a call, who may use an array.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "artifact/record.hpp"
#include "backend.hpp"
#include "calque/module.hpp"

namespace calque {

namespace backend {

// Gives way to other threads.
void yield() noexcept;

}  // namespace backend

namespace detail {

struct DeviceImpl {
  std::string name, platform;
  bool is_host = true;  // its memory is the host's
  backend::DeviceState state;
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
    while (users_.load(std::memory_order_acquire) != kTaken) backend::yield();
    return true;
  }
  void untake() noexcept { users_.store(0, std::memory_order_release); }
  bool is_taken() const noexcept { return users_.load(std::memory_order_acquire) < 0; }

 private:
  static constexpr int kTaken = INT32_MIN / 2;
  std::atomic<int> users_{0};  // kTaken + n: taken, n readers still within
};

struct ArrayImpl {
  backend::Buffer buffer;
  DType dtype = DType::float32;
  Shape shape;
  Device device;
  std::atomic<bool> ready{false};  // seen to be there; never false again
  Claim claim;

  std::size_t nbytes() const {
    std::size_t bytes = size_of(dtype);
    for (const std::int64_t size : shape) bytes *= static_cast<std::size_t>(size);
    return bytes;
  }
};

// Error (deleted) of an array.
[[noreturn]] void raise_deleted(const ArrayImpl& array, const std::string& where);

struct ModuleImpl {
  Device device;
  std::vector<artifact::Record> records;
  std::vector<Signature> signatures;  // of the records
  backend::ModuleState state;
};

struct FunctionImpl {
  std::shared_ptr<const ModuleImpl> module;
  std::size_t index = 0;  // in the module's records
  bool dynamic = false, donates = false;
  bool related = false;        // sizes that cannot be checked one argument at a time
  std::vector<Shape> results;  // where all are known
  // What the function was compiled for besides, of known sizes: called where the arguments have them.
  std::vector<std::shared_ptr<const FunctionImpl>> forms;
  backend::FunctionState state;

  const artifact::Record& record() const { return module->records[index]; }
  const Signature& signature() const { return module->signatures[index]; }
};

// The borrows of one call on its arguments: donated ones taken, the others shared.
class Borrows {
 public:
  Borrows(const FunctionImpl& function, Span<const Array> arguments);
  Borrows(const Borrows&) = delete;
  Borrows& operator=(const Borrows&) = delete;
  ~Borrows() { release(done_); }

  // The call was made, or failed after it had taken its arguments: what it took over is gone.
  void done() noexcept { done_ = true; }

  // It failed before: what is gone all the same, by `is_gone(array)`, stays taken.
  template <class IsGone>
  void failed(IsGone is_gone) noexcept {
    for (auto i = taken_.begin(); i != taken_.end();)
      i = is_gone(impl(*i)) ? forget(i) : i + 1;
  }

  // The arguments that the call took over, each once.
  const std::vector<std::size_t>& taken() const noexcept { return taken_; }

 private:
  ArrayImpl& impl(std::size_t i) const;
  bool is_taken(std::size_t i) const;
  void take();
  std::vector<std::size_t>::iterator forget(std::vector<std::size_t>::iterator i) noexcept;
  void release(bool consumed) noexcept;
  [[noreturn]] void raise_deleted(std::size_t i) const;

  const FunctionImpl& function_;
  Span<const Array> arguments_;
  std::vector<std::size_t> taken_, gone_;
  std::size_t shared_ = 0;
  bool done_ = false;
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
  // The bytes of a value of any type, waited for.
  static const void* read(const Array& array, std::shared_ptr<void>& hold) {
    return array.read(array.dtype(), hold);
  }
};

}  // namespace detail

namespace backend {

// Fills in a device; Error (unavailable, host) if there is none.
void open(std::string_view uri, detail::DeviceImpl& device);

// A copy of host memory, and the memory itself where the device's memory is the host's.
Buffer copied(const void* data, std::size_t bytes, DType dtype, const Shape& shape,
              const Device& device);
Buffer wrapped(const void* data, std::size_t bytes, DType dtype, const Shape& shape,
               std::shared_ptr<const void> keep, const Device& device);

// Is the value of an array there?  Wait for it, at most so long: is it there?  Error if its program
// failed.  Of arrays that are alive and not known to be ready.
bool is_ready(detail::ArrayImpl& array);
bool wait(detail::ArrayImpl& array, double seconds);

// The bytes of a value that is there, and what keeps them.
Span<const std::uint8_t> view(detail::ArrayImpl& array, std::shared_ptr<void>& hold);

// Give the memory up.
void drop(detail::ArrayImpl& array);

// Fills in records and state from a path or bytes (where the path is null).
void load(const std::string* path, Span<const std::uint8_t> bytes, const std::string& parameters,
          detail::ModuleImpl& module);
void bind(detail::FunctionImpl& function);

// Calls with arguments that were checked and claimed; `sizes` are the values of variables in shapes.
std::vector<Array> call(const detail::FunctionImpl& function, Span<const Array> arguments,
                        const artifact::Sizes& sizes, CallReservation& reservation,
                        detail::Borrows& borrows);

}  // namespace backend

}  // namespace calque
