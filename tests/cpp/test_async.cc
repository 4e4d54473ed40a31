// Futures: calls that return at once, chains, waiting, memory that is wrapped, many threads.
#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

#include "check.hpp"

using namespace calque;

namespace {

constexpr std::int64_t n = 256;

std::vector<float> pattern(float scale) {
  std::vector<float> made(n * n);
  for (std::size_t i = 0; i < made.size(); ++i)
    made[i] = scale * static_cast<float>(static_cast<int>(i * 7919 % 201) - 100) / 100;
  return made;
}

// tanh(x @ w) in double precision.
std::vector<double> reference_step(const std::vector<double>& x, const std::vector<float>& w) {
  std::vector<double> made(n * n, 0.0);
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t k = 0; k < n; ++k)
      for (std::int64_t j = 0; j < n; ++j)
        made[i * n + j] += x[i * n + k] * static_cast<double>(w[k * n + j]);
  for (double& value : made) value = std::tanh(value);
  return made;
}

void chain() {
  const std::vector<float> x = pattern(1), w = pattern(0.1f);
  const Array weights = Array::from_host(w, {n, n});
  const Function step = load("step")["step"];
  Array y = Array::from_host(x, {n, n});
  std::vector<double> expected(x.begin(), x.end());
  for (int i = 0; i < 6; ++i) {
    y = step(y, weights)[0];
    expected = reference_step(expected, w);
  }
  y.block_until_ready();
  CHECK(y.is_ready() && y.wait_for(std::chrono::seconds(0)));
  const View<float> got = y.view<float>();
  // Six products of 256 terms in f32: each step loses some 256 eps / 2 of values of about 1.
  for (std::size_t i = 0; i < got.size(); ++i)
    CHECK(std::abs(static_cast<double>(got[i]) - expected[i]) < 1e-4);
}

void returns_at_once() {
  const Function slow = load("slow")["slow"];
  std::vector<float> zeros(512 * 512);
  const Array x = Array::from_host(zeros, {512, 512});
  slow(x)[0].block_until_ready();  // loads it
  const auto start = std::chrono::steady_clock::now();
  Array y = slow(x)[0];
  for (int i = 0; i < 7; ++i) y = slow(y)[0];
  const auto returned = std::chrono::steady_clock::now() - start;
  const bool was_ready = y.is_ready();
  const bool in_time = y.wait_for(std::chrono::microseconds(10));
  CHECK(!was_ready && !in_time);
  while (!y.wait_for(std::chrono::milliseconds(100))) {
  }
  const auto done = std::chrono::steady_clock::now() - start;
  CHECK(y.is_ready() && returned < done / 2);
  CHECK(y.view<float>()[12345] == 0);
}

// A program that fails under way says so where its result, or what is made of it, is waited for.
void failures_travel() {
  const Function slow = load("slow")["slow"], boom = load("boom")["boom"];
  const Array x = Array::from_host(std::vector<float>(512 * 512), {512, 512});
  slow(x)[0].block_until_ready();
  Array failed, behind;
  bool made = false;
  for (int attempt = 0; !made; ++attempt) {
    CHECK(attempt < 20);
    try {  // It waits for its argument, so it returns; unless this thread is too slow on a busy machine.
      failed = boom(slow(slow(x)[0])[0])[0];
      behind = slow(slow(failed)[0])[0];
      made = true;
    } catch (const Error& error) {
      CHECK(error.code() == Code::out_of_memory);
    }
  }
  for (int i = 0; i < 2; ++i) {
    CHECK_ERROR(out_of_memory, ({"out of memory", "Fix: "}), behind.block_until_ready());
    CHECK_ERROR(out_of_memory, ({"out of memory"}), failed.view<float>());
    CHECK(!behind.is_ready() && !failed.is_ready() && !failed.is_deleted());
  }
  CHECK(slow(x)[0].view<float>()[1] == 0);  // the device goes on
}

// The memory of a wrapped array is held until the last call that reads it is over, and not longer.
void wrapped_memory() {
  const std::vector<float> w = pattern(0.1f);
  const Function step = load("step")["step"];
  std::atomic<int> freed{0};
  std::vector<Array> results;
  for (int i = 0; i < 20; ++i) {
    void* memory = std::aligned_alloc(Array::alignment, n * n * sizeof(float));
    CHECK(memory != nullptr);
    std::memcpy(memory, w.data(), n * n * sizeof(float));
    std::shared_ptr<void> keep(memory, [&freed](void* gone) {
      std::memset(gone, 0xff, n * n * sizeof(float));  // NaNs, for whoever still reads
      std::free(gone);
      ++freed;
    });
    const Array x = Array::wrap(Span<float>(static_cast<float*>(memory), n * n), {n, n}, keep);
    CHECK(x.view<float>().data() == memory);
    results.push_back(step(x, x)[0]);
  }
  for (const Array& y : results) CHECK(std::isfinite(y.view<float>()[77]));
  const Array other = step(Array::from_host(w, {n, n}), Array::from_host(w, {n, n}))[0];
  CHECK(results[19].view<float>()[77] == other.view<float>()[77]);
  results.clear();
  for (int i = 0; i < 500 && freed != 20; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));  // the queue lets go on its own
  CHECK(freed == 20);
}

void many_threads() {
  const Module module = load("add");
  const Function step = load("step")["step"];
  const std::vector<float> w = pattern(0.1f);
  const Array weights = Array::from_host(w, {n, n});
  const std::vector<float> expected = step(weights, weights)[0].to_vector<float>();
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const Function add = module["add"];
      const std::vector<float> one(4, 1.0f);
      const Array step_size = Array::from_host(one, {4});
      Array sum = Array::from_host(std::vector<float>(4, static_cast<float>(t)), {4});
      for (int i = 0; i < 500; ++i) {
        sum = add(sum, step_size)[0];
        if (i % 50 == t) CHECK(step(weights, weights)[0].to_vector<float>() == expected);
      }
      CHECK(sum.view<float>()[3] == static_cast<float>(t + 500));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

int main(int, char** words) {
  artifacts() = words[1];
  chain();
  returns_at_once();
  failures_travel();
  wrapped_memory();
  many_threads();
  return 0;
}
