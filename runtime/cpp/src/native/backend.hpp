// The backend on IREE's C runtime: its types.
//
// An array is a buffer view of IREE's, the semaphore that reaches 1 when its value is there, and
// `Memory`, which all arrays and Views over one allocation share: only memory that nobody else sees may
// be taken over by a call.  IREE's queues keep what running calls read alive.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "artifact/dims.hpp"
#include "calque/error.hpp"
#include "calque/module.hpp"
#include "native/iree.h"

namespace calque::native {

// A counted object of IREE's.
template <class T, void (*retain)(T*), void (*release)(T*)>
class Counted {
 public:
  Counted() = default;
  explicit Counted(T* owned) : object_(owned) {}
  Counted(const Counted& other) : object_(other.object_) {
    if (object_ != nullptr) retain(object_);
  }
  Counted(Counted&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Counted& operator=(Counted other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Counted() {
    if (object_ != nullptr) release(object_);
  }
  T* get() const noexcept { return object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  T* object_ = nullptr;
};
using View = Counted<ci_view, ci_retain_view, ci_release_view>;
using Semaphore = Counted<ci_semaphore, ci_retain_semaphore, ci_release_semaphore>;

// One allocation, as arrays and Views see it; as many as hold it do.
class Memory : public std::enable_shared_from_this<Memory> {
 public:
  explicit Memory(bool owned) : owned_(owned) {}
  bool is_owned() const { return owned_; }  // by us: not the caller's own memory

  // Queued programs that read it: those that are not over yet.
  void note_reader(const Semaphore& done);
  std::vector<Semaphore> unfinished_readers();

 private:
  const bool owned_;
  std::mutex lock_;
  std::vector<Semaphore> readers_;
};

// Calls under way on a device's queue, bounded: the memory between the operations of a queued program
// comes from a pool of slabs that loses what lies in many of them, and results of calls that nobody waits for
// add up (runtime/pending.py says more).
class InFlightCalls {
 public:
  explicit InFlightCalls(bool of_gpu) : of_gpu_(of_gpu) {}

  // The slot of one call among them.  Making it waits, for the oldest calls, until the call and so many
  // bytes of the pool may be had; whether those calls failed is their results' affair.
  class Slot {
   public:
    Slot(InFlightCalls& calls, std::size_t transient_bytes, std::size_t result_bytes);
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;
    ~Slot();  // given back, if the call was not queued
    void hold_until(const Semaphore& done);  // it was

   private:
    InFlightCalls& calls_;
    const std::size_t bytes_, results_;
    bool held_ = false;
  };

 private:
  struct Queued {
    Semaphore done;
    std::size_t bytes, results;
  };
  bool fits(std::size_t bytes, std::size_t results) const;
  void drop_settled();

  const bool of_gpu_;
  std::mutex lock_;
  std::condition_variable changed_;  // a call that was being queued is, or will not be
  std::vector<Queued> queued_;       // the oldest first
  std::size_t count_ = 0, bytes_ = 0, results_ = 0;  // of those, and of the ones that are being queued
};

// The IREE devices of one device, opened at first use, for ever.  On a GPU both are the same one.
class Queues {
 public:
  Queues(std::string driver, std::size_t index)
      : driver_(std::move(driver)), index_(index), in_flight_(driver_ != "cpu") {}
  ci_device* inline_queue();  // runs a program inside the call (of the CPU: local-sync)
  ci_device* queue();         // queues it and returns (local-task)
  std::size_t index() const { return index_; }
  std::string path() const;   // IREE's name of the device (GPU-... with its UUID), or nothing
  InFlightCalls& in_flight() { return in_flight_; }

 private:
  ci_device* opened(std::atomic<ci_device*>& device, const std::string& driver);
  const std::string driver_;  // "cpu", "cuda", "vulkan"
  const std::size_t index_;
  std::atomic<ci_device*> sync_{nullptr}, task_{nullptr};
  InFlightCalls in_flight_;  // on the second
};

// Throws what IREE says, if it says something, as an Error (execution or out_of_memory).
void check(ci_error* error, const std::string& where);

// IREE's sentence without the positions in its own sources; the error is freed.
std::string text_of(ci_error* error, bool* out_of_memory = nullptr);

// Is it over, well or not?
bool is_settled(const Semaphore& semaphore);

// Is a value there?  Error (execution) if what makes it failed.
bool is_reached(const Semaphore& semaphore, const std::string& where);

// Waits until then; false if it took longer.
bool wait_for(const Semaphore& semaphore, double seconds, const std::string& where, bool of_gpu = false);

class Variant;  // module.cc: a module of an artifact

}  // namespace calque::native

namespace calque::detail {

struct FunctionImpl;

}  // namespace calque::detail

namespace calque::backend {

struct DeviceState {
  native::Queues* queues = nullptr;
};
struct Buffer {
  native::View view;
  native::Semaphore fence;  // none: the value is there
  std::shared_ptr<native::Memory> memory;
};
struct ModuleState {
  std::vector<std::shared_ptr<native::Variant>> variants;  // of each record
  std::vector<std::string> entries;                  // and its function's name in the module
  std::vector<std::size_t> storage;                  // and bytes of the memory in which it works
};
struct FunctionState {
  std::shared_ptr<native::Variant> variant;
  ci_function function{};
  std::size_t storage = 0;       // bytes of the memory in which it works, where it is given that
  std::size_t result_bytes = 0;  // that and the memory of its results, of a call under way
};
// What a call needs before it may hold arrays: its slot on the queue, if it looks as if it will be queued.
struct CallReservation {
  CallReservation(const detail::FunctionImpl& function, Span<const Array> arguments,
                  const artifact::Sizes& sizes);
  bool run_inline = false;  // where nothing has to be waited for
  std::optional<native::InFlightCalls::Slot> slot;
};

}  // namespace calque::backend
