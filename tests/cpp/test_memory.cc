// Calls that are queued leave memory as it is: results that are kept and dropped, calls that nobody waits
// for, from one thread and from several.
#include <unistd.h>

#include <cmath>
#include <thread>

#include "check.hpp"

using namespace calque;

namespace {

// Resident memory of this process in MiB.
double resident() {
  std::ifstream file("/proc/self/statm");
  double size = 0, pages = 0;
  file >> size >> pages;
  return pages * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

Array filled(Shape shape, float value) {
  return Array::from_host(std::vector<float>(static_cast<std::size_t>(shape[0] * shape[1]), value), shape);
}

// 400 MiB of results lie in seven slabs of IREE's queue where it has them there; it finds five again.
void kept_and_dropped() {
  const Function wide = load("wide")["wide"];
  const Array x = filled({512, 512}, 0);
  double third = 0;
  for (int round = 1; round <= 8; ++round) {
    std::vector<Array> results;
    for (int i = 0; i < 400; ++i) results.push_back(wide(x)[0]);
    for (const Array& result : results) CHECK(result.view<float>()[77] == 2);
    results.clear();
    if (round == 3) third = resident();
  }
  std::printf("results of 1 MiB: %.0f MiB after round 3, %.0f after round 8\n", third, resident());
  CHECK(resident() < third + 100);  // a slab has 64
}

// Each call takes 4 MiB while it runs, 800 all together.  192 at most, three slabs, may be taken at a time; a
// fourth may have been opened for what did not fit, and 200 results of 32 KiB are kept.
void fired() {
  const Function between = load("between")["between"];
  const Array x = filled({1024, 8}, 1);
  between(x)[0].block_until_ready();
  const double before = resident();
  double most = before;
  std::vector<Array> results;
  for (int i = 0; i < 200; ++i) {
    results.push_back(between(x)[0]);
    most = std::max(most, resident());
  }
  for (const Array& result : results) CHECK(result.view<float>()[9] == 1024 * 8);
  most = std::max(most, resident());
  std::printf("200 calls by way of 4 MiB: %.0f MiB more\n", most - before);
  CHECK(most - before < 4 * 64 + 200 / 32 + 8);
}

// Threads wait for each other's calls: none for ever, also where nobody takes the results.
void several_threads() {
  const Module module = load("between");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&module] {
      const Function between = module["between"];
      const Array x = filled({1024, 8}, 0);
      Array y = x;
      for (int i = 0; i < 50; ++i) y = between(i % 2 == 0 ? y : x)[0];
      CHECK(y.view<float>()[5] == 0);
    });
  for (std::thread& thread : threads) thread.join();
}

// Calls that failed count no longer, and their failure is their own.
void behind_failures() {
  const Function boom = load("boom")["boom"], wide = load("wide")["wide"];
  const Array x = filled({512, 512}, 0);
  for (int i = 0; i < 40; ++i) {
    try {
      boom(wide(x)[0]);
    } catch (const Error& error) {  // the queue was there first
      CHECK(error.code() == Code::out_of_memory);
    }
  }
  CHECK(wide(x)[0].view<float>()[3] == 2);
}

}  // namespace

int main(int, char** words) {
  artifacts() = words[1];
  fired();  // first: while there is no memory yet that lies idle
  kept_and_dropped();
  several_threads();
  behind_failures();
  return 0;
}
