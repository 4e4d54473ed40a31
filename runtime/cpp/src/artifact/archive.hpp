// Files of named arrays: .irpa, .safetensors and .gguf.  runtime/archives.py reads the same and says more
// of the formats.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "artifact/container.hpp"
#include "calque/array.hpp"

namespace calque::artifact {

struct ArrayType {
  DType dtype;
  Shape shape;
};

// An array in an archive: where its bytes are, and its type where the file says it.
struct ArchiveEntry {
  std::uint64_t offset = 0, bytes = 0;
  std::optional<ArrayType> type;
  bool is_pattern = false;  // of bytes that are repeated, and not in the file
};

using Archive = std::map<std::string, ArchiveEntry, std::less<>>;

// What is in a file whose name ends so (".irpa"): every number of its tables is compared with its size
// before anybody else reads it.  Unreadable where it is not what its name says.
Archive read_archive(Bytes file, std::string_view suffix);

// The beginning of a .safetensors file of these arrays, and the order and places of their bytes behind it;
// Unreadable where it has no name for a type.
struct Layout {
  std::string head;
  std::vector<std::string> order;
};
Layout safetensors_layout(const std::map<std::string, ArrayType>& arrays);

}  // namespace calque::artifact
