// Tokens from a language model, without Python between them: generate model.vmfb 40 1,15043,29892 [temperature]
//
// The artifact is one of calque.models.Llama (calque generate MODEL --save model.vmfb), its weights lie beside
// it.  Prints the tokens that follow those given, at most so many, and how fast they came.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "calque/runtime.hpp"

namespace {

using calque::Array;

std::vector<std::int32_t> numbers(std::string text) {
  std::replace(text.begin(), text.end(), ',', ' ');
  std::istringstream in(text);
  std::vector<std::int32_t> made;
  for (std::int32_t token; in >> token;) made.push_back(token);
  return made;
}

// How many tokens the programs of prefill take, smallest first.
std::vector<std::size_t> chunks_of(const calque::Module& model) {
  std::vector<std::size_t> made;
  for (const calque::Signature& form : model.functions())
    for (const calque::Parameter& argument : form.arguments)
      if (form.name == "prefill" && argument.path == "tokens")
        made.push_back(static_cast<std::size_t>(argument.shape[0].size));
  std::sort(made.begin(), made.end());
  return made;
}

// Put a prompt into sequence 0, in pieces; the token that comes next, -1 where there is no room.
std::int32_t prefill(calque::Session& session, const std::vector<std::int32_t>& prompt) {
  const std::vector<std::size_t> chunks = chunks_of(session.module());
  std::int32_t next = -1;
  for (std::size_t at = 0; at < prompt.size();) {
    std::size_t chunk = chunks.back();
    for (const std::size_t size : chunks)
      if (size >= prompt.size() - at) {
        chunk = size;
        break;
      }
    const std::size_t count = std::min(chunk, prompt.size() - at);
    std::vector<std::int32_t> piece(chunk, 0);
    std::copy_n(prompt.begin() + static_cast<std::ptrdiff_t>(at), count, piece.begin());
    next = session("prefill", Array::from_host(piece, {static_cast<std::int64_t>(chunk)}),
                   Array::scalar(static_cast<std::int32_t>(count)), Array::scalar<std::int32_t>(0))[0]
               .item<std::int32_t>();
    if (next < 0) return next;
    at += count;
  }
  return next;
}

void fill(calque::Session& session, const char* name, float value) {
  const std::vector<float> values(session.read(name).size(), value);
  session.write(name, Array::from_host(values, {static_cast<std::int64_t>(values.size())}));
}

}  // namespace

int main(int count, char** words) try {
  if (count < 4) {
    std::fprintf(stderr, "usage: generate model.vmfb COUNT TOKEN,TOKEN,... [TEMPERATURE]\n");
    return 2;
  }
  const calque::Module model = calque::Module::load(words[1]);
  calque::Session session(model);
  if (count > 4) fill(session, "temperature", std::strtof(words[4], nullptr));
  const std::vector<std::int32_t> stop = session.read("stop").to_vector<std::int32_t>();
  const std::size_t sequences = session.read("lengths").size();
  std::vector<std::uint8_t> active(sequences, 0);
  active[0] = 1;
  const Array only_first = Array::copy_bytes(active.data(), sequences, calque::DType::boolean,
                                             {static_cast<std::int64_t>(sequences)});
  const int most = std::atoi(words[2]);
  std::int32_t token = prefill(session, numbers(words[3]));
  const auto begin = std::chrono::steady_clock::now();
  int made = 0;
  while (made < most && token >= 0 && std::find(stop.begin(), stop.end(), token) == stop.end()) {
    std::printf(made == 0 ? "%d" : " %d", token);
    std::fflush(stdout);
    if (++made == most) break;
    token = session("decode", only_first)[0].view<std::int32_t>()[0];
  }
  std::puts("");
  if (token < 0) {
    std::fprintf(stderr, "generate: the cache is full: it holds %d tokens.\n",
                 session.read("capacity").item<std::int32_t>());
    return 1;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (made > 1) std::fprintf(stderr, "%.1f tokens a second\n", (made - 1) / took.count());
  return 0;
} catch (const calque::Error& error) {
  std::fprintf(stderr, "generate: %s\n", error.what());
  return 1;
}
