// PTX as a list of instructions with registers by number: what machine.cpp runs.
//
// After NVIDIA's "PTX ISA".  As much of the language as IREE 3.13 and Triton 3.9 write for sm_80.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ptx {

enum class Kind : uint8_t { kNone, kRegister, kNumber, kSpecial, kAddress, kLabel, kVector };

// A register, a number (its bits), a place in memory (register or number, plus offset), a label's
// position, or several registers.
struct Operand {
  Kind kind = Kind::kNone;
  int reg = -1;
  uint64_t bits = 0;
  std::vector<Operand> parts;
};

struct Instruction {
  std::vector<std::string> words;  // "ld", "global", "v4", "f32"
  std::string op, type, from;      // the first, the last, and of cvt and set the one before
  int guard = -1;                  // predicate that it is under
  bool negated = false;
  std::vector<Operand> operands;
  int code = 0;  // machine.cpp's
  int width = 1, size = 4;  // elements of a vector; bytes of each
  bool Has(const std::string& word) const {
    for (const auto& w : words) if (w == word) return true;
    return false;
  }
};

struct Parameter { std::string name; int size; int offset; };

struct Entry {
  std::string name;
  std::vector<Parameter> parameters;
  std::vector<Instruction> code;
  int registers = 0, shared = 0, local = 0;
};

struct Module {
  std::map<std::string, std::shared_ptr<Entry>> entries;
  std::vector<std::vector<uint8_t>> memory;  // of constants and globals
};

// Raises std::runtime_error with the line that is not known.
std::shared_ptr<Module> Parse(const std::string& text);

// %tid.x and the like, as Operand::reg of kSpecial.
enum Special { kTid = 0, kNtid = 3, kCtaid = 6, kNctaid = 9, kLane = 12, kWarp = 13, kClock = 14 };

}  // namespace ptx
