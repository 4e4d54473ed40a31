#include <algorithm>
#include <cmath>

#include "native/internal.hpp"

namespace calque::native {

namespace {

constexpr std::size_t kMostCalls = 32, kMostRoom = 3 * artifact::kSlab;  // as in runtime/pending.py

}  // namespace

// One call always may run.
bool Pending::fits(std::size_t room) const {
  return calls_ == 0 || (calls_ < kMostCalls && room_ + room <= kMostRoom);
}

void Pending::drop_settled() {
  const auto end = std::remove_if(queued_.begin(), queued_.end(), [this](const Queued& call) {
    if (!is_settled(call.done)) return false;
    --calls_;
    room_ -= call.room;
    return true;
  });
  queued_.erase(end, queued_.end());
}

Pending::Place::Place(Pending& pending, std::size_t room)
    : pending_(pending), room_(std::min(room, artifact::kSlab)) {  // more is not taken from slabs
  std::unique_lock<std::mutex> guard(pending.lock_);
  for (;;) {
    if (!pending.fits(room_)) pending.drop_settled();
    if (pending.fits(room_)) break;
    if (pending.queued_.empty()) {  // all of them are being queued by other threads
      pending.changed_.wait(guard);
      continue;
    }
    const Semaphore oldest = pending.queued_.front().done;
    guard.unlock();
    try {
      wait_for(oldest, HUGE_VAL, "");
    } catch (const Error&) {
    }
    guard.lock();
  }
  ++pending.calls_;
  pending.room_ += room_;
}

void Pending::Place::hold_until(const Semaphore& done) {
  std::lock_guard<std::mutex> guard(pending_.lock_);
  pending_.queued_.push_back({done, room_});
  held_ = true;
  pending_.changed_.notify_all();
}

Pending::Place::~Place() {
  if (held_) return;
  std::lock_guard<std::mutex> guard(pending_.lock_);
  --pending_.calls_;
  pending_.room_ -= room_;
  pending_.changed_.notify_all();
}

}  // namespace calque::native
