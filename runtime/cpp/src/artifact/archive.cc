#include "artifact/archive.hpp"

#include <algorithm>
#include <array>
#include <iterator>

#include "artifact/flatbuffer.hpp"
#include "artifact/json.hpp"
#include "artifact/record.hpp"

namespace calque::artifact {

namespace {

using Number = std::uint64_t;
constexpr Number kMostAxes = 32;
const char* const kBehind = "its tables end behind the file";

Number sum(Number a, Number b) {
  Number made;
  if (__builtin_add_overflow(a, b, &made)) throw Unreadable(kBehind);
  return made;
}

Number product(Number a, Number b) {
  Number made;
  if (__builtin_mul_overflow(a, b, &made)) throw Unreadable("an array is larger than any file");
  return made;
}

Number round_up(Number value, Number to) { return sum(value, to - 1) / to * to; }

// A place in a file's bytes.
class Cursor {
 public:
  Cursor(Bytes file, Number at) : file_(file), at_(at) {}

  Number at() const { return at_; }
  void skip(Number count) {
    const Number end = sum(at_, count);
    if (end > file_.size()) throw Unreadable(kBehind);
    at_ = end;
  }
  std::string_view take(Number count) {
    const Number start = at_;
    skip(count);
    return {reinterpret_cast<const char*>(file_.data()) + start, static_cast<std::size_t>(count)};
  }
  Number number(std::size_t size) {
    const Number start = at_;
    skip(size);
    return number_at(file_, static_cast<std::size_t>(start), size);
  }
  std::string_view text() { return take(number(8)); }
  std::string name(Number count) {
    const std::string_view made = take(count);
    for (std::string_view rest = made; !rest.empty();) {
      const std::size_t size = character(rest);
      if (size == 0) throw Unreadable("a name is no text");
      rest.remove_prefix(size);
    }
    return std::string(made);
  }

 private:
  Bytes file_;
  Number at_;
};

Number bytes_of(const ArrayType& type) {
  Number made = calque::size_of(type.dtype);
  for (const std::int64_t size : type.shape) made = product(made, static_cast<Number>(size));
  return made;
}

// A type as JSON says it.
ArrayType type_of(DType dtype, const Json& shape) {
  ArrayType made{dtype, {}};
  if (shape.array().size() > kMostAxes) throw Unreadable("an array has too many axes");
  for (const Json& size : shape.array()) {
    if (size.integer() < 0) throw Unreadable("an array has a negative size");
    made.shape.push_back(size.integer());
  }
  return made;
}

// What an .irpa file says of an array; nothing where it says nothing that we know.
std::optional<ArrayType> of_metadata(std::string_view data) {
  for (const std::string_view head : {"TENSORv0:", "PYTORCH:"}) {
    if (data.substr(0, head.size()) != head) continue;
    try {
      const Json said = Json::parse(data.substr(head.size()));
      return type_of(dtype_of_name(said.at("dtype").string()), said.at("shape"));
    } catch (const Unreadable&) {
    }
  }
  return {};
}

void read_table(Bytes file, Number start, Number count, Number end, Number names, Number data, Number room,
                Archive& made) {
  for (Number i = 0; i < count; ++i) {
    Cursor row(file, start);
    const Number size = row.number(8), kind = row.number(4);
    row.skip(8);
    const Number name = row.number(8), name_size = row.number(8);
    const Number said = row.number(8), said_size = row.number(8);
    row.skip(8);
    if (size < 60 || sum(start, size) > end) throw Unreadable("an entry is longer than the table");
    const std::string key = Cursor(file, sum(names, name)).name(name_size);
    ArchiveEntry entry;
    entry.type = of_metadata(Cursor(file, sum(names, said)).take(said_size));
    if (kind == 1) {
      entry.bytes = row.number(8);
      row.skip(16);
      const Number used = row.number(1);
      if ((used != 1 && used != 2 && used != 4 && used != 8 && used != 16) || entry.bytes % used != 0)
        throw Unreadable(key + " repeats " + std::to_string(used) + " bytes");
      entry.is_pattern = true;
    } else if (kind == 2) {
      const Number offset = row.number(8);
      entry.bytes = row.number(8);
      if (sum(offset, entry.bytes) > room) throw Unreadable(key + " is outside the file");
      entry.offset = sum(data, offset);
    } else if (kind != 0) {
      throw Unreadable("it has an entry of kind " + std::to_string(kind));
    }
    if (kind != 0) made[key] = entry;
    start = sum(start, round_up(size, 16));
  }
}

// Headers that follow each other, each with a table, names and data of its own; what they say of places
// counts from the header on.
Archive of_irpa(Bytes file) {
  Archive made;
  for (Number base = 0, rows = 0;;) {
    Cursor head(file, base);
    const bool known = head.take(4) == "IRPA" && head.number(2) == 0;
    head.skip(2);
    const Number size = head.number(8), following = head.number(8);
    if (!known || size < 88) throw Unreadable("it is no parameter archive of version 0");
    head.skip(8);
    const Number count = head.number(8), table = head.number(8), length = head.number(8);
    const Number names = head.number(8);
    head.skip(8);
    const Number data = head.number(8), room = head.number(8);
    rows = sum(rows, count);
    if (rows > file.size() / 60) throw Unreadable("its tables are longer than the file");
    read_table(file, sum(base, table), count, sum(sum(base, table), length), sum(base, names),
               sum(base, data), room, made);
    if (following == 0) return made;
    base = sum(base, following);  // ever further: it ends
  }
}

struct Named {
  std::string_view name;
  DType dtype;
};

constexpr Named kSafetensors[] = {
    {"BOOL", DType::boolean},   {"I8", DType::int8},       {"I16", DType::int16},     {"I32", DType::int32},
    {"I64", DType::int64},      {"U8", DType::uint8},      {"U16", DType::uint16},    {"U32", DType::uint32},
    {"U64", DType::uint64},     {"F16", DType::float16},   {"BF16", DType::bfloat16}, {"F32", DType::float32},
    {"F64", DType::float64},    {"C64", DType::complex64}, {"F8_E4M3", DType::float8_e4m3fn},
    {"F8_E5M2", DType::float8_e5m2}};

Archive of_safetensors(Bytes file) {
  Cursor cursor(file, 0);
  const Json header = Json::parse(cursor.text());
  Archive made;
  for (const auto& [name, said] : header.object()) {
    if (name == "__metadata__") continue;
    ArchiveEntry entry;
    for (const Named& known : kSafetensors)
      if (known.name == said.at("dtype").string()) entry.type = type_of(known.dtype, said.at("shape"));
    const std::vector<Json>& places = said.at("data_offsets").array();
    if (places.size() != 2 || places[0].integer() < 0 || places[1].integer() < places[0].integer())
      throw Unreadable(name + " lies nowhere");
    const auto start = static_cast<Number>(places[0].integer());
    entry.bytes = static_cast<Number>(places[1].integer()) - start;
    entry.offset = sum(cursor.at(), start);
    if (entry.type && bytes_of(*entry.type) != entry.bytes) throw Unreadable(name + " has other bytes");
    made[name] = entry;
  }
  return made;
}

// Bytes of a number in a GGUF file's settings; 0 of what is none.
Number bytes_of_setting(Number kind) {
  constexpr std::array<std::uint8_t, 13> known = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kind < known.size() ? known[static_cast<std::size_t>(kind)] : 0;
}

void skip_setting(Cursor& cursor, Number kind) {
  if (const Number size = bytes_of_setting(kind)) {
    cursor.skip(size);
  } else if (kind == 8) {
    cursor.text();
  } else if (kind == 9) {
    const Number inner = cursor.number(4), count = cursor.number(8);
    if (const Number each = bytes_of_setting(inner)) {
      cursor.skip(product(each, count));
    } else if (inner == 8) {
      for (Number i = 0; i < count; ++i) cursor.text();  // each takes 8 bytes: the file ends some time
    } else {
      throw Unreadable("it has a list of values of kind " + std::to_string(inner));
    }
  } else {
    throw Unreadable("it has a value of kind " + std::to_string(kind));
  }
}

struct Block {
  Number kind, numbers, bytes;
};

// Arrays in blocks (Q8_0 and others) have no type here: they are bytes.
constexpr Block kBlocks[] = {
    {2, 32, 18},    {3, 32, 20},    {6, 32, 22},    {7, 32, 24},    {8, 32, 34},    {9, 32, 40},   {10, 256, 84},
    {11, 256, 110}, {12, 256, 144}, {13, 256, 176}, {14, 256, 210}, {15, 256, 292}, {16, 256, 66}, {17, 256, 74},
    {18, 256, 98},  {19, 256, 50},  {20, 32, 18},   {21, 256, 110}, {22, 256, 82},  {23, 256, 136}, {29, 256, 56}};

std::optional<DType> gguf_type(Number kind) {
  switch (kind) {
    case 0: return DType::float32;
    case 1: return DType::float16;
    case 24: return DType::int8;
    case 25: return DType::int16;
    case 26: return DType::int32;
    case 27: return DType::int64;
    case 28: return DType::float64;
    case 30: return DType::bfloat16;
    default: return {};
  }
}

Archive of_gguf(Bytes file) {
  Cursor cursor(file, 0);
  const bool magic = cursor.take(4) == "GGUF";
  const Number version = cursor.number(4), arrays = cursor.number(8), keys = cursor.number(8);
  if (!magic || (version != 2 && version != 3)) throw Unreadable("it is no GGUF file of version 2 or 3");
  Number alignment = 32;
  for (Number i = 0; i < keys; ++i) {
    const std::string_view key = cursor.text();
    const Number kind = cursor.number(4), start = cursor.at();
    skip_setting(cursor, kind);
    if (key == "general.alignment") {
      alignment = kind == 4 ? Cursor(file, start).number(4) : 0;
      if (alignment == 0) throw Unreadable("its arrays are aligned to nothing");  // IREE divides by it
    }
  }
  struct Row {
    std::string name;
    Shape shape;
    Number kind, offset;
  };
  std::vector<Row> rows;
  for (Number i = 0; i < arrays; ++i) {
    Row row;
    row.name = cursor.name(cursor.number(8));
    const Number rank = cursor.number(4);
    if (rank > kMostAxes) throw Unreadable(row.name + " has " + std::to_string(rank) + " axes");
    for (Number axis = 0; axis < rank; ++axis) {
      const Number size = cursor.number(8);
      if (size >> 63 != 0) throw Unreadable("an array is larger than any file");
      row.shape.insert(row.shape.begin(), static_cast<std::int64_t>(size));  // the fastest comes first
    }
    row.kind = cursor.number(4);
    row.offset = cursor.number(8);
    rows.push_back(row);
  }
  const Number begin = round_up(cursor.at(), alignment);
  Archive made;
  for (const Row& row : rows) {
    ArchiveEntry entry;
    entry.offset = sum(begin, row.offset);
    if (const std::optional<DType> dtype = gguf_type(row.kind)) {
      entry.type = ArrayType{*dtype, row.shape};
      entry.bytes = bytes_of(*entry.type);
      made[row.name] = entry;
      continue;
    }
    const Block* block =
        std::find_if(std::begin(kBlocks), std::end(kBlocks), [&](const Block& b) { return b.kind == row.kind; });
    if (block == std::end(kBlocks))  // (IREE divides by the size of some)
      throw Unreadable(row.name + " is of a type " + std::to_string(row.kind) + " that is not known");
    Number numbers = 1;
    for (const std::int64_t size : row.shape) numbers = product(numbers, static_cast<Number>(size));
    entry.bytes = product(numbers / block->numbers, block->bytes);
    made[row.name] = entry;
  }
  return made;
}

// A name as JSON writes it.
std::string quoted(const std::string& text) {
  std::string made = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') made += '\\';
    made += c;
  }
  return made + "\"";
}

}  // namespace

Layout safetensors_layout(const std::map<std::string, ArrayType>& arrays) {
  Layout made;
  for (const auto& [name, type] : arrays) made.order.push_back(name);
  // largest elements first, so that each array lies at a multiple of its element's size
  std::stable_sort(made.order.begin(), made.order.end(), [&](const std::string& a, const std::string& b) {
    return calque::size_of(arrays.at(a).dtype) > calque::size_of(arrays.at(b).dtype);
  });
  std::string text = "{";
  Number end = 0;
  for (const std::string& name : made.order) {
    const ArrayType& type = arrays.at(name);
    const Named* known = std::find_if(std::begin(kSafetensors), std::end(kSafetensors),
                                      [&](const Named& one) { return one.dtype == type.dtype; });
    if (known == std::end(kSafetensors))
      throw Unreadable(name + " is " + name_of(type.dtype) + ", which .safetensors has not");
    const Number start = end;
    end = sum(end, bytes_of(type));
    std::string shape;
    for (const std::int64_t size : type.shape) shape += (shape.empty() ? "" : ",") + std::to_string(size);
    text += (text.size() == 1 ? "" : ",") + quoted(name) + ":{\"dtype\":\"" + std::string(known->name) +
            "\",\"shape\":[" + shape + "],\"data_offsets\":[" + std::to_string(start) + "," +
            std::to_string(end) + "]}";
  }
  text += "}";
  text.resize((text.size() + 8 + 63) / 64 * 64 - 8, ' ');  // the arrays begin at a multiple of 64
  Number size = text.size();
  for (int i = 0; i < 8; ++i, size >>= 8) made.head += static_cast<char>(size & 0xff);
  made.head += text;
  return made;
}

Archive read_archive(Bytes file, std::string_view suffix) {
  Archive made = suffix == ".irpa" ? of_irpa(file) : suffix == ".gguf" ? of_gguf(file) : of_safetensors(file);
  for (const auto& [name, entry] : made)
    if (!entry.is_pattern && sum(entry.offset, entry.bytes) > file.size())
      throw Unreadable(name + " is outside the file");
  return made;
}

}  // namespace calque::artifact
