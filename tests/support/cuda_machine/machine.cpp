#include "machine.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace machine {

std::map<uint64_t, uint64_t> allocations;

namespace {

using ptx::Instruction;
using ptx::Kind;
using ptx::Operand;

template <typename T> T As(uint64_t bits) { T v; memcpy(&v, &bits, sizeof v); return v; }
template <typename T> uint64_t Bits(T v) { uint64_t b = 0; memcpy(&b, &v, sizeof v); return b; }

float OfHalf(uint16_t h) { return static_cast<float>(As<_Float16>(h)); }
uint16_t ToHalf(double v) { return Bits(static_cast<_Float16>(v)); }
float OfBf(uint16_t h) { return As<float>(static_cast<uint64_t>(h) << 16); }
uint16_t ToBf(float v) {
  uint32_t b = Bits(v);
  if (std::isnan(v)) return (b >> 16) | 0x40;
  return (b + 0x7fff + ((b >> 16) & 1)) >> 16;
}

enum State { kRun, kWarpWait, kBarrier, kDone };

struct Thread {
  std::vector<uint64_t> r;
  std::vector<uint8_t> local;
  int pc = 0;
  State state = kRun;
  unsigned tid[3];
  int lane, warp;
};

class Block {
 public:
  Block(const ptx::Entry& e, Grid grid, Grid at, Grid size, unsigned shared,
        const std::vector<uint8_t>& parameters)
      : e_(e), grid_(grid), at_(at), size_(size), parameters_(parameters) {
    shared_.assign(e.shared + shared + 16, 0xFF);  // NaN: what is read before it is written shows
    auto p = reinterpret_cast<uint64_t>(shared_.data());
    base_ = shared_.data() + ((16 - p % 16) % 16);
    shared_bytes_ = e.shared + shared;
    unsigned count = size.x * size.y * size.z;
    threads_.resize(count);
    for (unsigned i = 0; i < count; i++) {
      Thread& t = threads_[i];
      t.r.assign(e.registers, 0);
      t.local.assign(e.local + 16, 0xFF);
      t.tid[0] = i % size.x, t.tid[1] = i / size.x % size.y, t.tid[2] = i / (size.x * size.y);
      t.lane = i % 32, t.warp = i / 32;
    }
  }

  void Run() {
    size_t warps = (threads_.size() + 31) / 32;
    while (true) {
      bool moved = false, left = false, all_wait = true;
      for (size_t w = 0; w < warps; w++) {
        size_t first = w * 32, last = std::min(first + 32, threads_.size());
        for (size_t i = first; i < last; i++)
          if (threads_[i].state == kRun) Go(threads_[i]), moved = true;
        int pc = -1;
        bool together = true;
        for (size_t i = first; i < last; i++) {
          Thread& t = threads_[i];
          if (t.state == kDone) continue;
          left = true;
          if (t.state != kBarrier) all_wait = false;
          if (t.state != kWarpWait || (pc >= 0 && pc != t.pc)) together = false;
          pc = t.pc;
        }
        if (pc >= 0 && together) {
          Together(first, last, e_.code[pc]);
          for (size_t i = first; i < last; i++)
            if (threads_[i].state == kWarpWait) threads_[i].pc++, threads_[i].state = kRun;
          moved = true;
        }
      }
      if (!left) return;
      if (all_wait) {
        for (auto& t : threads_)
          if (t.state == kBarrier) t.pc++, t.state = kRun;
        moved = true;
      }
      if (!moved) throw std::runtime_error("threads wait for each other in " + e_.name);
    }
  }

 private:
  [[noreturn]] void Fail(const Instruction& i, const std::string& what) {
    std::string text;
    for (const auto& w : i.words) text += (text.empty() ? "" : ".") + w;
    throw std::runtime_error(e_.name + ": " + text + ": " + what);
  }

  uint64_t Get(const Thread& t, const Operand& o) {
    switch (o.kind) {
      case Kind::kRegister: return t.r[o.reg];
      case Kind::kNumber: return o.bits;
      case Kind::kSpecial:
        if (o.reg < ptx::kNtid) return t.tid[o.reg];
        if (o.reg < ptx::kCtaid) return (&size_.x)[o.reg - ptx::kNtid];
        if (o.reg < ptx::kNctaid) return (&at_.x)[o.reg - ptx::kCtaid];
        if (o.reg < ptx::kLane) return (&grid_.x)[o.reg - ptx::kNctaid];
        return o.reg == ptx::kLane ? t.lane : o.reg == ptx::kWarp ? t.warp : 0;
      default: return 0;
    }
  }

  void Set(Thread& t, const Operand& o, uint64_t v, int size) {
    if (o.kind != Kind::kRegister) return;
    t.r[o.reg] = size >= 8 ? v : v & ((1ull << (8 * size)) - 1);
  }

  uint8_t* Memory(Thread& t, const Instruction& i, const Operand& o, int bytes) {
    uint64_t at = (o.reg >= 0 ? t.r[o.reg] : 0) + o.bits;
    if (at % bytes && bytes <= 16) Fail(i, "misaligned by " + std::to_string(at % bytes));
    if (i.Has("shared") && i.op != "cp") {
      at &= 0xffffffff;
      if (at + bytes > shared_bytes_) Fail(i, "outside of shared memory");
      return base_ + at;
    }
    if (i.Has("local")) {
      if (at + bytes > t.local.size()) Fail(i, "outside of local memory");
      return t.local.data() + at;
    }
    return Global(t, i, at, bytes);
  }

  uint8_t* Global(Thread& t, const Instruction& i, uint64_t at, int bytes) {
    auto* p = reinterpret_cast<uint8_t*>(at);
    if (i.Has("const")) return p;
    if (p >= t.local.data() && p + bytes <= t.local.data() + t.local.size()) return p;
    auto found = allocations.upper_bound(at);
    if (found == allocations.begin()) Fail(i, "outside of every allocation");
    --found;
    if (at + bytes > found->first + (found->second + 15) / 16 * 16)  // (LLVM reads so much at once)
      Fail(i, "outside of every allocation, " + std::to_string(at - found->first) + " bytes from the start of " +
              std::to_string(found->second));
    return p;
  }

  // ---- one thread, up to where it waits for others
  void Go(Thread& t) {
    for (long steps = 0;; steps++) {
      if (steps > 2000000000L) throw std::runtime_error(e_.name + ": no end");
      const Instruction& i = e_.code[t.pc];
      if (i.guard >= 0 && (t.r[i.guard] != 0) == i.negated) {
        t.pc++;
        continue;
      }
      const std::string& op = i.op;
      if (op == "bra") {
        t.pc = i.operands[0].reg;
        continue;
      }
      if (op == "ret" || op == "exit") {
        t.state = kDone;
        return;
      }
      if (op == "bar" || op == "barrier") {
        t.state = kBarrier;
        return;
      }
      if (op == "shfl" || op == "mma" || op == "ldmatrix" || op == "vote" || op == "redux") {
        t.state = kWarpWait;
        return;
      }
      if (op == "ld") Load(t, i);
      else if (op == "st") Store(t, i);
      else if (op == "cp") Copy(t, i);
      else if (op == "mov") Move(t, i);
      else if (op == "cvt") Convert(t, i);
      else if (op == "cvta") Set(t, i.operands[0], Cvta(t, i), 8);
      else if (op == "setp") Compare(t, i);
      else if (i.type[0] == 'f' || i.type == "bf16" || i.type == "bf16x2" ) Float(t, i);
      else Integer(t, i);
      t.pc++;
    }
  }

  uint64_t Cvta(Thread& t, const Instruction& i) {
    uint64_t v = Get(t, i.operands[1]);
    return i.Has("local") && !i.Has("to") ? v + reinterpret_cast<uint64_t>(t.local.data()) : v;
  }

  void Load(Thread& t, const Instruction& i) {
    const Operand& to = i.operands[0];
    if (i.Has("param")) {
      const Operand& from = i.operands[1];  // (a place may be chosen: mov of a name, selp)
      uint64_t at = (from.reg >= 0 ? t.r[from.reg] : 0) + from.bits;
      if (at + i.size > parameters_.size()) Fail(i, "outside of the parameters");
      Set(t, to, Extended(i, parameters_.data() + at), 8);
      return;
    }
    uint8_t* from = Memory(t, i, i.operands[1], i.size * i.width);
    for (int k = 0; k < i.width; k++)
      Set(t, to.kind == Kind::kVector ? to.parts[k] : to, Extended(i, from + k * i.size), 8);
  }

  uint64_t Extended(const Instruction& i, const uint8_t* from) {
    uint64_t v = 0;
    memcpy(&v, from, i.size);
    if (i.type[0] == 's' && i.size < 8 && v >> (8 * i.size - 1)) v |= ~0ull << (8 * i.size);
    return v;
  }

  void Store(Thread& t, const Instruction& i) {
    uint8_t* to = Memory(t, i, i.operands[0], i.size * i.width);
    for (int k = 0; k < i.width; k++) {
      const Operand& from = i.operands[1];
      uint64_t v = Get(t, from.kind == Kind::kVector ? from.parts[k] : from);
      memcpy(to + k * i.size, &v, i.size);
    }
  }

  void Copy(Thread& t, const Instruction& i) {  // cp.async, at once
    if (i.Has("commit_group") || i.Has("wait_group") || i.Has("wait_all")) return;
    int size = Get(t, i.operands[2]);
    int read = i.operands.size() > 3 ? static_cast<int>(Get(t, i.operands[3])) : size;
    uint64_t to = Get(t, Operand{Kind::kRegister, i.operands[0].reg, 0, {}}) + i.operands[0].bits;
    to &= 0xffffffff;
    if (to % size || to + size > shared_bytes_) Fail(i, "outside of shared memory, or misaligned");
    uint8_t* from = read ? Memory(t, i, i.operands[1], size) : nullptr;
    memset(base_ + to, 0, size);
    if (read) memcpy(base_ + to, from, read);
  }

  void Move(Thread& t, const Instruction& i) {
    const Operand &to = i.operands[0], &from = i.operands[1];
    if (to.kind == Kind::kVector) {
      int each = i.size / to.parts.size();
      uint64_t v = Get(t, from);
      for (size_t k = 0; k < to.parts.size(); k++) Set(t, to.parts[k], v >> (8 * each * k), each);
    } else if (from.kind == Kind::kVector) {
      int each = i.size / from.parts.size();
      uint64_t v = 0, mask = each >= 8 ? ~0ull : (1ull << 8 * each) - 1;
      for (size_t k = 0; k < from.parts.size(); k++)
        v |= (Get(t, from.parts[k]) & mask) << (8 * each * k);
      Set(t, to, v, i.size);
    } else {
      Set(t, to, Get(t, from), i.size);
    }
  }

  double Number(const std::string& type, uint64_t v) {
    if (type == "f16") return OfHalf(v);
    if (type == "bf16") return OfBf(v);
    if (type == "f32") return As<float>(v);
    return As<double>(v);
  }

  static int64_t Signed(uint64_t v, int size) {
    return size >= 8 ? static_cast<int64_t>(v) : static_cast<int64_t>(v << (64 - 8 * size)) >> (64 - 8 * size);
  }

  static uint64_t Unsigned(uint64_t v, int size) {
    return size >= 8 ? v : v & ((1ull << 8 * size) - 1);
  }

  static int Size(const std::string& type) {
    std::string digits;
    for (char c : type) if (isdigit(c)) digits += c;
    if (type == "bf16" || type == "f16") return 2;
    return atoi(digits.c_str()) / 8;
  }

  void Convert(Thread& t, const Instruction& i) {
    std::string to = i.from, from = i.type;
    const Operand& d = i.operands[0];
    if (to == "f16x2" || to == "bf16x2") {
      float hi = As<float>(Get(t, i.operands[1])), lo = As<float>(Get(t, i.operands[2]));
      uint32_t h = to == "f16x2" ? ToHalf(hi) : ToBf(hi), l = to == "f16x2" ? ToHalf(lo) : ToBf(lo);
      Set(t, d, h << 16 | l, 4);
      return;
    }
    uint64_t v = Get(t, i.operands[1]);
    if (to == "tf32") {  // rna: to nearest, ties away
      uint32_t b = v;
      if ((b & 0x7f800000) != 0x7f800000) b += 0x1000;
      Set(t, d, b & 0xffffe000, 4);
      return;
    }
    bool of_float = from[0] == 'f' || from == "bf16", to_float = to[0] == 'f' || to == "bf16";
    if (!of_float && !to_float) {
      uint64_t wide = from[0] == 's' ? Signed(v, Size(from)) : Unsigned(v, Size(from));
      if (to[0] == 's') wide = Signed(wide, Size(to));  // (a register may be wider)
      Set(t, d, wide, 8);
      if (to[0] != 's') Set(t, d, Unsigned(wide, Size(to)), 8);
      return;
    }
    if (!of_float) {
      bool s = from[0] == 's';
      int64_t a = Signed(v, Size(from));
      uint64_t u = Unsigned(v, Size(from));
      if (to == "f64") Set(t, d, Bits(s ? static_cast<double>(a) : static_cast<double>(u)), 8);
      else if (to == "f32") Set(t, d, Bits(s ? static_cast<float>(a) : static_cast<float>(u)), 4);
      else if (to == "f16") Set(t, d, ToHalf(s ? static_cast<double>(a) : static_cast<double>(u)), 2);
      else Set(t, d, ToBf(s ? static_cast<float>(a) : static_cast<float>(u)), 2);
      return;
    }
    double x = Number(from, v);
    if (i.Has("rzi")) x = std::trunc(x);
    if (i.Has("rmi")) x = std::floor(x);
    if (i.Has("rpi")) x = std::ceil(x);
    if (i.Has("rni")) x = std::nearbyint(x);
    if (to_float) {
      if (i.Has("sat")) x = std::isnan(x) ? 0 : std::min(1.0, std::max(0.0, x));
      SetFloat(t, d, to, x);
      return;
    }
    int size = Size(to);
    if (to[0] == 's') {
      double low = -std::ldexp(1.0, 8 * size - 1), high = std::ldexp(1.0, 8 * size - 1);
      int64_t n = std::isnan(x) ? 0 : x < low ? static_cast<int64_t>(low)
                  : x >= high ? (size == 8 ? INT64_MAX : static_cast<int64_t>(high) - 1) : static_cast<int64_t>(x);
      Set(t, d, n, 8);
    } else {
      double high = std::ldexp(1.0, 8 * size);
      uint64_t n = !(x > 0) ? 0 : x >= high ? (size == 8 ? UINT64_MAX : static_cast<uint64_t>(high) - 1)
                                            : static_cast<uint64_t>(x);
      Set(t, d, n, 8);
    }
  }

  void SetFloat(Thread& t, const Operand& d, const std::string& type, double x) {
    if (type == "f64") Set(t, d, Bits(x), 8);
    else if (type == "f32") Set(t, d, Bits(static_cast<float>(x)), 4);
    else if (type == "f16") Set(t, d, ToHalf(x), 2);
    else Set(t, d, ToBf(static_cast<float>(x)), 2);
  }

  void Compare(Thread& t, const Instruction& i) {
    const std::string& how = i.words[1];
    size_t last = i.operands.size() - 1;
    uint64_t p = Get(t, i.operands[last - 1]), q = Get(t, i.operands[last]);
    bool r;
    if (i.type[0] == 'f' || i.type == "bf16") {
      double a = Number(i.type, p), b = Number(i.type, q);
      bool nan = std::isnan(a) || std::isnan(b);
      if (how == "num") r = !nan;
      else if (how == "nan") r = nan;
      else {
        bool unordered = how.size() == 3;
        std::string o = how.substr(0, 2);
        r = nan ? unordered || how == "neu" : o == "eq" ? a == b : o == "ne" ? a != b : o == "lt" ? a < b
            : o == "le" ? a <= b : o == "gt" ? a > b : a >= b;
        if (nan && how == "ne") r = false;
      }
    } else if (i.type[0] == 's') {
      r = Ordered(how, Signed(p, i.size), Signed(q, i.size));
    } else {
      r = Ordered(how, Unsigned(p, i.size), Unsigned(q, i.size));
    }
    Set(t, i.operands[0], r, 1);
    if (last == 3) Set(t, i.operands[1], !r, 1);
  }

  template <typename T> bool Ordered(const std::string& how, T a, T b) {
    if (how == "eq") return a == b;
    if (how == "ne") return a != b;
    if (how == "lt" || how == "lo") return a < b;
    if (how == "le" || how == "ls") return a <= b;
    if (how == "gt" || how == "hi") return a > b;
    return a >= b;
  }

  void Float(Thread& t, const Instruction& i) {
    const std::string &op = i.op, type = i.type;
    auto get = [&](int k) { return Get(t, i.operands[k]); };
    if (op == "neg" || op == "abs" || op == "copysign") {  // of bits
      bool two = type.size() > 3 && type.substr(type.size() - 2) == "x2";
      uint64_t top = two ? 0x80008000 : 1ull << (8 * i.size - 1), v = get(1);
      if (op == "copysign") v = (get(2) & ~top) | (v & top);
      else v = op == "neg" ? v ^ top : v & ~top;
      Set(t, i.operands[0], v, i.size);
      return;
    }
    if (type.size() > 3 && type.substr(type.size() - 2) == "x2") {
      std::string half = type.substr(0, type.size() - 2);
      uint64_t v = 0;
      for (int k = 0; k < 2; k++) {
        uint64_t parts[3] = {};
        for (size_t j = 1; j < i.operands.size(); j++) parts[j - 1] = get(j) >> (16 * k) & 0xffff;
        v |= HalfOf(i, half, parts) << (16 * k);
      }
      Set(t, i.operands[0], v, 4);
      return;
    }
    if (op == "selp") {
      Set(t, i.operands[0], get(3) & 1 ? get(1) : get(2), i.size);
      return;
    }
    if (type == "f64") {
      double a = As<double>(get(1)), b = i.operands.size() > 2 ? As<double>(get(2)) : 0,
             c = i.operands.size() > 3 ? As<double>(get(3)) : 0;
      Set(t, i.operands[0], Bits(Apply<double>(i, a, b, c)), 8);
    } else if (type == "f32") {
      float a = As<float>(get(1)), b = i.operands.size() > 2 ? As<float>(get(2)) : 0,
            c = i.operands.size() > 3 ? As<float>(get(3)) : 0;
      float r = Apply<float>(i, a, b, c);
      if (i.Has("ftz") && std::fabs(r) < std::numeric_limits<float>::min()) r = std::copysign(0.f, r);
      Set(t, i.operands[0], Bits(r), 4);
    } else {
      uint64_t parts[3] = {};
      for (size_t j = 1; j < i.operands.size(); j++) parts[j - 1] = get(j) & 0xffff;
      Set(t, i.operands[0], HalfOf(i, type, parts), 2);
    }
  }

  uint64_t HalfOf(const Instruction& i, const std::string& type, const uint64_t* p) {
    double a = Number(type, p[0]), b = Number(type, p[1]), c = Number(type, p[2]);
    double r = Apply<double>(i, a, b, c);
    return type == "f16" ? ToHalf(r) : ToBf(static_cast<float>(r));
  }

  template <typename T> T Apply(const Instruction& i, T a, T b, T c) {
    const std::string& op = i.op;
    if (op == "add") return a + b;
    if (op == "sub") return a - b;
    if (op == "mul") return a * b;
    if (op == "fma" || op == "mad") {
      if (i.Has("rz")) {  // (of a sum that is exact, or nearly)
        double exact = static_cast<double>(a) * b + c;
        T r = static_cast<T>(exact);
        return std::fabs(r) > std::fabs(exact) ? std::nextafter(r, T(0)) : r;
      }
      return std::fma(a, b, c);
    }
    if (op == "div") return a / b;
    if (op == "rcp") return 1 / a;
    if (op == "sqrt") return std::sqrt(a);
    if (op == "rsqrt") return 1 / std::sqrt(a);
    if (op == "ex2") return std::exp2(a);
    if (op == "lg2") return std::log2(a);
    if (op == "sin") return std::sin(a);
    if (op == "cos") return std::cos(a);
    if (op == "tanh") return std::tanh(a);
    if (op == "max" || op == "min") {
      bool nan = std::isnan(a) || std::isnan(b);
      if (nan && i.Has("NaN")) return std::numeric_limits<T>::quiet_NaN();
      if (std::isnan(a)) return b;
      if (std::isnan(b)) return a;
      if (a == b) return (op == "max") == std::signbit(a) ? b : a;
      return (op == "max") == (a > b) ? a : b;
    }
    Fail(i, "not known");
  }

  void Integer(Thread& t, const Instruction& i) {
    const std::string& op = i.op;
    bool s = i.type[0] == 's';
    int size = i.size;
    auto raw = [&](int k) { return Get(t, i.operands[k]); };
    auto get = [&](int k) -> uint64_t { return s ? Signed(raw(k), size) : Unsigned(raw(k), size); };
    uint64_t r;
    if (op == "add") r = get(1) + get(2);
    else if (op == "sub") r = get(1) - get(2);
    else if (op == "mul" || op == "mad") {
      if (i.Has("wide")) {
        r = get(1) * get(2);
        if (op == "mad") r += raw(3);
        Set(t, i.operands[0], r, 2 * size);
        return;
      }
      if (i.Has("hi")) {
        __int128 p = s ? static_cast<__int128>(static_cast<int64_t>(get(1))) * static_cast<int64_t>(get(2))
                       : static_cast<__int128>(static_cast<unsigned __int128>(get(1)) * get(2));
        r = static_cast<uint64_t>(p >> (8 * size));
      } else {
        r = get(1) * get(2);
      }
      if (op == "mad") r += get(3);
    } else if (op == "div" || op == "rem") {
      uint64_t a = get(1), b = get(2);
      if (b == 0) r = op == "div" ? ~0ull : a;
      else if (s && b == ~0ull) r = op == "div" ? 0 - a : 0;
      else if (s) r = op == "div" ? static_cast<int64_t>(a) / static_cast<int64_t>(b)
                                  : static_cast<int64_t>(a) % static_cast<int64_t>(b);
      else r = op == "div" ? a / b : a % b;
    } else if (op == "neg") r = 0 - get(1);
    else if (op == "abs") r = std::abs(static_cast<int64_t>(get(1)));
    else if (op == "min" || op == "max") {
      bool less = s ? static_cast<int64_t>(get(1)) < static_cast<int64_t>(get(2)) : get(1) < get(2);
      r = less == (op == "min") ? get(1) : get(2);
    } else if (op == "and") r = raw(1) & raw(2);
    else if (op == "or") r = raw(1) | raw(2);
    else if (op == "xor") r = raw(1) ^ raw(2);
    else if (op == "not") r = i.type == "pred" ? !raw(1) : ~raw(1);
    else if (op == "shl") r = (raw(2) & 0xffffffff) >= 8u * size ? 0 : raw(1) << raw(2);
    else if (op == "shr") {
      uint64_t by = raw(2) & 0xffffffff;
      if (s) r = static_cast<int64_t>(get(1)) >> std::min<uint64_t>(by, 8 * size - 1);
      else r = by >= 8u * size ? 0 : Unsigned(raw(1), size) >> by;
    } else if (op == "shf") {
      uint64_t both = (raw(2) & 0xffffffff) << 32 | (raw(1) & 0xffffffff);
      int by = raw(3) & 31;
      r = i.Has("l") ? both << by >> 32 : both >> by;
    } else if (op == "selp") r = raw(3) & 1 ? raw(1) : raw(2);
    else if (op == "popc") { Set(t, i.operands[0], __builtin_popcountll(Unsigned(raw(1), size)), 4); return; }
    else if (op == "clz") {
      uint64_t v = Unsigned(raw(1), size);
      Set(t, i.operands[0], v ? __builtin_clzll(v) - (64 - 8 * size) : 8 * size, 4);
      return;
    } else if (op == "bfe") {
      int at = raw(2) & 0xff, len = raw(3) & 0xff;
      r = len == 0 ? 0 : Unsigned(raw(1), size) >> at & ((len >= 64 ? 0 : 1ull << len) - 1);
      if (s && len && r >> (len - 1) & 1) r |= ~0ull << len;
    } else if (op == "bfi") {
      int at = raw(3) & 0xff, len = raw(4) & 0xff;
      uint64_t mask = ((1ull << len) - 1) << at;
      r = (raw(2) & ~mask) | (raw(1) << at & mask);
    } else if (op == "prmt") {
      uint64_t both = (raw(2) & 0xffffffff) << 32 | (raw(1) & 0xffffffff), pick = raw(3);
      r = 0;
      for (int k = 0; k < 4; k++) {
        int n = pick >> (4 * k) & 0xf;
        uint64_t byte = both >> (8 * (n & 7)) & 0xff;
        if (n & 8) byte = byte & 0x80 ? 0xff : 0;
        r |= byte << (8 * k);
      }
    } else if (op == "lop3") {
      uint64_t a = raw(1), b = raw(2), c = raw(3), table = raw(4);
      r = 0;
      for (int k = 0; k < 8; k++)
        if (table >> k & 1) r |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
    } else {
      Fail(i, "not known");
    }
    Set(t, i.operands[0], r, i.type == "pred" ? 1 : size);
  }

  // ---- what a warp does together
  void Together(size_t first, size_t last, const Instruction& i) {
    std::vector<Thread*> lanes;
    for (size_t k = first; k < last; k++) lanes.push_back(&threads_[k]);
    if (i.op == "shfl") return Shuffle(lanes, i);
    if (lanes.size() != 32) Fail(i, "a warp is not whole");
    if (i.op == "ldmatrix") return LoadMatrix(lanes, i);
    if (i.op == "mma") return Mma(lanes, i);
    Fail(i, "not known");
  }

  void Shuffle(std::vector<Thread*>& lanes, const Instruction& i) {
    bool pair = i.operands.size() == 6;
    int shift = pair ? 1 : 0;
    std::vector<uint64_t> before(32, 0), out(32, 0);
    for (auto* t : lanes) before[t->lane] = Get(*t, i.operands[1 + shift]);
    for (auto* t : lanes) {
      if (t->state != kWarpWait) continue;
      int b = Get(*t, i.operands[2 + shift]) & 31, c = Get(*t, i.operands[3 + shift]);
      int clamp = c & 31, segment = c >> 8 & 31, lane = t->lane;
      int high = (lane & segment) | (clamp & ~segment), low = lane & segment, j;
      bool in;
      if (i.Has("bfly")) j = lane ^ b, in = j <= high;
      else if (i.Has("up")) j = lane - b, in = j >= high;
      else if (i.Has("down")) j = lane + b, in = j <= high;
      else j = low | (b & ~segment), in = j <= high;
      out[lane] = before[in ? j & 31 : lane];
      if (pair) Set(*t, i.operands[1], in, 1);
    }
    for (auto* t : lanes)
      if (t->state == kWarpWait) Set(*t, i.operands[0], out[t->lane], 4);
  }

  void LoadMatrix(std::vector<Thread*>& lanes, const Instruction& i) {
    int count = i.Has("x4") ? 4 : i.Has("x2") ? 2 : 1;
    bool turned = i.Has("trans");
    uint16_t m[4][8][8];
    for (int k = 0; k < 8 * count; k++) {
      uint64_t at = (lanes[k]->r[i.operands[1].reg] + i.operands[1].bits) & 0xffffffff;
      if (at % 16 || at + 16 > shared_bytes_) Fail(i, "outside of shared memory, or misaligned");
      memcpy(m[k / 8][k % 8], base_ + at, 16);
    }
    for (int lane = 0; lane < 32; lane++)
      for (int k = 0; k < count; k++) {
        int p = lane / 4, q = 2 * (lane % 4);
        uint32_t a = turned ? m[k][q][p] : m[k][p][q], b = turned ? m[k][q + 1][p] : m[k][p][q + 1];
        Set(*lanes[lane], count > 1 ? i.operands[0].parts[k] : i.operands[0].parts.empty()
            ? i.operands[0] : i.operands[0].parts[0], b << 16 | a, 4);
      }
  }

  void Mma(std::vector<Thread*>& lanes, const Instruction& i) {
    bool tf32 = i.Has("tf32");
    std::string type = i.Has("bf16") ? "bf16" : "f16";
    int depth = tf32 ? 8 : 16;
    if (!i.Has(tf32 ? "m16n8k8" : "m16n8k16")) Fail(i, "not known");
    float a[16][16], b[16][8], c[16][8];
    auto part = [&](int lane, int operand, int k) { return Get(*lanes[lane], i.operands[operand].parts[k]); };
    auto cut = [](uint64_t v) { return As<float>(v & 0xffffe000); };  // (TF32's 10 bits)
    auto half = [&](uint64_t v, int k) { return static_cast<float>(Number(type, v >> (16 * k) & 0xffff)); };
    for (int lane = 0; lane < 32; lane++) {
      int g = lane / 4, q = lane % 4;
      for (int k = 0; k < 4; k++) {
        int row = g + 8 * (k % 2);
        if (tf32) a[row][q + 4 * (k / 2)] = cut(part(lane, 1, k));
        else for (int j = 0; j < 2; j++) a[row][2 * q + 8 * (k / 2) + j] = half(part(lane, 1, k), j);
        c[g + 8 * (k / 2)][2 * q + k % 2] = As<float>(part(lane, 3, k));
      }
      for (int k = 0; k < 2; k++) {
        if (tf32) b[q + 4 * k][g] = cut(part(lane, 2, k));
        else for (int j = 0; j < 2; j++) b[2 * q + 8 * k + j][g] = half(part(lane, 2, k), j);
      }
    }
    for (int lane = 0; lane < 32; lane++)
      for (int k = 0; k < 4; k++) {
        int row = lane / 4 + 8 * (k / 2), column = 2 * (lane % 4) + k % 2;
        double sum = c[row][column];
        for (int j = 0; j < depth; j++) sum += static_cast<double>(a[row][j]) * b[j][column];
        Set(*lanes[lane], i.operands[0].parts[k], Bits(static_cast<float>(sum)), 4);
      }
  }

  const ptx::Entry& e_;
  Grid grid_, at_, size_;
  const std::vector<uint8_t>& parameters_;
  std::vector<uint8_t> shared_;
  uint8_t* base_;
  uint64_t shared_bytes_;
  std::vector<Thread> threads_;
};

}  // namespace

void Launch(const ptx::Entry& entry, Grid grid, Grid block, unsigned shared, void** parameters) {
  std::vector<uint8_t> bytes(4096);
  for (size_t i = 0; i < entry.parameters.size(); i++)
    memcpy(bytes.data() + entry.parameters[i].offset, parameters[i], entry.parameters[i].size);
  for (unsigned z = 0; z < grid.z; z++)
    for (unsigned y = 0; y < grid.y; y++)
      for (unsigned x = 0; x < grid.x; x++)
        Block(entry, grid, {x, y, z}, block, shared, bytes).Run();
}

}  // namespace machine
