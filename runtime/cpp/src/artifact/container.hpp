// Several compiled modules in one .vmfb, with an index and digests at its end.  runtime/container.py
// describes the format.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "calque/array.hpp"

namespace calque::artifact {

using Bytes = Span<const std::uint8_t>;

// The modules of a file, whose digests are right; Error (artifact) where it or a part is damaged.
// A file without an index that no part of ours is in comes back whole.
std::vector<Bytes> split(Bytes file, const std::string& source);

// Does a part begin as a .vmfb?
bool looks_like_vmfb(Bytes part);

// SHA-256 (FIPS 180-4).
std::array<std::uint8_t, 32> sha256(Bytes data);

}  // namespace calque::artifact
