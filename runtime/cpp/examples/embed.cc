// Embeddings of texts without Python: embed model.vmfb 101,1996,4937,102 101,18401,102 ...
//
// The artifact is one of calque.models.Bert (docs/models.md), its weights lie beside it.  Each argument is a
// text, as tokens; prints how near each is to the first (the cosine of the angle between them).
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <sstream>

#include "calque/runtime.hpp"

int main(int count, char** words) try {
  if (count < 3) {
    std::fprintf(stderr, "usage: embed model.vmfb TOKEN,TOKEN,... [TOKEN,TOKEN,... ...]\n");
    return 2;
  }
  std::vector<std::vector<std::int32_t>> texts;
  std::size_t longest = 0;
  for (int i = 2; i < count; ++i) {
    std::string text = words[i];
    std::replace(text.begin(), text.end(), ',', ' ');
    std::istringstream in(text);
    texts.emplace_back();
    for (std::int32_t token; in >> token;) texts.back().push_back(token);
    longest = std::max(longest, texts.back().size());
  }
  std::vector<std::int32_t> tokens, lengths;
  for (std::vector<std::int32_t>& text : texts) {
    lengths.push_back(static_cast<std::int32_t>(text.size()));
    text.resize(longest);
    tokens.insert(tokens.end(), text.begin(), text.end());
  }
  const auto rows = static_cast<std::int64_t>(texts.size());
  const calque::Array made = calque::Module::load(words[1])["embed"](
      calque::Array::from_host(tokens, {rows, static_cast<std::int64_t>(longest)}),
      calque::Array::from_host(lengths, {rows}))[0];
  const calque::View<float> values = made.view<float>();
  const std::size_t width = values.size() / texts.size();
  for (std::size_t i = 0; i < texts.size(); ++i)
    std::printf("%.4f\n", std::inner_product(values.begin(), values.begin() + width, values.begin() + i * width, 0.0));
} catch (const calque::Error& error) {
  std::fprintf(stderr, "embed: %s\n", error.what());
  return 1;
}
