// Eight threads at once, from the very first use on: devices, loads, calls on shared arrays, donations,
// releases, modules that end while their programs run.
#include <atomic>
#include <thread>

#include "check.hpp"

using namespace calque;

namespace {

constexpr std::int64_t n = 256;

Array filled(float value, std::int64_t size) {
  return Array::from_host(std::vector<float>(static_cast<std::size_t>(size), value), {size});
}

// Shared by all threads: made by whoever comes first.
struct Shared {
  const Module add = load("add");
  const Function sum = add["add"];
  const Array ones = filled(1, 4);
  const std::vector<float> zeros = std::vector<float>(n * n);
  const Array large = Array::from_host(zeros, {n, n});
};
Shared& shared() {
  static auto* made = new Shared();
  return *made;
}

void add_up() {
  Array total = shared().ones;
  for (int i = 0; i < 50; ++i) total = shared().sum(total, shared().ones)[0];
  CHECK(total.view<float>()[2] == 51);
}

// The module ends before its program, and results that nobody takes.
void forget() {
  const Array y = load("step")["step"](shared().large, shared().large)[0];
  load("step")["step"](y, shared().large);
  CHECK(y.view<float>()[9] == 0);
}

void donate() {
  const Function update = load("update")["update"];
  const Array one = filled(1, 1000);
  Array state = filled(0, 1000);
  for (int i = 0; i < 20; ++i) {
    const Array before = state;
    const View<float> seen = i % 3 == 0 ? before.view<float>() : View<float>(nullptr, 0, nullptr);
    state = update(state, one)[0];
    CHECK(before.is_deleted() && (seen.empty() || seen[0] == static_cast<float>(i)));
  }
  CHECK(state.view<float>()[999] == 20);
}

// Readers of an array that another thread releases: the value, or that it is gone.
void release(Array array) {
  std::thread other([&array] { Array(array).release(); });
  for (int i = 0; i < 20; ++i) {
    try {
      CHECK(shared().sum(array, array)[0].view<float>()[1] == 6);
      CHECK(array.wait_for(std::chrono::seconds(1)) && array.is_ready());
    } catch (const Error& error) {
      CHECK(error.code() == Code::deleted);
    }
  }
  other.join();
  CHECK(array.is_deleted());
}

}  // namespace

int main(int, char** words) {
  artifacts() = words[1];
  std::atomic<int> waiting{8};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      --waiting;
      while (waiting > 0) std::this_thread::yield();
      for (int round = 0; round < 12; ++round) {
        switch ((round + t) % 4) {
          case 0: add_up(); break;
          case 1: forget(); break;
          case 2: donate(); break;
          default: release(filled(3, 4));
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  return 0;
}
