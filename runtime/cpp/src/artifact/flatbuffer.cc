#include "artifact/flatbuffer.hpp"

#include <algorithm>
#include <string>

#include "artifact/json.hpp"

namespace calque::artifact {

namespace {

constexpr std::uint64_t kShared = 4;  // times that a byte may be read, on average
constexpr std::uint64_t kTable = 32;  // what a table is taken for, in bytes

class Reader {
 public:
  Reader(Bytes data, const std::vector<TableSchema>& schema)
      : data_(data), schema_(schema), left_(kShared * data.size()) {}

  Field table(std::size_t at, std::string_view name) {
    spend(kTable);
    const auto back = static_cast<std::int32_t>(number(at, 4));
    const std::int64_t place = static_cast<std::int64_t>(at) - back;
    if (place < 0) fail("the fields of a table are outside");
    const auto offsets = static_cast<std::size_t>(place);
    const std::size_t count = number(offsets, 2), size = number(offsets + 2, 2);
    if (count < 4 || count % 2 != 0 || offsets + count > data_.size())
      fail("the fields of a table are outside");
    if (size < 4 || at + size > data_.size()) fail("a table is outside");
    Field made;
    made.present = true;
    const std::vector<std::string_view>& fields = of(name).fields;
    made.items.resize(fields.size());
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const std::size_t offset = 4 + 2 * i < count ? number(offsets + 4 + 2 * i, 2) : 0;
      if (offset == 0) continue;
      const bool scalar = is_digit(fields[i][0]);
      const auto width = scalar ? static_cast<std::size_t>(fields[i][0] - '0') : 4;
      if (offset < 4 || offset + width > size) fail("a field is outside its table");
      Field& field = made.items[i];
      field.present = true;
      if (scalar) {
        field.number = number(at + offset, width);
      } else {
        fill(field, target(at + offset), fields[i], i == 0 ? nullptr : &made.items[i - 1]);
      }
    }
    return made;
  }

  std::size_t target(std::size_t at) { return at + number(at, 4); }

 private:
  [[noreturn]] static void fail(const std::string& what) { throw Unreadable(what); }
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }

  const TableSchema& of(std::string_view name) const {
    return *std::find_if(schema_.begin(), schema_.end(),
                         [&](const TableSchema& table) { return table.name == name; });
  }

  std::uint64_t number(std::size_t at, std::size_t size) const {
    if (at > data_.size() || size > data_.size() - at) fail("an offset points outside");
    if ((at + 4) % size != 0) fail("a number is not aligned");  // its own length is before it
    return number_at(data_, at, size);
  }

  void spend(std::uint64_t count) {
    if (count > left_) fail("its offsets read the same bytes again and again");
    left_ -= count;
  }

  // How many elements of so many bytes a vector has.
  std::size_t elements(std::size_t at, std::size_t size) {
    const std::size_t count = number(at, 4);
    if (count * size > data_.size() - at - 4) fail("a vector is outside");
    spend(4 + count * size);
    return count;
  }

  void fill(Field& field, std::size_t at, std::string_view kind, const Field* before) {
    if (kind == "string") {
      const std::size_t count = elements(at, 1);
      if (at + 4 + count >= data_.size() || data_[at + 4 + count] != 0) fail("a text has no end");
      field.bytes = part_of(data_, at + 4, count);
    } else if (kind[0] != '[') {
      field = table(at, kind);
    } else if (is_digit(kind[1])) {
      const auto size = static_cast<std::size_t>(std::stoul(std::string(kind.substr(1))));
      field.bytes = part_of(data_, at + 4, elements(at, size) * size);
    } else {
      tables(field, at, kind.substr(1, kind.size() - 2), before);
    }
  }

  void tables(Field& field, std::size_t at, std::string_view name, const Field* before) {
    const std::size_t count = elements(at, 4);
    const bool chosen = name == "?";
    if (chosen && (before == nullptr || before->bytes.size() != count))
      fail("tables have no kinds");
    field.items.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t place = at + 4 + 4 * i;
      if (!chosen) {
        field.items.push_back(table(target(place), name));
        continue;
      }
      const std::size_t kind = before->bytes[i];
      const std::vector<std::string_view>& kinds = of("?").fields;
      if (kind > kinds.size()) fail("a table is of an unknown kind");
      field.items.push_back(kind == 0 ? Field{} : table(target(place), kinds[kind - 1]));
      field.items.back().number = kind;
    }
  }

  Bytes data_;
  const std::vector<TableSchema>& schema_;
  std::uint64_t left_;
};

}  // namespace

Field read_flatbuffer(Bytes data, const std::vector<TableSchema>& schema, std::string_view root,
                      std::string_view identifier) {
  const std::string_view text(reinterpret_cast<const char*>(data.data()), data.size());
  if (text.size() < 8 || text.substr(4, 4) != identifier)
    throw Unreadable("it does not begin with " + std::string(identifier));
  Reader reader(data, schema);
  return reader.table(reader.target(0), root);
}

}  // namespace calque::artifact
