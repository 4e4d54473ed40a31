// Classifies images with trained weights: classifier predict.vmfb weights.bin
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>

#include "calque/runtime.hpp"
#include "images.hpp"

int main(int count, char** words) try {
  if (count != 3) {
    std::fprintf(stderr, "usage: classifier predict.vmfb weights.bin\n");
    return 2;
  }
  const calque::Function predict = calque::Module::load(words[1])["predict"];
  std::ifstream file(words[2], std::ios::binary);
  std::vector<calque::Array> arguments;
  for (const calque::Parameter& parameter : predict.signature().arguments) {
    if (parameter.path == "images") break;
    calque::Shape shape;
    std::size_t bytes = size_of(parameter.dtype);
    for (const calque::Dim& dim : parameter.shape) {
      shape.push_back(dim.size);
      bytes *= static_cast<std::size_t>(dim.size);
    }
    std::vector<char> values(bytes);
    if (!file.read(values.data(), static_cast<std::streamsize>(bytes))) {
      std::fprintf(stderr, "classifier: %s is too short for %s\n", words[2], parameter.path.c_str());
      return 1;
    }
    arguments.push_back(calque::Array::copy_bytes(values.data(), bytes, parameter.dtype, shape));
  }
  constexpr int batch = 64, batches = 50;
  arguments.emplace_back();
  int right = 0;
  double seconds = 0;
  for (int i = 0; i < batches; ++i) {
    const Images images = make_images(batch, 9000u + static_cast<unsigned>(i));
    const auto start = std::chrono::steady_clock::now();
    arguments.back() = calque::Array::from_host(images.pixels, {batch, 64});
    const calque::View<float> scores = predict.call(arguments)[0].view<float>();
    for (int k = 0; k < batch; ++k) {
      const float* row = scores.data() + 10 * k;
      right += std::max_element(row, row + 10) - row == images.labels[k];
    }
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  const double accuracy = static_cast<double>(right) / (batch * batches);
  std::printf("%.1f %% of %d images right, %.0f images a second\n", 100 * accuracy, batch * batches,
              batch * batches / seconds);
  return accuracy > 0.9 ? 0 : 1;
} catch (const calque::Error& error) {
  std::fprintf(stderr, "classifier: %s\n", error.what());
  return 1;
}
