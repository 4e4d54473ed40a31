// Times of calls, loads and the start: bench FOLDER [calls].  Prints one line each, best of rounds.
//
// Beside the clock on the wall stands the processor time of the calling thread, which other
// programs on the machine disturb less.
#include <time.h>

#include <chrono>
#include <functional>
#include <thread>

#include "check.hpp"

using namespace calque;

namespace {

double seconds_of(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// `alone`: nothing of it runs in other threads of ours.
void report(const char* what, int rounds, int repeats, const std::function<void()>& body,
            bool alone = true) {
  double wall = 1e9, cpu = 1e9;
  for (int round = 0; round < rounds; ++round) {
    const double w = seconds_of(CLOCK_MONOTONIC), c = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < repeats; ++i) body();
    wall = std::min(wall, (seconds_of(CLOCK_MONOTONIC) - w) / repeats);
    cpu = std::min(cpu, (seconds_of(CLOCK_THREAD_CPUTIME_ID) - c) / repeats);
  }
  std::printf("%-42s %10.2f us", what, 1e6 * wall);
  if (alone) std::printf("  (thread %10.2f us)", 1e6 * cpu);
  std::printf("\n");
}

std::vector<Array> zeros(const Function& function) {
  std::vector<Array> made;
  for (const Parameter& argument : function.signature().arguments) {
    Shape shape;
    std::size_t size = size_of(argument.dtype);
    for (const Dim& dim : argument.shape) {
      shape.push_back(dim.size);
      size *= static_cast<std::size_t>(dim.size);
    }
    const std::vector<std::uint8_t> memory(size);
    made.push_back(Array::copy_bytes(memory.data(), size, argument.dtype, shape));
  }
  return made;
}

}  // namespace

int main(int count, char** words) {
  artifacts() = words[1];
  const int calls = count > 2 ? std::atoi(words[2]) : 2000;
  report("start (first Device::open)", 1, 1, [] { Device::open("cpu"); });
  report("load of add.vmfb", 20, 1, [] { load("add"); });
  const Function add = load("add")["add"];
  const std::vector<Array> small = zeros(add);
  report("first call of it", 1, 1, [&] { add(small[0], small[1]); });
  report("call of add (4 floats)", 50, calls, [&] { add(small[0], small[1]); });
  report("the same, result read", 50, calls, [&] { add(small[0], small[1])[0].view<float>(); });
  const float four[4] = {1, 2, 3, 4};
  report("Array::from_host of 4 floats", 50, calls,
         [&] { Array::from_host(Span<const float>(four, 4), {4}); });
  for (const int threads : {2, 8})
    report(("a call of add, from " + std::to_string(threads) + " threads").c_str(), 10,
           threads * calls / 8, [&, left = 0]() mutable {
             if (left++ % (threads * calls / 8) != 0) return;  // all of them in one go
             std::vector<std::thread> running;
             for (int t = 0; t < threads; ++t)
               running.emplace_back([&] {
                 for (int i = 0; i < calls / 8; ++i) add(small[0], small[1]);
               });
             for (std::thread& thread : running) thread.join();
           }, false);
  const Function matmul = load("matmul")["matmul"];
  const std::vector<Array> large = zeros(matmul);
  report("matmul of 1024: until it returns", 10, 1, [&] { matmul(large[0], large[1]); });
  report("matmul of 1024: until it is there", 20, 1,
         [&] { matmul(large[0], large[1])[0].block_until_ready(); });
  return 0;
}
