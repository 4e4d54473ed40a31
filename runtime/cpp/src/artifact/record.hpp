// What an artifact says about one of its functions: "calque.signature" in its reflection, JSON.
// runtime/aot.py (parse_record) reads the same texts.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "artifact/dims.hpp"
#include "calque/module.hpp"

namespace calque::artifact {

inline constexpr std::string_view kRecordKey = "calque.signature";

// What the code was compiled for.
struct Target {
  std::string name, backend, arch, cpu;  // empty where the record does not say
  std::vector<std::string> features;
};

struct Argument {
  std::string path;
  DType dtype = DType::float32;
  std::vector<Size> shape;
};

// Where a result comes from: the position-th result of the module's function, an argument returned as
// it is, or nowhere (an array without elements).
enum class Origin { computed, argument, empty };

struct Result : Argument {
  Origin origin = Origin::computed;
  std::size_t position = 0;
};

// Which arguments and results of a function are leaves of a module's state: runtime/session.py.
struct State {
  std::vector<std::string> arguments, results;  // the leaf's name, empty where there is none
  bool initial = false;                         // it gives the whole state as a session begins with it
};

// An array that the artifact reads from an archive.
struct StoredArray {
  std::string name;
  DType dtype = DType::float32;
  Shape shape;
  std::size_t bytes = 0;
};

// A result of the module's function that it writes into memory given by the caller.
struct OutputBuffer {
  std::size_t computed;  // its position there
  std::size_t result;    // and the first among the record's results, which has its type
  std::size_t bytes;
};

constexpr std::size_t kSlab = std::size_t{64} << 20;  // of the pool of a queue (runtime/pending.py)

// How the module's function is called; runtime/call_spec.py says more of each.
struct CallSpec {
  bool run_inline = false, must_run_inline = false;  // within the call
  std::optional<Expression> work;  // element operations, where run_inline depends on the sizes,
  std::int64_t inline_below = 0;   // and below how many a call runs inline
  std::vector<OutputBuffer> output_buffers;  // what it takes behind its arguments
  std::size_t transient_bytes = kSlab;       // of the queue's pool that a call may take
  bool transients = false;  // it works in memory given by the caller, too: its last argument

  bool runs_inline(const Sizes& sizes) const;
};

struct Record {
  std::string name, text;  // `text`: the record as it is written
  std::vector<Argument> arguments;
  std::vector<Result> results;
  std::vector<bool> donated;        // of each argument
  std::vector<std::size_t> passed;  // arguments that the module's function takes, in its order
  std::size_t computed = 0;         // results that it gives
  CallSpec call;
  Target target;
  std::vector<StoredArray> parameters;
  std::vector<Constraint> constraints;
  std::optional<State> state;

  bool is_dynamic() const;  // is a size known at the call only?
  Signature signature() const;
};

// The type of a name; Unreadable if there is none.
DType dtype_of_name(const std::string& name);

// Error (artifact) if the text is no record of ours.
Record parse_record(std::string_view text);

// Error (artifact) if a record does not fit what the compiler wrote beside it, "iree.abi.declaration": how
// many arrays the module's function takes and gives, and with how many axes; into which of those that it
// takes it writes which result.  IREE reads the sizes of arguments before it looks whether there are as
// many, and a program writes into what is passed for a result.
inline constexpr std::string_view kDeclarationKey = "iree.abi.declaration";
void check_declaration(const Record& record, std::string_view declaration);

// How much memory it works in (CallSpec::transients), as the compiler has written it; Error (artifact) if
// that is no size.
inline constexpr std::string_view kStorageKey = "iree.abi.transients.size.constant";
std::size_t storage_bytes(const Record& record, std::string_view written);

}  // namespace calque::artifact
