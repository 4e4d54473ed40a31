// Images to classify: ten random patterns of 8 x 8 pixels, under noise.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

struct Images {
  std::vector<float> pixels;  // (count, 64)
  std::vector<std::int32_t> labels;
};

inline Images make_images(int count, unsigned seed) {
  std::mt19937 pattern_random(1);
  std::normal_distribution<float> normal;
  std::vector<float> patterns(10 * 64);
  for (float& pixel : patterns) pixel = normal(pattern_random);
  std::mt19937 random(seed);
  Images made;
  for (int i = 0; i < count; ++i) {
    const auto label = static_cast<std::int32_t>(random() % 10);
    made.labels.push_back(label);
    for (int k = 0; k < 64; ++k) made.pixels.push_back(patterns[label * 64 + k] + 1.5f * normal(random));
  }
  return made;
}
