// How a thread waits for IREE; runtime/waiting.py does the same and says why.
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <thread>

#include "native/backend.hpp"

namespace calque::native {

namespace {

constexpr double kYielding = 5e-5;  // s: so long a waiting thread only gives way
constexpr double kLooking = 1e-3;   // the same for a GPU
constexpr double kBlocked = 0.05;   // at a time: `seconds` may be any number
constexpr double kFirstRest = 1e-4, kLongestRest = 1e-3;  // where threads can't be SCHED_BATCH

// While it lives, its thread is never put ahead of IREE's workers: `granted`, where that may be had.
class Behind {
 public:
#ifdef SCHED_BATCH
  Behind() {
    const int policy = sched_getscheduler(0);
    taken_ = policy == SCHED_OTHER && take(SCHED_BATCH);
    granted_ = taken_ || policy == SCHED_BATCH || policy == SCHED_IDLE;
  }
  ~Behind() {
    if (taken_) take(SCHED_OTHER);
  }
  Behind(const Behind&) = delete;
  Behind& operator=(const Behind&) = delete;
  bool granted() const { return granted_; }

 private:
  static bool take(int policy) {
    const sched_param none{};
    return sched_setscheduler(0, policy, &none) == 0;
  }
  bool taken_ = false, granted_ = false;
#else
  bool granted() const { return false; }
#endif
};

}  // namespace

bool is_settled(const Semaphore& semaphore) {
  bool reached = false;
  if (ci_error* error = ci_query(semaphore.get(), &reached)) {
    ci_free_error(error);
    return true;
  }
  return reached;
}

bool is_reached(const Semaphore& semaphore, const std::string& where) {
  bool reached = false;
  check(ci_query(semaphore.get(), &reached), where);
  return reached;
}

bool wait_for(const Semaphore& semaphore, double seconds, const std::string& where, bool of_gpu) {
  using Seconds = std::chrono::duration<double>;
  const auto start = std::chrono::steady_clock::now();
  std::optional<Behind> behind;
  bool reached = is_reached(semaphore, where);
  while (!reached) {
    const double waited = Seconds(std::chrono::steady_clock::now() - start).count();
    const double left = seconds - waited;
    if (left <= 0) return false;
    if (waited >= (of_gpu ? kLooking : kYielding) && !behind) behind.emplace();
    if (behind && behind->granted()) {
      const auto nanoseconds = std::llround(std::min(kBlocked, left) * 1e9);
      check(ci_wait(semaphore.get(), nanoseconds, &reached), where);
      continue;
    }
    if (behind) {
      const double rest = std::clamp(waited / 64, kFirstRest, kLongestRest);
      std::this_thread::sleep_for(Seconds(std::min(rest, left)));
    } else {
      sched_yield();
    }
    reached = is_reached(semaphore, where);
  }
  return true;
}

}  // namespace calque::native
