// Times of one artifact through calque::runtime: runtime FILE SECONDS.  One line of JSON.
//
// Arguments are 1/2 everywhere.  Means over the calls of a stretch of time, as Google's benchmark
// (iree-benchmark-module) counts, after a warm-up; the best of twenty for calls that nobody waits for and for loads.
#include <calque/runtime.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class F>
double mean(double seconds, const F& body) {
  const double begin = now();
  double end = begin;
  long count = 0;
  do {
    body();
    ++count;
    end = now();
  } while (end - begin < seconds);
  return (end - begin) / static_cast<double>(count);
}

}  // namespace

int main(int count, char** words) try {
  if (count < 3) return 2;
  const double seconds = std::atof(words[2]);
  calque::Device::open("cpu");
  const calque::Module module = calque::Module::load(words[1]);
  const calque::Function f = module[module.functions()[0].name];
  std::vector<calque::Array> args;
  for (const calque::Parameter& p : f.signature().arguments) {
    calque::Shape shape;
    std::size_t size = 1;
    for (const calque::Dim& d : p.shape) {
      shape.push_back(d.size);
      size *= static_cast<std::size_t>(d.size);
    }
    args.push_back(calque::Array::from_host(std::vector<float>(size, 0.5f), shape));
  }
  const calque::Span<const calque::Array> given(args.data(), args.size());
  const auto wait = [&] { f.call(given)[0].block_until_ready(); };
  const double first = mean(0, wait);
  mean(seconds / 4, wait);
  const double waited = mean(seconds, wait);
  double called = 1e9, load = 1e9;
  for (int i = 0; i < 20; ++i) {
    std::vector<calque::Array> last;
    const double begin = now();
    for (int k = 0; k < 16; ++k) last = f.call(given);  // few: each pending result holds memory
    called = std::min(called, (now() - begin) / 16);
    last[0].block_until_ready();
    load = std::min(load, mean(0, [&] { calque::Module::load(words[1]); }));
  }
  double sum = 0;
  const calque::Array result = f.call(given)[0];
  for (const float v : result.view<float>()) sum += v;
  std::printf("{\"first\": %.9g, \"wait\": %.9g, \"call\": %.9g, \"load\": %.9g, \"sum\": %.9g}\n", first, waited,
              called, load, sum);
} catch (const calque::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
