// Every kind of error, its code and its words; damaged files; memory that does not grow.
#include <unistd.h>

#include <random>

#include "check.hpp"

using namespace calque;

namespace {

const std::vector<float> kFour = {1, 2, 3, 4};

void of_calls() {
  const Module module = load("add");
  const Function add = module["add"];
  const Array x = Array::from_host(kFour, {4});
  CHECK_ERROR(arity, ({"add() takes 2 arguments, got 1.", "In add(x: float32[4], y: float32[4])",
                       "Fix: pass x, y."}),
              add(x));
  CHECK_ERROR(arity, ({"got 0"}), add());
  CHECK_ERROR(dtype, ({"y must be float32[4], got dtype float64.", "In add; argument 1 is y",
                       "Fix: make it of float32"}),
              add(x, Array::from_host(std::vector<double>{1, 2, 3, 4}, {4})));
  CHECK_ERROR(shape, ({"x must be float32[4], got shape (2, 2).", "argument 0 is x"}),
              add(Array::from_host(kFour, {2, 2}), x));
  CHECK_ERROR(invalid_argument, ({"y is an empty Array"}), add(x, Array()));
  CHECK_ERROR(not_found, ({"no function 'sub' in this module; it has add.", "Fix: "}),
              module["sub"]);
  try {
    add(x);
  } catch (const std::runtime_error& error) {  // what a catch-all sees
    const auto& ours = dynamic_cast<const Error&>(error);
    CHECK(ours.fix() == "pass x, y." && ours.where().substr(0, 4) == "add(");
    CHECK(std::string(name_of(ours.code())) == "arity");
  }
}

void of_arrays() {
  alignas(64) static float memory[64] = {};
  CHECK_ERROR(alignment, ({"aligned to 4 bytes; generated code needs 64", "Fix: "}),
              Array::wrap(Span<float>(memory + 1, 4), {4}, nullptr));
  CHECK_ERROR(shape, ({"float32[5] has 20 bytes, the memory 16"}), Array::from_host(kFour, {5}));
  CHECK_ERROR(shape, ({"negative"}), Array::from_host(kFour, {-4}));
  CHECK_ERROR(shape, ({"larger than any memory"}),
              Array::from_host(kFour, {std::int64_t{1} << 40, std::int64_t{1} << 40}));
  CHECK_ERROR(invalid_argument, ({"null pointer"}),
              Array::from_host(Span<const float>(nullptr, 4), {4}));
  CHECK_ERROR(invalid_argument, ({"empty (default-made)", "In Array::shape"}), Array().shape());
  CHECK_ERROR(invalid_argument, ({"empty"}), Array().view<float>());
  const Array x = Array::from_host(kFour, {4});
  CHECK_ERROR(dtype, ({"the array is float32[4], not of int32", "Fix: read it as float32"}),
              x.view<std::int32_t>());
  float three[3];
  CHECK_ERROR(shape, ({"float32[4] has 4 elements, not 3"}), x.to_host(Span<float>(three, 3)));
  CHECK_ERROR(shape, ({"not 1"}), x.item<float>());
  Array gone = Array::from_host(kFour, {4});
  gone.release();
  gone.release();  // again: nothing
  CHECK(gone.is_deleted());
  CHECK_ERROR(deleted, ({"Array has been deleted with shape=float32[4]"}), gone.view<float>());
  CHECK_ERROR(deleted, ({"deleted"}), gone.is_ready());
  CHECK_ERROR(deleted, ({"deleted"}), gone.block_until_ready());
}

void of_devices() {
  CHECK_ERROR(unavailable, ({"no such platform", "Device::open(\"tpu\")", "cpu, cuda or vulkan"}),
              Device::open("tpu"));
  CHECK_ERROR(unavailable, ({"there is no device cpu:7"}), Device::open("cpu:7"));
  CHECK_ERROR(unavailable, ({"names no device"}), Device::open("cpu:x"));
#ifndef __SANITIZE_ADDRESS__  // drivers leak
  for (const char* name : {"cuda", "vulkan"}) {
    try {
      Device::open(name);
    } catch (const Error& error) {
      CHECK(error.code() == Code::unavailable && !error.fix().empty());
    }
  }
#endif
  CHECK_ERROR(artifact, ({"is compiled for cuda, and cpu:0 is a cpu device", "for_cuda.vmfb"}),
              load("for_cuda"));
  CHECK_ERROR(artifact, ({"is compiled for aarch64, this machine is"}), load("for_arm"));
  const Array one = Array::scalar(1.0f);
  CHECK_ERROR(out_of_memory, ({"out of memory", "Fix: "}), {
    const std::vector<Array> results = load("huge")["huge"](one);
    results[0].block_until_ready();
  });
  CHECK(one.is_deleted());  // the call took it over before it failed
  CHECK_ERROR(deleted, ({"argument 0 is x"}), load("huge")["huge"](one));
}

void of_files() {
  CHECK_ERROR(artifact, ({"Fix: "}), {  // a program with callbacks, which no C++ program can answer
    const Array x = Array::from_host(kFour, {4});
    load("callback")["back"](x);
  });
  CHECK_ERROR(artifact, ({"cannot read nowhere.vmfb", "Fix: check the path"}),
              Module::load("nowhere.vmfb"));
  CHECK_ERROR(artifact, ({"Fix: "}), Module::load("/"));
  CHECK_ERROR(artifact, ({"not a .vmfb"}), Module::load(Span<const std::uint8_t>()));
  const std::string text = "#!/bin/sh\nexit 0\n";
  const std::vector<std::uint8_t> script(text.begin(), text.end());
  CHECK_ERROR(artifact, ({"not a .vmfb", "Fix: "}), Module::load(script));
  const std::vector<std::uint8_t> whole = bytes_of("add");
  for (const std::size_t size : {std::size_t{3}, std::size_t{64}, std::size_t{100}, whole.size() / 4,
                                 whole.size() / 2}) {
    const std::vector<std::uint8_t> part(whole.begin(), whole.begin() + static_cast<long>(size));
    CHECK_ERROR(artifact, ({"Fix: "}), Module::load(part));
  }
}

// Files with single changes: loaded as they are, or refused with an error of ours, never a crash.
// (A change in the machine code itself cannot be seen; such modules are not called.)
void of_damaged_files() {
  const std::vector<std::uint8_t> whole = bytes_of("add");
  std::mt19937 random(7);
  int refused = 0;
  for (int round = 0; round < 400; ++round) {
    std::vector<std::uint8_t> damaged = whole;
    damaged[random() % damaged.size()] ^= static_cast<std::uint8_t>(1u << random() % 8);
    try {
      Module::load(damaged);
    } catch (const Error& error) {
      CHECK(error.code() == Code::artifact && !error.fix().empty());
      ++refused;
    }
  }
  CHECK(refused > 0);
}

std::size_t resident_pages() {
  std::ifstream file("/proc/self/statm");
  std::size_t total = 0, resident = 0;
  file >> total >> resident;
  return resident;
}

// `calls` calls and as many errors leave the memory as it is.
void memory_stays(int calls) {
  const Function add = load("add")["add"];
  const Array x = Array::from_host(kFour, {4});
  const auto work = [&](int count) {
    for (int i = 0; i < count; ++i) {
      add(add(x, x)[0], x)[0].view<float>();
      if (i % 10 == 0) CHECK_ERROR(arity, ({"got 1"}), add(x));
    }
  };
  work(2000);
  const std::size_t before = resident_pages();
  work(calls);
  const std::size_t grown = (resident_pages() - before) * static_cast<std::size_t>(getpagesize());
  if (static_cast<std::ptrdiff_t>(grown) > 0) CHECK(grown < std::size_t{1} << 20);  // 1 MiB
}

}  // namespace

int main(int count, char** words) {
  artifacts() = words[1];
  of_calls();
  of_arrays();
  of_devices();
  of_files();
  of_damaged_files();
  (void)count;
#ifndef __SANITIZE_ADDRESS__  // whose quarantine grows by design
  memory_stays(count > 2 ? std::atoi(words[2]) : 20000);
#endif
  return 0;
}
