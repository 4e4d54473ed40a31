// How a waiting thread is scheduled, and what it is again afterwards; ends of a wait that are not the value.
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "check.hpp"

using namespace calque;

namespace {

constexpr std::int64_t n = 512;

// What is there a tenth of a second later or so.
Array pending(int calls = 2) {
  static const Function slow = load("slow")["slow"];
  Array y = Array::from_host(std::vector<float>(n * n), {n, n});
  for (int i = 0; i < calls; ++i) y = slow(y)[0];
  return y;
}

int policy() { return sched_getscheduler(0); }

// What a thread of this policy is while it is in `wait`, as another one sees it; it is as before in the end.
template <class Wait>
std::set<int> seen_during(int before, Wait wait) {
  std::atomic<pid_t> id{0};
  std::atomic<bool> over{false};
  std::thread waiting([&] {
    const Array y = pending();
    const sched_param none{};
    CHECK(sched_setscheduler(0, before, &none) == 0);
    id = gettid();
    wait(y);
    over = true;
    CHECK(policy() == before);
  });
  std::set<int> seen;
  while (!over) {
    const int now = id == 0 ? -1 : sched_getscheduler(id);
    if (now >= 0 && !over) seen.insert(now);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  waiting.join();
  return seen;
}

void until_it_is_there(const Array& y) {
  y.block_until_ready();
  CHECK(y.is_ready() && y.wait_for(std::chrono::seconds(0)));
}

// A policy that is left as it is, like those of real time: its threads look again and again.
constexpr int unknown = SCHED_OTHER | SCHED_RESET_ON_FORK;

void is_scheduled(int before, int meanwhile) {
  std::set<int> seen;
  for (int i = 0; i < 20 && seen.count(meanwhile) == 0; ++i)  // a busy machine may let nobody look
    seen.merge(seen_during(before, until_it_is_there));
  CHECK(seen.erase(meanwhile) == 1);
  seen.erase(before);  // as it begins and ends
  CHECK(seen.empty());
}

void limits() {
  for (const int policy : {SCHED_OTHER, unknown})
    seen_during(policy, [](const Array& y) {
      for (const int limit : {0, 1, 70}) {  // ms: less than IREE is waited for at a time, and more
        const std::chrono::milliseconds time(limit);
        const auto start = std::chrono::steady_clock::now();
        const bool reached = y.wait_for(time);
        const auto waited = std::chrono::steady_clock::now() - start;
        CHECK(limit == 70 ? reached || waited >= time : !reached && waited >= time);
        CHECK(waited < time + std::chrono::seconds(5));
      }
      CHECK(y.wait_for(std::chrono::duration<double>(1e300)));
    });
}

void many_wait_for_one() {
  const Array y = pending();
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&y, t] {
      const int before = policy();
      while (!y.wait_for(std::chrono::microseconds(500 * t + 60))) CHECK(policy() == before);
      CHECK(policy() == before && y.is_ready());
    });
  for (std::thread& thread : threads) thread.join();
}

void failures() {
  const Function boom = load("boom")["boom"];
  const int before = policy();
  CHECK_ERROR(out_of_memory, ({"out of memory"}), boom(pending())[0].block_until_ready());
  CHECK(policy() == before);
}

}  // namespace

int main(int, char** words) {
  artifacts() = words[1];
  pending(1).block_until_ready();  // loads it
  is_scheduled(SCHED_OTHER, SCHED_BATCH);
  for (const int policy : {SCHED_BATCH, SCHED_IDLE, unknown}) is_scheduled(policy, policy);
  limits();
  many_wait_for_one();
  failures();
  return 0;
}
