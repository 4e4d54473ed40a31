// What artifacts say, read without a backend: test_artifact FOLDER [seconds] checks and fuzzes;
// test_artifact --records, --dims, --vulkan, --cuda, --containers, --programs or --archives answers
// questions on stdin (test_cpp.py).
#include <chrono>
#include <fstream>
#include <iostream>
#include <random>
#include <sstream>

#include "artifact/archive.hpp"
#include "artifact/container.hpp"
#include "artifact/cuda.hpp"
#include "artifact/json.hpp"
#include "artifact/program.hpp"
#include "artifact/record.hpp"
#include "artifact/target.hpp"
#include "check.hpp"

using namespace calque;
using namespace calque::artifact;

namespace {

template <class Body>
bool is_refused(Body body) {
  try {
    body();
    return false;
  } catch (const Unreadable&) {
    return true;
  }
}

std::string digest_of(const std::string& text) {
  std::ostringstream made;
  for (const std::uint8_t byte :
       sha256({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()})) {
    made << "0123456789abcdef"[byte >> 4] << "0123456789abcdef"[byte & 15];
  }
  return made.str();
}

// The examples of NIST for FIPS 180-4: one block, two blocks, many.
void digests() {
  CHECK(digest_of("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(digest_of("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(digest_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(digest_of(std::string(1'000'000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

void json() {
  const Json value =
      Json::parse(R"( {"a": [1, -0, 9223372036854775807, -9223372036854775808], "b": "\u00e9\ud83d\ude00\n",
                       "c": {"d": null, "e": true}, "a b": 1.5e+3, "c": {"d": false}} )");
  CHECK(value.at("a").array().size() == 4 && value.at("a").array()[2].integer() == INT64_MAX);
  CHECK(value.at("a").array()[1].integer() == 0 && value.at("a").array()[3].integer() == INT64_MIN);
  CHECK(value.at("b").string() == "\xc3\xa9\xf0\x9f\x98\x80\n");
  CHECK(!value.at("c").at("d").boolean() && value.at("c").find("e") == nullptr);  // the last counts
  CHECK(is_refused([&] { value.at("a b").integer(); }) && is_refused([&] { value.at("z"); }));
  for (const char* text :
       {"", " ", "nul", "[1,]", "[1 2]", "{\"a\":1,}", "{a:1}", "{\"a\" 1}", "01", "-", "1.", "1e", ".5",
        "+1", "NaN", "Infinity", "'a'", "\"a", "\"\\x\"", "\"\\u12g4\"", "\"\\ud800\"",
        "\"\\ud800\\u0041\"", "\"\\udc00\"", "\"\n\"", "[1] 2", "\"\xff\"", "\"\xc0\x80\"",
        "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"", "\"\xe2\x82\"", "[", "{\"a\":"})
    CHECK(is_refused([&] { Json::parse(text); }));
  CHECK(is_refused([] { Json::parse("18446744073709551616").integer(); }));
  CHECK(is_refused([] { Json::parse(std::string(100'000, '[')); }));
  CHECK(Json::parse(std::string(512, '[') + std::string(512, ']')).array().size() == 1);
}

void dims() {
  const Sizes sizes = {{"a", 7}, {"b", -3}, {"big", 0x7fffffff}};
  const auto value = [&](const char* text) {
    return static_cast<std::int64_t>(Expression::parse(text).evaluate(sizes));
  };
  CHECK(value("2*a + 1") == 15 && value("- a + 1") == -6 && value("a^2*b - 4") == -151);
  CHECK(value("floordiv(b, 2)") == -2 && value("mod(b, 2)") == 1 && value("mod(a, b)") == -2);
  CHECK(value("max(a, floordiv(a, 2)) - min(a, b)") == 10 && value("a^0") == 1);
  for (const char* text : {"", "a +", "2a", "a b", "floordiv(a)", "exp(a, a)", "a^-1", "a^65", "(a)",
                           "a*", "99999999999999999999", "max(a, b", "a)", "\xc3\xa9", "a^b", "-"})
    CHECK(is_refused([&] { Expression::parse(text); }));
  for (const char* text : {"floordiv(a, b + 3)", "mod(a, 0)", "big^9", "big^4*big"}) {
    bool undefined = false;
    try {
      Expression::parse(text).evaluate(sizes);
    } catch (const Undefined&) {
      undefined = true;
    }
    CHECK(undefined);
  }
  Sizes found;
  const auto size = [](const char* text) { return Size{0, Expression::parse(text)}; };
  CHECK(fits(5, size("a*b"), found) == Fit::unknown && fits(9, size("2*a + 1"), found) == Fit::yes);
  CHECK(found.at("a") == 4 && fits(5, size("a"), found) == Fit::no && fits(4, size("a"), found) == Fit::yes);
  CHECK(fits(6, size("2*b + 1"), found) == Fit::no && fits(-2, size("- b - 1"), found) == Fit::yes);
  CHECK(fits(std::int64_t{1} << 40, size("c"), found) == Fit::no && found.count("c") == 0);
  CHECK(fits(4, size("a*b"), found) == Fit::yes && fits(5, size("floordiv(a, 0)"), found) == Fit::no);
  CHECK(Constraint::parse(">=", "a", "b + 1").holds({{"a", 4}, {"b", 3}}));
  CHECK(is_refused([] { Constraint::parse(">", "a", "b"); }));
}

// A record with a change or two is refused, or whole: its positions are within it.
void fuzz_records(const std::string& text, double seconds, unsigned seed) {
  std::mt19937 random(seed);
  const auto start = std::chrono::steady_clock::now();
  long count = 0, refused = 0;
  do {
    std::string changed = text;
    for (unsigned i = 0; i <= random() % 3; ++i) {
      const std::size_t at = random() % changed.size();
      switch (random() % 4) {
        case 0: changed[at] = static_cast<char>(random()); break;
        case 1: changed.erase(at, 1 + random() % 8); break;
        case 2: changed.insert(at, changed.substr(random() % changed.size(), random() % 20)); break;
        default: changed[at] = "0123456789-[]{},:\"n*^"[random() % 21];
      }
      if (changed.empty()) changed = "{";
    }
    try {
      const Record record = parse_record(changed);
      for (const std::size_t i : record.passed) CHECK(i < record.arguments.size());
      for (const Result& result : record.results)
        CHECK(result.position < std::max(record.computed, record.arguments.size()) ||
              result.origin == Origin::empty);
      CHECK(record.donated.size() == record.arguments.size());
      for (const OutputBuffer& written : record.call.output_buffers)
        CHECK(written.computed < record.computed && written.result < record.results.size());
      record.signature();
    } catch (const Error& error) {
      CHECK(error.code() == Code::artifact && !error.fix().empty());
      ++refused;
    }
    ++count;
  } while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < seconds);
  CHECK(refused > count / 4 && refused < count);
  std::printf("%ld records, %ld refused\n", count, refused);
}

// How many arrays a program takes and gives, and with how many axes.
void declarations() {
  const Record record = parse_record(
      R"({"version":2,"name":"f","args":[{"path":"x","dtype":"float32","shape":["n",3]},
          {"path":"u","dtype":"float32","shape":[7]},{"path":"s","dtype":"complex64","shape":[]}],
          "passed":[0,2],"results":[{"path":"","dtype":"int32","shape":[2]}]})");
  const auto is_refused = [&](const char* declaration) {
    try {
      check_declaration(record, declaration);
      return false;
    } catch (const Error& error) {
      return error.code() == Code::artifact;
    }
  };
  CHECK(!is_refused("async func @f(%input0: tensor<?x3xf32>, %input1: tensor<complex<f32>>) -> (%output0: "
                    "tensor<2xi32> {iree.abi.encoding = tensor<2xui32>})"));
  for (const char* other :
       {"", "async func @f(%input0: tensor<?x3xf32>) -> (%output0: tensor<2xi32>)",
        "async func @f(%input0: tensor<?xf32>, %input1: tensor<complex<f32>>) -> (%output0: tensor<2xi32>)",
        "async func @f(%input0: tensor<?x3xf32>, %input1: tensor<complex<f32>>) -> (%output0: tensor<i32>)",
        "async func @f(%input0: tensor<?x3xf32>, %input1: tensor<1xcomplex<f32>>) -> (%output0: tensor<2xi32>)",
        "async func @f(%input0: tensor<?x3xf32>, %input1: tensor<complex<f32>>) -> ()",
        "%input", "%input0", "%input0: tensor<", "%input0: tensor<3", "%input0: tensor<3x"})
    CHECK(is_refused(other));
}

// Memory for results: of known sizes, each once, and where the program wants it.
void output_buffers() {
  const std::string front =
      R"({"version":2,"name":"f","args":[{"path":"x","dtype":"float32","shape":["n"]}],
          "results":[{"path":"","dtype":"float32","shape":["n"]},{"path":"","dtype":"complex64","shape":[3,5]},
                     {"path":"","dtype":"bool","shape":[]},
                     {"path":"","dtype":"bool","shape":[],"from":["argument",0]}],)";
  const auto with = [&](const std::string& rest) { return parse_record(front + R"("call":{)" + rest + "}}"); };
  const Record record = with(R"("output_buffers":[2,1],"transient_bytes":70)");
  const std::vector<OutputBuffer>& written = record.call.output_buffers;
  CHECK(written.size() == 2 && written[0].computed == 2 && written[0].result == 2 && written[0].bytes == 1);
  CHECK(written[1].computed == 1 && written[1].bytes == 120 && record.call.transient_bytes == 70);
  CHECK(with(R"("transient_bytes":0)").call.transient_bytes == 0);
  const CallSpec plain = with(R"("run_inline":true)").call;
  CHECK(plain.output_buffers.empty() && plain.transient_bytes == 64 << 20 && plain.runs_inline({}));
  CHECK(!plain.transients && with(R"("transients":true)").call.transients);
  const CallSpec sized = with(R"("work":"3*n","inline_below":10)").call;
  CHECK(sized.runs_inline({{"n", 3}}) && !sized.runs_inline({{"n", 4}}) && !sized.must_run_inline);
  CHECK(with(R"-("work":"mod(3, n)","run_inline":true)-").call.runs_inline({{"n", 0}}));  // no number
  const auto is_refused = [](auto body) {
    try {
      body();
      return false;
    } catch (const Error& error) {
      return error.code() == Code::artifact;
    }
  };
  for (const char* other :
       {"[0]", "[3]", "[-1]", "[1,1]", "[true]", R"(["1"])", "[1.0]", "1", "null"})
    CHECK(is_refused([&] { with(std::string(R"("output_buffers":)") + other); }));
  for (const char* other : {"-1", "1.5", "true", R"("9")", "null", "18446744073709551616"}) {
    CHECK(is_refused([&] { with(std::string(R"("transient_bytes":)") + other); }));
    CHECK(is_refused([&] { with(std::string(R"("inline_below":)") + other); }));
  }
  CHECK(storage_bytes(record, "0") == 0 && storage_bytes(record, "12544") == 12544);
  for (const char* other : {"", "-1", "1e3", "9999999999999999", " 1"})
    CHECK(is_refused([&] { storage_bytes(record, other); }));
  CHECK(is_refused([&] { with(R"("transients":1)"); }));
  CHECK(is_refused([&] { with(R"("work":"m")"); }) && is_refused([&] { with(R"("run_inline":1)"); }));
  for (const char* sizes : {"8589934592,8589934592", "4611686018427387904", "1073741824,1073741825"}) {
    const std::string text = std::string(R"({"version":2,"name":"f","args":[],"results":[{"path":"","dtype":)") +
                             R"("float32","shape":[)" + sizes + R"(]}],"call":{"output_buffers":[0]}})";
    CHECK(is_refused([&] { parse_record(text); }));
  }
  const std::string input = "async func @f(%input0: tensor<?xf32>, ",
                    output = " -> (%output0: tensor<?xf32>, %output1: tensor<3x5xcomplex<f32>>, %output2: tensor<i8>)",
                    one = "%input1: tensor<i8> {iree.abi.encoding = tensor<i1>, iree.abi.output = 2 : index}",
                    two = "%input2: tensor<3x5xcomplex<f32>> {iree.abi.output = 1 : index}";
  check_declaration(record, input + one + ", " + two + ")" + output);
  const std::string storage = ", %input3: !hal.buffer {iree.abi.transients = unit})";
  const Record working = with(R"("output_buffers":[2,1],"transients":true)");
  check_declaration(working, input + one + ", " + two + storage + output);
  CHECK(is_refused([&] { check_declaration(record, input + one + ", " + two + storage + output); }));
  CHECK(is_refused([&] { check_declaration(working, input + one + ", " + two + ")" + output); }));
  for (const std::string& taken :
       {one + ")", std::string("%input1: tensor<i8>, ") + two + ")",
        one + ", %input2: tensor<3x5xcomplex<f32>>)",
        one + ", %input2: tensor<3x5xcomplex<f32>> {iree.abi.output = 11111111111111111111 : index})",
        one + ", %input2: tensor<3x5xcomplex<f32>> {iree.abi.output = x)",
        one + ", %input2: tensor<3xcomplex<f32>> {iree.abi.output = 1 : index})"})
    CHECK(is_refused([&] { check_declaration(record, input + taken + output); }));
  // An argument of the caller's that the program writes to.
  CHECK(is_refused([&] {
    check_declaration(with(R"("output_buffers":[1])"),
                      "async func @f(%input0: tensor<?xf32> {iree.abi.output = 0 : index}, " + two + ")" + output);
  }));
}

// A file with a change is refused; one without comes apart into what was put in.
void containers() {
  const std::vector<std::uint8_t> whole = bytes_of("add");
  const std::vector<Bytes> parts = split(whole, "add");
  CHECK(parts.size() == 1 && parts[0].data() == whole.data() && looks_like_vmfb(parts[0]));
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::uint8_t> damaged = whole;
    if (round % 3 == 0) {
      damaged.resize(random() % damaged.size());
    } else {
      damaged[random() % damaged.size()] ^= static_cast<std::uint8_t>(1u << random() % 8);
    }
    try {
      const std::vector<Bytes> found = split(damaged, "damaged");
      // The index has characters that say nothing, and a file cut before its record is another's.
      CHECK(found[0].size() == parts[0].size() || !looks_like_vmfb(found[0]) || damaged.size() < whole.size());
    } catch (const Error& error) {
      CHECK(error.code() == Code::artifact && !error.fix().empty());
    }
  }
}

std::string target_text(const Target& target) {
  std::string made = target.name + "|" + target.backend + "|" + target.arch + "|" + target.cpu;
  for (const std::string& feature : target.features) made += " " + feature;
  for (const std::string& feature : missing_features(target.features, {"none"})) made += " -" + feature;
  return made;
}

// All that a record says, in one line; test_cpp.py writes the same of the one that Python reads.
std::string text_of(const Record& record) {
  std::ostringstream made;
  const Signature signature = record.signature();
  const auto put = [&](const Parameter& parameter) {
    made << parameter.path << ":" << name_of(parameter.dtype) << "[";
    for (const Dim& dim : parameter.shape)
      made << (dim.is_dynamic() ? dim.name : std::to_string(dim.size)) << ",";
    made << "]";
  };
  made << record.name << "(";
  for (const Parameter& argument : signature.arguments) {
    put(argument);
    if (argument.donated) made << "!";
  }
  made << ")->";
  static const char* const origins[] = {"computed", "argument", "empty"};
  for (std::size_t i = 0; i < record.results.size(); ++i) {
    put(signature.results[i]);
    const Result& result = record.results[i];
    made << origins[static_cast<int>(result.origin)];
    if (result.origin != Origin::empty) made << result.position;
  }
  made << " passed";
  for (const std::size_t i : record.passed) made << " " << i;
  for (const OutputBuffer& written : record.call.output_buffers) made << " written" << written.computed;
  made << " bytes" << record.call.transient_bytes << " inline" << record.call.run_inline << record.call.must_run_inline
       << record.call.transients;
  for (const StoredArray& array : record.parameters) made << " " << array.name << "=" << array.bytes;
  for (const Constraint& constraint : record.constraints) made << " " << constraint.text();
  made << " work " << (record.call.work ? record.call.work->text() : "-") << "<" << record.call.inline_below << " " << target_text(record.target);
  return made.str();
}

// Of each archive named what is in it, a line; test_cpp.py writes the same of what Python reads.
int answer_archives() {
  for (std::string path; std::getline(std::cin, path);) {
    std::ifstream file(path, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    const std::unique_ptr<std::uint8_t[]> exact(new std::uint8_t[text.size()]);  // for sanitizers
    std::copy(text.begin(), text.end(), exact.get());
    try {
      for (const auto& [name, entry] :
           read_archive(Bytes(exact.get(), text.size()), path.substr(path.rfind('.')))) {
        for (const char c : name) std::cout << (c < 33 || c > 126 ? '?' : c);
        std::cout << "=" << entry.bytes << "@" << entry.offset;
        if (entry.type) {
          std::cout << ":" << name_of(entry.type->dtype);
          for (const std::int64_t size : entry.type->shape) std::cout << "," << size;
        }
        std::cout << " ";
      }
      std::cout << "\n";
    } catch (const Unreadable&) {
      std::cout << "refused\n";
    }
  }
  return 0;
}

int answer_records() {
  for (std::string line; std::getline(std::cin, line);) {
    try {
      std::cout << text_of(parse_record(line)) << "\n";
    } catch (const Error&) {
      std::cout << "refused\n";
    }
  }
  return 0;
}

// A module with changed bytes, in its tables, its code and its ELF file: read, or refused.
void fuzz_programs(const std::vector<std::uint8_t>& whole, double seconds, unsigned seed) {
  std::mt19937 random(seed);
  const auto start = std::chrono::steady_clock::now();
  long count = 0, refused = 0;
  do {
    std::vector<std::uint8_t> changed = whole;
    for (unsigned i = 0; i <= random() % 3; ++i) {
      const std::size_t at = random() % changed.size();
      switch (random() % 5) {
        case 0: changed[at] ^= static_cast<std::uint8_t>(1u << random() % 8); break;
        case 1: changed[at] = static_cast<std::uint8_t>(random()); break;
        case 2: changed.resize(at + 1); break;
        default:  // a number of four bytes, at an end of what it may be
          for (std::size_t k = at & ~std::size_t{3}; k < std::min(changed.size(), (at | 3) + 1); ++k)
            changed[k] = static_cast<std::uint8_t>(random() % 2 == 0 ? 0xff : random() % 4);
      }
    }
    const std::unique_ptr<std::uint8_t[]> exact(new std::uint8_t[changed.size()]);  // for sanitizers
    std::copy(changed.begin(), changed.end(), exact.get());
    try {
      read_program(Bytes(exact.get(), changed.size()), "");
    } catch (const Error& error) {
      CHECK(error.code() == Code::artifact && !error.fix().empty());
      ++refused;
    }
    ++count;
  } while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < seconds);
  CHECK(refused > count / 4 && refused < count);
  std::printf("%ld programs, %ld refused\n", count, refused);
}

// Lines "expression|a=1 b=2": its value, and how it takes a size of 12.
int answer_dims() {
  for (std::string line; std::getline(std::cin, line);) {
    const std::size_t bar = line.find('|');
    std::istringstream words(line.substr(bar + 1));
    Sizes sizes;
    for (std::string word; words >> word;)
      sizes[word.substr(0, word.find('='))] = std::stoll(word.substr(word.find('=') + 1));
    try {
      const Expression expression = Expression::parse(line.substr(0, bar));
      Sizes found;
      const Fit fit = fits(12, Size{0, expression}, found);
      std::cout << (fit == Fit::yes ? "True" : fit == Fit::no ? "False" : "None");
      for (const auto& [name, size] : found) std::cout << " " << name << "=" << size;
      std::cout << " " << static_cast<std::int64_t>(expression.evaluate(sizes)) << "\n";
    } catch (const Unreadable&) {
      std::cout << "refused\n";
    } catch (const Undefined&) {
      std::cout << " undefined\n";
    }
  }
  return 0;
}

// Lines "spirv|has|smallest largest threads memory|matrices|sizes|counts|words": what is missing.
int answer_vulkan() {
  for (std::string line; std::getline(std::cin, line);) {
    std::vector<std::vector<std::string>> parts;
    std::istringstream fields(line + "|");
    for (std::string field; std::getline(fields, field, '|');) {
      parts.emplace_back();
      std::istringstream words(field);
      for (std::string word; std::getline(words, word, ';');) parts.back().push_back(word);
    }
    const auto number = [&](int part, int i) {
      return static_cast<std::uint32_t>(std::stoul(parts[part][i]));
    };
    VulkanDevice device;
    device.spirv = {number(0, 0), number(0, 1)};
    device.has.insert(parts[1].begin(), parts[1].end());
    device.smallest = number(2, 0), device.largest = number(2, 1);
    device.threads = number(2, 2), device.memory = number(2, 3);
    device.matrices.insert(parts[3].begin(), parts[3].end());
    for (int i = 0; i < 3; ++i) device.sizes[i] = number(4, i), device.counts[i] = number(5, i);
    for (const std::string& lacking : missing_on(device, parts[6])) std::cout << lacking << "; ";
    std::cout << "\n";
  }
  return 0;
}

// Lines "driver,capability word;word": what a driver does not read, or a card has not.
int answer_cuda() {
  for (std::string line; std::getline(std::cin, line);) {
    const std::size_t space = line.find(' ');
    std::istringstream fields(line.substr(space + 1));
    std::vector<std::string> words;
    for (std::string word; std::getline(fields, word, ';');) words.push_back(word);
    const std::size_t comma = line.find(',');
    std::cout << missing_on_cuda(words, std::stoi(line.substr(0, comma)),
                                 std::stoi(line.substr(comma + 1, space)))
              << ";\n";
  }
  return 0;
}

// Paths, a line each: offsets and sizes of the parts.
int answer_containers() {
  for (std::string path; std::getline(std::cin, path);) {
    std::ifstream file(path, std::ios::binary);
    const std::vector<std::uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
    try {
      for (const Bytes part : split(bytes, path))
        std::cout << part.data() - bytes.data() << "+" << part.size() << " ";
      std::cout << "\n";
    } catch (const Error&) {
      std::cout << "refused\n";
    }
  }
  return 0;
}

// Paths, a line each: what the modules' functions are called, and the digests of what they carry.
int answer_programs() {
  for (std::string path; std::getline(std::cin, path);) {
    std::ifstream file(path, std::ios::binary);
    const std::vector<std::uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
    try {
      std::string said;
      for (const Bytes part : split(bytes, path)) {
        const Program program = read_program(part, path);
        for (const ProgramFunction& function : program.functions) {
          said += function.name;
          for (const auto& [key, value] : *function.attributes)
            said += " " + key + "=" + std::to_string(value.size());
          said += ";";
        }
        for (const std::string& name : program.depends_on) said += " " + name;
      }
      std::cout << said << "\n";
    } catch (const Error& error) {
      CHECK(error.code() == Code::artifact && !error.fix().empty());
      std::cout << "refused\n";
    }
  }
  return 0;
}

}  // namespace

int main(int count, char** words) {
  const std::string first = words[1];
  if (first == "--records") return answer_records();
  if (first == "--dims") return answer_dims();
  if (first == "--vulkan") return answer_vulkan();
  if (first == "--cuda") return answer_cuda();
  if (first == "--containers") return answer_containers();
  if (first == "--programs") return answer_programs();
  if (first == "--archives") return answer_archives();
  artifacts() = first;
  digests();
  json();
  dims();
  declarations();
  output_buffers();
  containers();
  const std::vector<std::uint8_t> whole = bytes_of("halves");
  const std::string text(whole.begin(), whole.end());
  const std::size_t start = text.find("{\"", text.find("calque.signature"));
  CHECK(start != text.npos);
  std::size_t end = start, depth = 0;
  do {
    depth += text[end] == '{';
    depth -= text[end] == '}';
  } while (++end < text.size() && depth > 0);
  const std::string record = text.substr(start, end - start);
  CHECK(parse_record(record).name == "halves");
  const Bytes part = split(Bytes(whole.data(), whole.size()), "").front();
  CHECK(read_program(part, "").functions.size() >= 1);
  fuzz_programs({part.begin(), part.end()}, count > 2 ? std::atof(words[2]) : 1,
                count > 3 ? std::atoi(words[3]) : 1);
  fuzz_records(record, count > 2 ? std::atof(words[2]) : 1, count > 3 ? std::atoi(words[3]) : 1);
  return 0;
}
