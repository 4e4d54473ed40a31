// FlatBuffers read without trust: every offset is looked at before it is followed.  runtime/flatbuffer.py
// describes the schemas; what cannot be read is Unreadable.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "artifact/container.hpp"

namespace calque::artifact {

// The fields of a table: "1", "2", "4", "8", "string", "T", "[T]", "[n]" or "[?]" each.
struct TableSchema {
  std::string_view name;
  std::vector<std::string_view> fields;
};

// A field, or a table: by its kind a number, the bytes of a text or of a vector, or what a table or a
// vector of tables is made of.  Of one chosen by its kind ("[?]") `number` is that.
struct Field {
  bool present = false;
  std::uint64_t number = 0;
  Bytes bytes;
  std::vector<Field> items;

  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};

// The root table of a buffer, with all that it points to.
Field read_flatbuffer(Bytes data, const std::vector<TableSchema>& schema, std::string_view root,
                      std::string_view identifier);

// A little-endian number of at most 8 bytes at a place that is inside.
inline std::uint64_t number_at(Bytes data, std::size_t at, std::size_t size) {
  std::uint64_t made = 0;
  for (std::size_t i = size; i-- > 0;) made = made << 8 | data[at + i];
  return made;
}

// Part of what there is; the callers have looked that there is as much.
inline Bytes part_of(Bytes data, std::size_t at, std::size_t size) { return {data.data() + at, size}; }

}  // namespace calque::artifact
