#include <algorithm>
#include <cmath>

#include "native/internal.hpp"

namespace calque::native {

namespace {

constexpr std::size_t kMostCalls = 32, kMostBytes = 3 * artifact::kSlab;  // as in runtime/pending.py
constexpr std::size_t kMostResults = std::size_t{32} << 20, kMostResultsOfGpu = std::size_t{1} << 30;

}  // namespace

// One call always may run, and another wait for it.
bool InFlightCalls::fits(std::size_t bytes, std::size_t results) const {
  return count_ == 0 ||
         (count_ < kMostCalls && bytes_ + bytes <= kMostBytes &&
          (count_ < 2 || results_ + results <= (of_gpu_ ? kMostResultsOfGpu : kMostResults)));
}

void InFlightCalls::drop_settled() {
  const auto end = std::remove_if(queued_.begin(), queued_.end(), [this](const Queued& call) {
    if (!is_settled(call.done)) return false;
    --count_;
    bytes_ -= call.bytes;
    results_ -= call.results;
    return true;
  });
  queued_.erase(end, queued_.end());
}

InFlightCalls::Slot::Slot(InFlightCalls& calls, std::size_t transient_bytes, std::size_t result_bytes)
    : calls_(calls),
      bytes_(std::min(transient_bytes, artifact::kSlab)),  // more is not taken from slabs
      results_(result_bytes) {
  std::unique_lock<std::mutex> guard(calls.lock_);
  for (;;) {
    if (!calls.fits(bytes_, results_)) calls.drop_settled();
    if (calls.fits(bytes_, results_)) break;
    if (calls.queued_.empty()) {  // all of them are being queued by other threads
      calls.changed_.wait(guard);
      continue;
    }
    const Semaphore oldest = calls.queued_.front().done;
    guard.unlock();
    try {
      wait_for(oldest, HUGE_VAL, "", calls.of_gpu_);
    } catch (const Error&) {
    }
    guard.lock();
  }
  ++calls.count_;
  calls.bytes_ += bytes_;
  calls.results_ += results_;
}

void InFlightCalls::Slot::hold_until(const Semaphore& done) {
  std::lock_guard<std::mutex> guard(calls_.lock_);
  calls_.queued_.push_back({done, bytes_, results_});
  held_ = true;
  calls_.changed_.notify_all();
}

InFlightCalls::Slot::~Slot() {
  if (held_) return;
  std::lock_guard<std::mutex> guard(calls_.lock_);
  --calls_.count_;
  calls_.bytes_ -= bytes_;
  calls_.results_ -= results_;
  calls_.changed_.notify_all();
}

}  // namespace calque::native
