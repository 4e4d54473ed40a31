// Donated arguments: their memory becomes the result's, they are gone, and nobody else sees it.
#include <atomic>
#include <thread>

#include "check.hpp"

using namespace calque;

namespace {

constexpr std::int64_t n = 1000;

Array filled(float value) { return Array::from_host(std::vector<float>(n, value), {n}); }

void in_place() {
  const Function update = load("update")["update"];
  const Array one = filled(1);
  Array state = filled(0);
  const void* memory = state.view<float>().data();
  for (int i = 0; i < 10; ++i) {
    const Array before = state;
    state = update(state, one)[0];
    CHECK(before.is_deleted() && !state.is_deleted());
    CHECK_ERROR(deleted, ({"Array has been deleted with shape=float32[1000]", "Fix: "}),
                before.view<float>());
    CHECK_ERROR(deleted, ({"In update; argument 0 is state"}), update(before, one));
    CHECK_ERROR(deleted, ({"In update; argument 1 is x"}), update(filled(0), before));
    CHECK(before.shape() == Shape{n} && before.dtype() == DType::float32);  // what it was, is known
  }
  CHECK(state.view<float>()[999] == 10 && state.view<float>().data() == memory);
}

void not_while_it_is_seen() {
  const Function update = load("update")["update"];
  const Array one = filled(1);
  const Array state = filled(5);
  const View<float> view = state.view<float>();
  const Array result = update(state, one)[0];
  CHECK(state.is_deleted() && view[0] == 5 && view[999] == 5);  // the call worked on a copy
  CHECK(result.view<float>()[0] == 6);
  alignas(64) static float memory[n] = {};  // wrapped memory is the caller's
  const Array wrapped = Array::wrap(Span<float>(memory, n), {n}, nullptr);
  CHECK(update(wrapped, one)[0].view<float>()[7] == 1 && memory[7] == 0);
  CHECK(wrapped.is_deleted());
  const Array both = filled(3);  // read and taken over by the same call
  CHECK(update(both, both)[0].view<float>()[1] == 6 && both.is_deleted());
}

void after_a_refused_call() {
  const Function update = load("update")["update"];
  const Array state = filled(5), one = filled(1);
  CHECK_ERROR(shape, ({"x must be float32[1000]"}), update(state, Array::scalar(1.0f)));
  const Array gone = filled(1);
  Array(gone).release();
  CHECK_ERROR(deleted, ({"argument 1 is x"}), update(state, gone));
  CHECK(gone.is_deleted() && !state.is_deleted());
  CHECK(update(state, one)[0].view<float>()[0] == 6);
}

// Of several threads that give the same array away, one wins; readers see the old value or an error.
void races() {
  const Function update = load("update")["update"];
  const Array one = filled(1);
  for (int round = 0; round < 100; ++round) {
    const Array state = filled(1);
    std::atomic<int> won{0}, lost{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        try {
          if (t % 2 == 0) {
            CHECK(update(state, one)[0].view<float>()[3] == 2);
            ++won;
          } else {
            CHECK(state.view<float>()[3] == 1);
          }
        } catch (const Error& error) {
          CHECK(error.code() == Code::deleted);
          if (t % 2 == 0) ++lost;
        }
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(won == 1 && lost == 1 && state.is_deleted());
  }
}

}  // namespace

int main(int, char** words) {
  artifacts() = words[1];
  in_place();
  not_while_it_is_seen();
  after_a_refused_call();
  races();
  return 0;
}
