#include "artifact/elf.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>

#include "artifact/flatbuffer.hpp"
#include "artifact/json.hpp"

namespace calque::artifact {

namespace {

enum : std::uint64_t { load = 1, dynamic = 2, relro = 0x6474e552 };
enum : std::uint64_t { executable = 1, writable = 2, readable = 4 };
constexpr std::uint64_t kMostAlignment = 1 << 24, kMostMemory = std::uint64_t{1} << 32;
constexpr std::uint64_t kPage = 1 << 16;  // whatever its size
enum Tag : std::uint64_t {
  jumps_size = 2, hash = 4, texts = 5, symbols = 6, rela = 7, rela_size = 8, rela_entry = 9,
  texts_size = 10, init = 12, rel = 17, jumps_type = 20, jumps = 23, init_array = 25,
  init_array_size = 27
};

// The types of relocations that IREE's loader knows for a machine; those of the type `relative` add an
// address to where the file is loaded.
struct Machine {
  std::uint64_t number;
  std::vector<std::uint64_t> types;
  std::uint64_t relative;
};

const std::vector<Machine>& machines() {
  static const auto* made = new std::vector<Machine>{{62, {1, 2, 5, 6, 7, 8, 10, 11}, 8},
                                                     {183, {257, 1025, 1026, 1027}, 1027},
                                                     {243, {2, 3, 5}, 3}};
  return *made;
}

[[noreturn]] void fail(const char* what) { throw Unreadable(what); }

// Are so many bytes from there inside so many?
bool inside(std::uint64_t at, std::uint64_t size, std::uint64_t all) {
  return at <= all && size <= all - at;
}

struct Segment {
  std::uint64_t kind, flags, offset, address, stored, size;

  bool has(std::uint64_t at, std::uint64_t bytes) const {
    return at >= address && inside(at - address, bytes, size);
  }
};

struct Table {
  std::uint64_t address;
  Bytes bytes;
};

class File {
 public:
  explicit File(Bytes data) : data_(data) {}

  void check() {
    const auto number = [&](std::size_t at, std::size_t size) { return number_at(data_, at, size); };
    if (data_.size() < 64 || data_[4] != 2 || data_[5] != 1)
      fail("the native code is cut, or for no machine of 64 bits");
    const auto found =
        std::find_if(machines().begin(), machines().end(),
                     [&](const Machine& machine) { return machine.number == number(18, 2); });
    if (found == machines().end()) return;  // IREE's loader looks no further
    const std::uint64_t starts = number(32, 8), sections = number(40, 8);
    const std::uint64_t rows = number(56, 2), count = number(60, 2);
    if (number(16, 2) != 3 || number(20, 4) != 1 || number(52, 2) != 64 || number(54, 2) != 56 ||
        number(58, 2) != 64 || rows == 0 || count == 0)
      fail("the native code's header is not one of a shared object");
    if (starts == 0 || !inside(starts, 56 * rows, data_.size()) || starts % 8 != 0 ||
        sections == 0 || !inside(sections, 64 * count, data_.size()))
      fail("the native code's tables are outside");
    for (std::size_t i = 0; i < rows; ++i) add_segment(static_cast<std::size_t>(starts) + 56 * i);
    check_segments();
    check_dynamic(*found);
  }

 private:
  void add_segment(std::size_t at) {
    const auto number = [&](std::size_t offset) { return number_at(data_, at + offset, 8); };
    const Segment made{number_at(data_, at, 4), number_at(data_, at + 4, 4), number(8), number(16),
                       number(32), number(40)};
    const std::uint64_t alignment = number(48);
    if (made.kind == load &&
        ((alignment & (alignment - 1)) != 0 || alignment == 0 || alignment > kMostAlignment ||
         (made.offset - made.address) % alignment != 0 || (made.flags & readable) == 0))
      fail("a segment of the native code cannot be loaded to its address");
    segments_.push_back(made);
  }

  // They are in the file, in the order of their addresses, and none is over another.
  void check_segments() const {
    std::uint64_t end = 0, written = 0;
    for (const Segment& s : segments_) {
      if (s.kind != load) continue;
      if (!inside(s.offset, s.stored, data_.size()) || s.stored > s.size || s.address < end ||
          s.offset < written || !inside(s.address, s.size, kMostMemory))
        fail("a segment of the native code is outside");
      if ((s.flags & executable) != 0 && ((s.flags & writable) != 0 || s.stored < s.size))
        fail("native code is to be writable, or not all of it is there");
      end = s.address + s.size;
      written = s.offset + s.stored;
    }
    for (const Segment& s : segments_)
      if (s.kind == relro && s.size != 0) {
        segment(s.address, 1);
        if (!inside(s.address, s.size, end + kPage)) fail("the native code's constants are outside");
      }
  }

  const Segment& segment(std::uint64_t address, std::uint64_t size) const {
    for (const Segment& s : segments_)
      if (s.kind == load && s.has(address, size)) return s;
    fail("the native code has a place outside");
  }

  // Bytes that the file holds for an address.
  Bytes stored(std::uint64_t address, std::uint64_t size) const {
    const Segment& s = segment(address, size);
    if (!inside(address - s.address, size, s.stored)) fail("a table of the native code is not written");
    return part_of(data_, static_cast<std::size_t>(s.offset + (address - s.address)),
                   static_cast<std::size_t>(size));
  }

  void check_dynamic(const Machine& machine) const {
    const auto found = std::find_if(segments_.begin(), segments_.end(),
                                    [](const Segment& s) { return s.kind == dynamic; });
    if (found == segments_.end() || found->stored < 16)
      fail("the native code has no dynamic section");
    const Bytes rows = stored(found->address, found->stored / 16 * 16);
    std::map<std::uint64_t, std::uint64_t> tags;  // the last of a tag counts
    for (std::size_t at = 0; at < rows.size(); at += 16)
      tags[number_at(rows, at, 8)] = number_at(rows, at + 8, 8);
    const auto has = [&](Tag tag) { return tags.count(tag) != 0; };
    if (has(rel) || !has(texts) || !has(texts_size) || !has(symbols) || !has(hash))
      fail("the native code's dynamic section is not one of a shared object");
    const std::uint64_t count = number_at(stored(tags[hash], 8), 4, 4);
    std::vector<Table> fixed = {{found->address, rows},
                                {tags[texts], stored(tags[texts], tags[texts_size])},
                                {tags[symbols], stored(tags[symbols], 24 * count)}};
    const Bytes names = fixed[1].bytes;
    if (names.empty() || names[names.size() - 1] != 0) fail("the native code's texts have no end");
    std::vector<Bytes> tables;
    static constexpr Tag kinds[2][3] = {{rela, rela_size, rela_entry},
                                        {jumps, jumps_size, jumps_type}};
    for (const auto& [at, size, entry] : kinds) {
      if (!has(at) && !has(size) && !has(entry)) continue;
      if (!has(at) || !has(size) || !has(entry) || tags[size] == 0 || tags[size] % 24 != 0)
        fail("the native code has half a table of relocations");
      tables.push_back(stored(tags[at], tags[size]));
      fixed.push_back({tags[at], tables.back()});
    }
    check_symbols(fixed[2].bytes, names.size());
    for (const Bytes table : tables) check_relocations(table, count, machine, fixed);
    if (tags[init] != 0 || tags[init_array] != 0 || tags[init_array_size] != 0)
      fail("the native code is to be run when it is loaded, which IREE's is not");
  }

  // IREE calls one of them: all but the first are of this file.
  void check_symbols(Bytes table, std::size_t names) const {
    for (std::size_t at = 0; at < table.size(); at += 24) {
      if (number_at(table, at, 4) >= names) fail("a symbol of the native code has no name");
      if (at != 0 && number_at(table, at + 6, 2) != 0 &&
          (segment(number_at(table, at + 8, 8), 1).flags & executable) == 0)
        fail("a symbol of the native code is no code");
    }
  }

  // What is written is in a segment for that, and none of the tables; it points to a segment.
  void check_relocations(Bytes table, std::uint64_t count, const Machine& machine,
                         const std::vector<Table>& fixed) const {
    for (std::size_t at = 0; at < table.size(); at += 24) {
      const std::uint64_t where = number_at(table, at, 8), added = number_at(table, at + 16, 8);
      const std::uint64_t kind = number_at(table, at + 8, 4), symbol = number_at(table, at + 12, 4);
      if (where == 0 && kind == 0 && symbol == 0 && added == 0) continue;
      if (std::find(machine.types.begin(), machine.types.end(), kind) == machine.types.end() ||
          symbol >= std::max<std::uint64_t>(count, 1))
        fail("the native code has relocations of an unknown type");
      bool is_place = false, points = false;
      for (const Segment& s : segments_) {
        if (s.kind != load) continue;
        is_place = is_place || ((s.flags & writable) != 0 && s.has(where, 8));
        points = points || s.has(added, 0);
      }
      for (const Table& other : fixed)
        is_place = is_place && !(other.address < where + 8 && where < other.address + other.bytes.size());
      if (!is_place) fail("the native code is to be changed where it may not be");
      if (kind == machine.relative && (where % 8 != 0 || !points))
        fail("the native code points outside");
    }
  }

  const Bytes data_;
  std::vector<Segment> segments_;
};

}  // namespace

bool is_elf(Bytes data) { return data.size() >= 4 && std::memcmp(data.data(), "\x7f" "ELF", 4) == 0; }

void check_elf(Bytes data) { File(data).check(); }

}  // namespace calque::artifact
