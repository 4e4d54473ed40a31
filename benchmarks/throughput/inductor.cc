// Times of one AOTInductor package through libtorch: inductor FILE SECONDS SHAPE...  One line of JSON.
//
// A shape is 64x784; arguments are 1/2 everywhere.  Counts as runtime.cc does.
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/torch.h>

#include <chrono>
#include <cstdio>
#include <sstream>

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

int main(int count, char** words) {
  if (count < 4) return 2;
  const double seconds = std::atof(words[2]);
  c10::InferenceMode mode;
  const double begin = now();
  torch::inductor::AOTIModelPackageLoader loader(words[1]);
  const double load = now() - begin;
  std::vector<torch::Tensor> args;
  for (int i = 3; i < count; ++i) {
    std::vector<std::int64_t> shape;
    std::stringstream text(words[i]);
    for (std::string part; std::getline(text, part, 'x');) shape.push_back(std::stoll(part));
    args.push_back(torch::full(shape, 0.5f));
  }
  const auto wait = [&] { loader.run(args); };
  const double first = mean(0, wait);
  mean(seconds / 4, wait);
  const double waited = mean(seconds, wait);
  const double sum = loader.run(args)[0].to(torch::kFloat64).sum().item<double>();
  std::printf("{\"first\": %.9g, \"wait\": %.9g, \"load\": %.9g, \"sum\": %.9g}\n", first, waited, load, sum);
}
