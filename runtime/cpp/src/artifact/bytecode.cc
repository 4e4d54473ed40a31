#include "artifact/bytecode.hpp"

#include <array>
#include <string>

#include "artifact/flatbuffer.hpp"
#include "artifact/json.hpp"

namespace calque::artifact {

namespace {

constexpr std::uint32_t kImport = std::uint32_t{1} << 31;  // it is one of another module
constexpr std::size_t kNumber = 0x3fff;  // of a register of references; the bits above say what it is

[[noreturn]] void fail(const std::string& what) { throw Unreadable(what); }

struct Instructions {
  std::uint32_t version = 0;
  std::size_t returns = 0;
  std::array<std::size_t, 3> prefixes{};                      // none of the first
  std::array<std::array<const std::string*, 256>, 3> layouts{};  // null: no such instruction
};

Instructions read_instructions() {
  static const auto* table = new Json(Json::parse(
#include "bytecode.inc"  // made of runtime/bytecode.json by CMakeLists.txt
      ));
  Instructions made;
  made.version = static_cast<std::uint32_t>(table->at("version").integer());
  made.returns = static_cast<std::size_t>(table->at("return").integer());
  const char* names[] = {"core", "f32", "f64"};
  for (std::size_t i = 0; i < 3; ++i) {
    if (i != 0)
      made.prefixes[i] =
          static_cast<std::size_t>(table->at("prefixes").at(names[i]).integer());
    for (const auto& [layout, codes] : table->at(names[i]).object())
      for (const Json& code : codes.array())
        made.layouts[i][static_cast<std::size_t>(code.integer())] = &layout;
  }
  return made;
}

const Instructions& instructions() {
  static const auto* made = new Instructions(read_instructions());
  return *made;
}

// How many values a function takes and gives; `variadic`: it takes any number.
struct Counts {
  std::size_t taken = 0, given = 0;
  bool variadic = false;
};

Counts counts_of(std::string_view signature) {
  Counts made;
  bool behind = false;
  for (std::size_t i = 0; i < signature.size(); ++i) {
    const char c = signature[i];
    const std::string_view known = behind ? "vrifIF" : "vrifIFCD_";
    if (i == 0 ? c != '0' : known.find(c) == known.npos)
      fail(std::string(signature) + " is no type of a function");
    if (i == 0) continue;
    made.variadic = made.variadic || c == 'C';
    if (c == '_') {
      behind = true;
    } else if (c != 'v') {
      ++(behind ? made.given : made.taken);
    }
  }
  return made;
}

std::size_t rounded(std::size_t count) {  // as IREE makes room for registers
  std::size_t made = 1;
  while (made < count) made *= 2;
  return made;
}

class Walk {
 public:
  Walk(const Bytecode& code, const CodeOfFunction& function, std::size_t gives,
       const std::vector<Counts>& known, const std::vector<Counts>& imports)
      : code_(code), data_(part_of(code.data, function.start, function.size)),
        numbers_(rounded(function.numbers)), references_(rounded(function.references)),
        gives_(gives), known_(known), imports_(imports) {}

  void run() {
    while (at_ + 1 < data_.size()) step();
  }

 private:
  std::size_t skip(std::size_t size) {
    if (at_ > data_.size() || size > data_.size() - at_) fail("an instruction is cut");
    at_ += size;
    return at_ - size;
  }

  std::size_t take(std::size_t size) { return number_at(data_, skip(size), size); }

  // Passes a list of elements of so many bytes: how many there are.
  std::size_t items(std::size_t size) {
    at_ += at_ % 2;
    const std::size_t count = take(2);
    skip(count * size);
    return count;
  }

  void step() {
    std::size_t opcode = take(1), table = 0;
    for (std::size_t i = 1; i < 3; ++i)
      if (table == 0 && opcode == instructions().prefixes[i]) {
        table = i;
        opcode = take(1);
      }
    const std::string* layout = instructions().layouts[table][opcode];
    if (layout == nullptr) fail("there is no instruction " + std::to_string(opcode));
    bool calls = false;
    std::size_t callee = 0, count = 0, first = 0, last = 0;  // of its lists, the first and the last
    for (const char field : *layout) {
      if (field == 'f') {
        callee = take(4);
        calls = true;
      } else if (field == 'v') {
        last = items(2);
        if (count++ == 0) first = last;
      } else {
        take_field(field);
      }
    }
    if (calls) {
      check_call(static_cast<std::uint32_t>(callee), count, first, last);
    } else if (table == 0 && opcode == instructions().returns && first != gives_) {
      fail("a function gives " + std::to_string(first) + " values instead of " +
           std::to_string(gives_));
    }
  }

  void take_field(char field) {
    if (field == 'i' || field == 'l' || field == 'r') {
      const std::size_t number = take(2);
      if (field == 'r' ? (number & kNumber) >= references_ : number + (field == 'l') >= numbers_)
        fail("register " + std::to_string(number) + " is used, which is none of its function's");
    } else if (field == 'b') {
      items(4);
    } else if (field == 's') {
      skip(take(2));
    } else if (field == 'c') {
      for (std::size_t left = take(2); left > 0; --left) {
        skip(4);
        items(4);
      }
    } else if (field == 't') {
      if (take(4) >= code_.types) fail("a type is used that there is not");
    } else if (field == 'g') {
      if (take(4) + 8 > code_.variables) fail("a variable is used that there is not");
    } else {
      skip(field == 'd' ? 8 : 4);
    }
  }

  void check_call(std::uint32_t callee, std::size_t lists, std::size_t first, std::size_t last) {
    const std::vector<Counts>& known = (callee & kImport) != 0 ? imports_ : known_;
    const std::size_t number = callee & ~kImport;
    if (number >= known.size())
      fail("function " + std::to_string(number) + " of " + std::to_string(known.size()) +
           " is called");
    if (lists == 0) return;  // asked for only
    const Counts& counts = known[number];
    if (last != counts.given || (!counts.variadic && first != counts.taken))
      fail("function " + std::to_string(number) + " is called with " + std::to_string(first) +
           " values for " + std::to_string(last));
  }

  const Bytecode& code_;
  const Bytes data_;
  const std::size_t numbers_, references_, gives_;
  const std::vector<Counts>&known_, &imports_;
  std::size_t at_ = 0;
};

}  // namespace

void check_code(const Bytecode& code) {
  if (code.version >> 16 != instructions().version >> 16) return;
  std::vector<Counts> known, imports;
  for (const std::string_view signature : code.signatures) known.push_back(counts_of(signature));
  for (const std::string_view signature : code.imports) imports.push_back(counts_of(signature));
  for (std::size_t i = 0; i < code.functions.size(); ++i) {
    const CodeOfFunction& function = code.functions[i];
    if (function.start > code.data.size() || function.size > code.data.size() - function.start)
      fail("a function's code is outside");
    Walk(code, function, known[i].given, known, imports).run();
  }
}

}  // namespace calque::artifact
