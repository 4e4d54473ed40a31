// JSON (RFC 8259) as artifacts hold it: a small strict reader.
//
// Refused: anything behind the value, numbers and escapes that the RFC does not know, text that is not
// UTF-8, lone surrogates, control characters in strings, more than 512 arrays within each other.  Of
// two members of one name the last counts, as in Python.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace calque::artifact {

// What is wrong with a text; the callers say where it stands.
struct Unreadable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The bytes of the character that a text in UTF-8 begins with; 0 if it begins with none.
std::size_t character(std::string_view text);

class Json {
 public:
  enum class Kind { null, boolean, integer, real, string, array, object };

  static Json parse(std::string_view text);  // Unreadable

  Kind kind() const { return kind_; }
  bool is_null() const { return kind_ == Kind::null; }
  bool is_string() const { return kind_ == Kind::string; }

  // The value, or Unreadable where it is of another kind.  Integers are those of 64 bits.
  bool boolean() const;
  std::int64_t integer() const;
  const std::string& string() const;
  const std::vector<Json>& array() const;
  const std::vector<std::pair<std::string, Json>>& object() const;

  const Json* find(std::string_view name) const;  // null where an object has no such member
  const Json& at(std::string_view name) const;    // Unreadable

 private:
  friend class Reader;
  Kind kind_ = Kind::null;
  bool boolean_ = false;
  std::int64_t integer_ = 0;
  std::string string_;
  std::vector<Json> array_;
  std::vector<std::pair<std::string, Json>> object_;
};

}  // namespace calque::artifact
