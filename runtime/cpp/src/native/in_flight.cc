#include <algorithm>
#include <cmath>

#include "native/internal.hpp"

namespace calque::native {

namespace {

constexpr std::size_t kMostCalls = 32, kMostRoom = 3 * artifact::kSlab;  // as in runtime/calls.py

}  // namespace

// One call always may run.
bool InFlightCalls::fits(std::size_t room) const {
  return count_ == 0 || (count_ < kMostCalls && room_ + room <= kMostRoom);
}

void InFlightCalls::drop_settled() {
  const auto end = std::remove_if(queued_.begin(), queued_.end(), [this](const Queued& call) {
    if (!is_settled(call.done)) return false;
    --count_;
    room_ -= call.room;
    return true;
  });
  queued_.erase(end, queued_.end());
}

InFlightCalls::Slot::Slot(InFlightCalls& calls, std::size_t room)
    : calls_(calls), room_(std::min(room, artifact::kSlab)) {  // more is not taken from slabs
  std::unique_lock<std::mutex> guard(calls.lock_);
  for (;;) {
    if (!calls.fits(room_)) calls.drop_settled();
    if (calls.fits(room_)) break;
    if (calls.queued_.empty()) {  // all of them are being queued by other threads
      calls.changed_.wait(guard);
      continue;
    }
    const Semaphore oldest = calls.queued_.front().done;
    guard.unlock();
    try {
      wait_for(oldest, HUGE_VAL, "");
    } catch (const Error&) {
    }
    guard.lock();
  }
  ++calls.count_;
  calls.room_ += room_;
}

void InFlightCalls::Slot::hold_until(const Semaphore& done) {
  std::lock_guard<std::mutex> guard(calls_.lock_);
  calls_.queued_.push_back({done, room_});
  held_ = true;
  calls_.changed_.notify_all();
}

InFlightCalls::Slot::~Slot() {
  if (held_) return;
  std::lock_guard<std::mutex> guard(calls_.lock_);
  --calls_.count_;
  calls_.room_ -= room_;
  calls_.changed_.notify_all();
}

}  // namespace calque::native
