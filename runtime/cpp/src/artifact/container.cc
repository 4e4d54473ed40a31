#include "artifact/container.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "artifact/json.hpp"
#include "artifact/record.hpp"

namespace calque::artifact {

namespace {

constexpr std::string_view kMagic = "CALQPART";
constexpr std::size_t kTrailer = 8 + kMagic.size();
constexpr std::int64_t kAlignment = 64;

std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

[[noreturn]] void raise_damaged(const std::string& source, const std::string& what) {
  throw Error(Code::artifact, "the artifact is damaged: " + what + ".", source,
              "copy it again, or compile it again.");
}

struct Place {
  std::int64_t offset, size;
  std::string digest;
};

std::vector<Place> read_index(std::string_view text) {
  std::vector<Place> made;
  const Json index = Json::parse(text);
  for (const Json& part : index.at("parts").array())
    made.push_back({part.at("offset").integer(), part.at("size").integer(),
                    part.at("sha256").string()});
  return made;
}

std::string hexadecimal(const std::array<std::uint8_t, 32>& digest) {
  std::string made;
  for (const std::uint8_t byte : digest) {
    made.push_back("0123456789abcdef"[byte >> 4]);
    made.push_back("0123456789abcdef"[byte & 15]);
  }
  return made;
}

std::uint32_t rotate(std::uint32_t word, int by) { return word >> by | word << (32 - by); }

// FIPS 180-4, 4.2.2: the first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr std::uint32_t kRounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

// FIPS 180-4, 6.2.2: one block of 64 bytes.
void take_block(std::array<std::uint32_t, 8>& state, const std::uint8_t* block) {
  std::uint32_t w[64];
  for (int i = 0; i < 16; ++i)
    w[i] = std::uint32_t{block[4 * i]} << 24 | std::uint32_t{block[4 * i + 1]} << 16 |
           std::uint32_t{block[4 * i + 2]} << 8 | block[4 * i + 3];
  for (int i = 16; i < 64; ++i) {
    const std::uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + w[i - 7] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) +
           (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (int i = 0; i < 64; ++i) {
    const std::uint32_t one =
        h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + kRounds[i] + w[i];
    const std::uint32_t two =
        (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + one;
    d = c;
    c = b;
    b = a;
    a = one + two;
  }
  const std::uint32_t worked[8] = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < 8; ++i) state[i] += worked[i];
}

}  // namespace

std::array<std::uint8_t, 32> sha256(Bytes data) {
  // FIPS 180-4, 5.3.3: the square roots of the first 8 primes.
  std::array<std::uint32_t, 8> state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::size_t at = 0;
  for (; at + 64 <= data.size(); at += 64) take_block(state, data.data() + at);
  std::uint8_t last[128] = {};
  const std::size_t rest = data.size() - at;
  if (rest != 0) std::memcpy(last, data.data() + at, rest);
  last[rest] = 0x80;
  const std::size_t end = rest < 56 ? 64 : 128;
  for (std::size_t i = 0; i < 8; ++i)
    last[end - 1 - i] = static_cast<std::uint8_t>(std::uint64_t{data.size()} * 8 >> 8 * i);
  take_block(state, last);
  if (end == 128) take_block(state, last + 64);
  std::array<std::uint8_t, 32> made{};
  for (std::size_t i = 0; i < 32; ++i)
    made[i] = static_cast<std::uint8_t>(state[i / 4] >> (24 - 8 * (i % 4)));
  return made;
}

bool looks_like_vmfb(Bytes part) {
  // A zip whose first member is the module, or the bare flatbuffer with its identifier.
  const std::string_view text = text_of(part);
  return (text.substr(0, 4) == "PK\x03\x04" && text.substr(0, 64).find("module.fb") != text.npos) ||
         (text.size() > 4 && text.substr(4, 12).find("IREE") != text.npos);
}

std::vector<Bytes> split(Bytes file, const std::string& source) {
  const std::string_view text = text_of(file);
  if (text.size() < kMagic.size() || text.substr(text.size() - kMagic.size()) != kMagic) {
    if (text.find(kRecordKey) != text.npos)  // one of ours, so it had an index
      raise_damaged(source, "its end is missing");
    return {file};
  }
  std::uint64_t size = 0;
  const std::size_t end = text.size() < kTrailer ? 0 : text.size() - kTrailer;
  for (std::size_t i = 8; end != 0 && i-- > 0;)
    size = size << 8 | static_cast<unsigned char>(text[end + i]);
  if (size > end || text.size() < kTrailer) raise_damaged(source, "the index is longer than the file");
  std::vector<Place> places;
  try {
    places = read_index(text.substr(end - size, size));
  } catch (const Unreadable&) {
    raise_damaged(source, "the index cannot be read");
  }
  std::vector<Bytes> parts;
  const auto limit = static_cast<std::int64_t>(end - size);
  for (const Place& place : places) {
    if (place.offset < 0 || place.size <= 0 || place.offset > limit ||
        place.size > limit - place.offset || place.offset % kAlignment != 0)
      raise_damaged(source, "a part of " + std::to_string(place.size) + " bytes at " +
                                std::to_string(place.offset) + " is outside the file");
    const Bytes part(file.data() + place.offset, static_cast<std::size_t>(place.size));
    if (hexadecimal(sha256(part)) != place.digest)
      raise_damaged(source,
                    "the part at " + std::to_string(place.offset) + " is not what was written");
    parts.push_back(part);
  }
  if (parts.empty()) raise_damaged(source, "the index names no part");
  return parts;
}

}  // namespace calque::artifact
