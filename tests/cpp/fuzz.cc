// Random sequences of what a program may do, beside a model of the values: fuzz FOLDER [seconds]
// [seed].  Under sanitizers it looks for bad addresses and leaks; the values are checked always.
#include <chrono>
#include <cmath>
#include <list>
#include <random>

#include "check.hpp"

using namespace calque;

namespace {

constexpr std::int64_t n = 1000, side = 512;

struct Item {
  Array array;
  std::vector<float> value;  // what the array should hold
  bool gone = false;
};

struct Queued {
  Array array;
  double expected;  // of each element
};

struct Looked {
  View<float> view;
  std::vector<float> value;
};

class Fuzz {
 public:
  explicit Fuzz(unsigned seed)
      : random_(seed), update_(load("update")["update"]), add_(load("add")["add"]),
        wide_(load("wide")["wide"]), whole_(bytes_of("update")) {}

  void step() {
    if (random_() % 64 == 0) return queue();
    switch (random_() % 10) {
      case 0: return make();
      case 1: return wrap();
      case 2: return copy_handle();
      case 3: return look();
      case 4: return forget();
      case 5: return give_up();
      case 6: return wrong_call();
      case 7: return random_() % 8 == 0 ? damaged_file() : call();
      default: return call();
    }
  }

  void finish() {
    for (const Item& item : items_) check(item);
    for (const Queued& item : queued_) check(item);
  }

 private:
  std::vector<float> values() {
    return std::vector<float>(n, static_cast<float>(random_() % 64));
  }

  Item& any() {
    if (items_.empty()) make();
    return *std::next(items_.begin(), static_cast<long>(random_() % items_.size()));
  }

  void make() {
    std::vector<float> value = values();
    items_.push_back({Array::from_host(value, {n}), value});
  }

  void wrap() {
    const std::vector<float> value = values();
    std::shared_ptr<void> memory(std::aligned_alloc(64, 4096), std::free);
    std::memcpy(memory.get(), value.data(), n * sizeof(float));
    items_.push_back(
        {Array::wrap(Span<float>(static_cast<float*>(memory.get()), n), {n}, memory), value});
  }

  // Two handles of one array: donated by one, gone for both.
  void copy_handle() {
    const Item& item = any();
    Array again = item.array;
    CHECK(again.is_deleted() == item.gone);
    if (!item.gone) check(item);
  }

  void check(const Item& item) {
    if (item.gone) {
      CHECK_ERROR(deleted, ({"Array has been deleted"}), item.array.view<float>());
    } else {
      CHECK(item.array.to_vector<float>() == item.value);
    }
  }

  void look() {
    const Item& item = any();
    if (!item.gone) looked_.push_back({item.array.view<float>(), item.value});
    while (looked_.size() > 4) {
      const Looked& old = looked_.front();  // unchanged, whatever was donated since
      CHECK(std::equal(old.view.begin(), old.view.end(), old.value.begin()));
      looked_.pop_front();
    }
  }

  void forget() {
    while (items_.size() > 12)
      items_.erase(std::next(items_.begin(), static_cast<long>(random_() % items_.size())));
  }

  void give_up() {
    Item& item = any();
    if (random_() % 3 == 0) {
      item.array.release();
      item.gone = true;
    }
  }

  // wide(x) = 2 exp(sin x) + x is queued: arguments that nobody else holds, results that nobody waits for.
  void queue() {
    const float x = static_cast<float>(random_() % 64) / 16;
    if (random_() % 4 != 0) {
      const Array filled = Array::from_host(std::vector<float>(side * side, x), {side, side});
      queued_.push_back({wide_(filled)[0], 2 * std::exp(std::sin(static_cast<double>(x))) + x});
    } else if (!queued_.empty()) {
      check(queued_[random_() % queued_.size()]);
      queued_.erase(queued_.begin(), queued_.begin() + static_cast<long>(random_() % queued_.size()));
    }
  }

  void check(const Queued& item) {
    const View<float> view = item.array.view<float>();
    for (int i = 0; i < 4; ++i)  // exp and sin of f32: a few units in the last place
      CHECK(std::abs(view[random_() % view.size()] - item.expected) < 1e-5 * item.expected);
  }

  // update(state, x) = state + x takes over its first argument.
  void call() {
    Item& state = any();
    Item& x = any();
    try {
      Array result = update_(state.array, x.array)[0];
      CHECK(!state.gone && !x.gone);
      std::vector<float> value(n);
      for (std::size_t i = 0; i < value.size(); ++i) value[i] = state.value[i] + x.value[i];
      state.gone = true;
      if (value[0] > 1e6f) return;
      items_.push_back({result, value});
    } catch (const Error& error) {
      CHECK(error.code() == Code::deleted && (state.gone || x.gone));
    }
  }

  void wrong_call() {
    const Item& item = any();
    CHECK_ERROR(arity, ({"takes 2 arguments, got 1"}), update_(item.array));
    CHECK_ERROR(shape, ({"got shape (1000,)"}), add_(item.array, item.array));
    CHECK_ERROR(dtype, ({"got dtype int32"}), update_(item.array, Array::scalar(1)));
    CHECK(item.array.is_deleted() == item.gone);
  }

  void damaged_file() {
    std::vector<std::uint8_t> bytes = whole_;
    if (random_() % 2 == 0) bytes.resize(random_() % bytes.size());
    if (!bytes.empty())
      bytes[random_() % bytes.size()] ^= static_cast<std::uint8_t>(1u << random_() % 8);
    try {
      Module::load(bytes);
    } catch (const Error& error) {
      CHECK(error.code() == Code::artifact && !error.fix().empty());
    }
  }

  std::mt19937 random_;
  Function update_, add_, wide_;
  std::vector<std::uint8_t> whole_;
  std::list<Item> items_;
  std::vector<Queued> queued_;
  std::list<Looked> looked_;
};

}  // namespace

int main(int count, char** words) {
  artifacts() = words[1];
  const double seconds = count > 2 ? std::atof(words[2]) : 2;
  const unsigned first = count > 3 ? static_cast<unsigned>(std::atoi(words[3])) : 1;
  const auto start = std::chrono::steady_clock::now();
  long steps = 0;
  for (unsigned seed = first;; ++seed) {
    Fuzz fuzz(seed);
    for (int i = 0; i < 2000; ++i, ++steps) fuzz.step();
    fuzz.finish();
    const auto passed = std::chrono::steady_clock::now() - start;
    if (std::chrono::duration<double>(passed).count() > seconds) break;
  }
  std::printf("%ld steps\n", steps);
  return 0;
}
