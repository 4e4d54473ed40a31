#include "fork.hpp"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <string>

#include "calque/error.hpp"

namespace calque::detail {

namespace {

std::atomic<bool> forked{false}, watched{false};

}  // namespace

void watch_forks() {
  if (!watched.exchange(true)) pthread_atfork(nullptr, nullptr, [] { forked.store(true); });
}

bool is_forked() noexcept { return forked.load(std::memory_order_relaxed); }

void check_not_forked() {
  if (!is_forked()) return;
  throw Error(Code::execution,
              "this process was forked after its parent had started calque's devices; their worker "
              "threads do not exist here, and a call would wait for ever.",
              "process " + std::to_string(getpid()) + ", child of " + std::to_string(getppid()),
              "fork before the first use of calque, or start the worker as a program of its own.");
}

}  // namespace calque::detail
