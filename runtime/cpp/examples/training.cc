// A training loop in C++: training train_step.vmfb weights.bin
#include <cmath>
#include <cstdio>
#include <fstream>

#include "calque/runtime.hpp"
#include "images.hpp"

namespace {

// Parameters as the artifact wants them: He's initialization for matrices, zeros for the rest.
std::vector<calque::Array> initial(const calque::Signature& signature) {
  std::mt19937 random(2);
  std::vector<calque::Array> made;
  for (const calque::Parameter& parameter : signature.arguments) {
    if (!parameter.donated) continue;  // the state is what the artifact takes over
    calque::Shape shape;
    std::size_t size = 1;
    for (const calque::Dim& dim : parameter.shape) {
      shape.push_back(dim.size);
      size *= static_cast<std::size_t>(dim.size);
    }
    std::vector<float> values(size);
    if (shape.size() == 2) {
      std::normal_distribution<float> normal(0, std::sqrt(2.0f / static_cast<float>(shape[0])));
      for (float& value : values) value = normal(random);
    }
    made.push_back(calque::Array::from_host(values, shape));
  }
  return made;
}

}  // namespace

int main(int count, char** words) try {
  if (count != 3) {
    std::fprintf(stderr, "usage: training train_step.vmfb weights.bin\n");
    return 2;
  }
  constexpr int batch = 64, steps = 400;
  const calque::Function step = calque::Module::load(words[1])["train_step"];
  std::vector<calque::Array> params = initial(step.signature());
  const calque::Array rate = calque::Array::scalar(0.1f);
  std::vector<calque::Array> losses;
  for (int i = 0; i < steps; ++i) {
    const Images images = make_images(batch, 1000u + static_cast<unsigned>(i));
    std::vector<calque::Array> arguments = params;  // handles, not values
    arguments.push_back(calque::Array::from_host(images.pixels, {batch, 64}));
    arguments.push_back(calque::Array::from_host(images.labels, {batch}));
    arguments.push_back(rate);
    params = step.call(arguments);  // the old parameters are gone, their memory used again
    losses.push_back(params.back());
    params.pop_back();
  }
  for (int i = 0; i < steps; i += 100) std::printf("step %3d  loss %.4f\n", i, losses[i].item<float>());
  const float last = losses.back().item<float>();
  std::printf("step %3d  loss %.4f\n", steps - 1, last);
  std::ofstream file(words[2], std::ios::binary);
  for (const calque::Array& array : params) {
    const auto values = array.view<float>();
    file.write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(array.nbytes()));
  }
  return file.good() && last < 0.5f ? 0 : 1;
} catch (const calque::Error& error) {
  std::fprintf(stderr, "training: %s\n", error.what());
  return 1;
}
