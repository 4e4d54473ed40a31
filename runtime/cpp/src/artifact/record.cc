#include "artifact/record.hpp"

#include <algorithm>
#include <cstring>
#include <set>

#include "artifact/json.hpp"

namespace calque::artifact {

DType dtype_of_name(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(DType::uint4); ++i)
    if (name == name_of(static_cast<DType>(i))) return static_cast<DType>(i);
  throw Unreadable("'" + name + "' is no type that a device has");
}

namespace {

constexpr std::int64_t kVersion = 2;
constexpr std::size_t kMostBytes = std::size_t{1} << 62;  // allocators add some, and round up
const char* kFix = "compile it again; the file was written by something else or is damaged.";

std::int64_t size_of(const Json& value) {
  const std::int64_t size = value.integer();
  if (size < 0) throw Unreadable("a negative size");
  return size;
}

Size dimension(const Json& value) {
  Size made;
  if (value.is_string()) {
    made.expression = Expression::parse(value.string());
  } else {
    made.number = size_of(value);
  }
  return made;
}

void read_argument(const Json& value, Argument& made) {
  made.path = value.at("path").string();
  made.dtype = dtype_of_name(value.at("dtype").string());
  for (const Json& size : value.at("shape").array()) made.shape.push_back(dimension(size));
}

std::size_t position_of(const Json& value, std::size_t count) {
  const std::int64_t position = value.integer();
  if (position < 0 || static_cast<std::size_t>(position) >= count)
    throw Unreadable("an argument beyond the " + std::to_string(count) + " that there are");
  return static_cast<std::size_t>(position);
}

Result read_result(const Json& value, std::size_t index, std::size_t arguments) {
  Result made;
  read_argument(value, made);
  made.position = index;
  const Json* from = value.find("from");
  if (from == nullptr) return made;
  const std::vector<Json>& words = from->array();
  const std::string& kind = words.empty() ? "" : words[0].string();
  if (kind == "empty") {
    made.origin = Origin::empty;
  } else if (words.size() == 2 && kind == "argument") {
    made.origin = Origin::argument;
    made.position = position_of(words[1], arguments);
  } else if (words.size() == 2 && kind == "computed" && words[1].integer() >= 0) {
    made.position = static_cast<std::size_t>(words[1].integer());
  } else {
    throw Unreadable("a result from nowhere");
  }
  return made;
}

// The text of a member that may be missing or null.
std::string text_at(const Json& value, const char* name) {
  const Json* found = value.find(name);
  return found == nullptr || found->is_null() ? "" : found->string();
}

bool flag_at(const Json& value, const char* name) {
  const Json* found = value.find(name);
  return found != nullptr && found->boolean();
}

Target read_target(const Json& value) {
  Target made;
  made.name = text_at(value, "name");
  made.backend = text_at(value, "backend");
  made.arch = text_at(value, "arch");
  made.cpu = text_at(value, "cpu");
  if (const Json* features = value.find("features"))
    for (const Json& feature : features->array()) made.features.push_back(feature.string());
  return made;
}

StoredArray read_stored(const Json& value) {
  StoredArray made;
  made.name = value.at("name").string();
  made.dtype = dtype_of_name(value.at("dtype").string());
  made.bytes = calque::size_of(made.dtype);
  for (const Json& size : value.at("shape").array()) {
    made.shape.push_back(size_of(size));
    if (__builtin_mul_overflow(made.bytes, static_cast<std::size_t>(made.shape.back()), &made.bytes))
      throw Unreadable("a parameter larger than any memory");
  }
  return made;
}

// How many results the module's function gives: those that are named, each once or more.
std::size_t count_computed(const std::vector<Result>& results) {
  std::set<std::size_t> named;
  for (const Result& result : results)
    if (result.origin == Origin::computed) named.insert(result.position);
  if (!named.empty() && *named.rbegin() != named.size() - 1)
    throw Unreadable("a computed result that nobody takes");
  return named.size();
}

// Results that are written into memory given by the caller: of sizes that are known, each once.
OutputBuffer read_output_buffer(const Json& value, const Record& record) {
  const std::int64_t computed = value.integer();
  for (std::size_t i = 0; i < record.results.size(); ++i) {
    const Result& result = record.results[i];
    if (result.origin != Origin::computed || static_cast<std::int64_t>(result.position) != computed) continue;
    OutputBuffer made{result.position, i, calque::size_of(result.dtype)};
    for (const Size& size : result.shape) {
      if (size.expression) throw Unreadable("memory for a result of unknown size");
      if (__builtin_mul_overflow(made.bytes, static_cast<std::size_t>(size.number), &made.bytes))
        throw Unreadable("a result larger than any memory");
    }
    if (made.bytes > kMostBytes) throw Unreadable("a result larger than any memory");
    for (const OutputBuffer& other : record.call.output_buffers)
      if (other.computed == made.computed) throw Unreadable("memory for one result twice");
    return made;
  }
  throw Unreadable("memory for a result that is not computed");
}

// The rest of the record has been read.
void read_call(const Json& value, Record& made) {
  CallSpec& call = made.call;
  call.run_inline = flag_at(value, "run_inline");
  call.must_run_inline = flag_at(value, "must_run_inline");
  if (const Json* work = value.find("work"))
    call.work = Expression::parse(work->is_string() ? work->string() : std::to_string(size_of(*work)));
  if (const Json* below = value.find("inline_below")) call.inline_below = size_of(*below);
  if (const Json* positions = value.find("output_buffers"))
    for (const Json& position : positions->array())
      call.output_buffers.push_back(read_output_buffer(position, made));
  if (const Json* bytes = value.find("transient_bytes"))
    call.transient_bytes = static_cast<std::size_t>(size_of(*bytes));
  call.transients = flag_at(value, "transients");
}

// Every variable that is asked for must be in an argument's shape as b or 2*b + 1.
void check_variables(const Record& record) {
  std::set<std::string> known;
  std::vector<const Expression*> asked;
  const auto look = [&](const Argument& argument, bool binds) {
    for (const Size& size : argument.shape) {
      if (!size.expression) continue;
      asked.push_back(&*size.expression);
      if (binds && size.expression->linear()) known.insert(size.expression->linear()->variable);
    }
  };
  for (const Argument& argument : record.arguments) look(argument, true);
  for (const Result& result : record.results) look(result, false);
  for (const Constraint& constraint : record.constraints) {
    asked.push_back(&constraint.left);
    asked.push_back(&constraint.right);
  }
  if (record.call.work) asked.push_back(&*record.call.work);
  for (const Expression* expression : asked)
    for (const std::string& name : expression->variables())
      if (known.count(name) == 0)
        throw Unreadable("the dimension " + expression->text() + " is in no argument's shape");
}

std::vector<std::string> read_leaves(const Json& value, std::size_t count) {
  std::vector<std::string> made(count);
  std::vector<bool> seen(count, false);
  std::set<std::string> names;
  for (const Json& entry : value.array()) {
    const std::vector<Json>& words = entry.array();
    if (words.size() != 2 || words[1].string().empty())
      throw Unreadable("a leaf of the state of other than a position and a name");
    const std::size_t position = position_of(words[0], count);
    if (seen[position] || !names.insert(words[1].string()).second)
      throw Unreadable("a leaf of the state is named twice");
    seen[position] = true;
    made[position] = words[1].string();
  }
  return made;
}

// What comes back must be what was given, and what is given away must come back.
void check_state(const Record& record) {
  for (std::size_t k = 0; k < record.results.size(); ++k) {
    const std::string& name = record.state->results[k];
    if (name.empty()) continue;
    const Result& made = record.results[k];
    for (const Size& size : made.shape)
      if (size.expression) throw Unreadable("the leaf " + name + " has a size that is not known");
    for (std::size_t i = 0; i < record.arguments.size(); ++i) {
      const Argument& given = record.arguments[i];
      if (record.state->arguments[i] != name) continue;
      bool same = given.dtype == made.dtype && given.shape.size() == made.shape.size();
      for (std::size_t axis = 0; same && axis < given.shape.size(); ++axis)
        same = !given.shape[axis].expression && given.shape[axis].number == made.shape[axis].number;
      if (!same) throw Unreadable("the leaf " + name + " comes back as another type");
    }
  }
  for (std::size_t i = 0; i < record.arguments.size(); ++i) {
    const std::string& name = record.state->arguments[i];
    const std::vector<std::string>& back = record.state->results;
    if (!name.empty() && record.donated[i] && std::find(back.begin(), back.end(), name) == back.end())
      throw Unreadable("a leaf of the state is given away and does not come back");
  }
}

void read_state(const Json& value, Record& made) {
  State& state = made.state.emplace();
  state.arguments = read_leaves(value.at("args"), made.arguments.size());
  state.results = read_leaves(value.at("results"), made.results.size());
  state.initial = flag_at(value, "initial");
  check_state(made);
}

Record read(std::string_view text) {
  const Json raw = Json::parse(text);
  const std::int64_t version = raw.at("version").integer();
  if (version != kVersion)
    throw Error(Code::artifact,
                "the artifact describes itself in format " + std::to_string(version) +
                    "; this runtime reads format " + std::to_string(kVersion) + ".",
                "", "use the calque that wrote it, or compile again.");
  Record made;
  made.text = text;
  made.name = raw.at("name").string();
  for (const Json& argument : raw.at("args").array())
    read_argument(argument, made.arguments.emplace_back());
  const std::size_t count = made.arguments.size();
  for (const Json& result : raw.at("results").array())
    made.results.push_back(read_result(result, made.results.size(), count));
  made.computed = count_computed(made.results);
  made.donated.assign(count, false);
  if (const Json* donated = raw.find("donated"))
    for (const Json& position : donated->array()) made.donated[position_of(position, count)] = true;
  if (const Json* passed = raw.find("passed")) {
    for (const Json& position : passed->array()) made.passed.push_back(position_of(position, count));
  } else {
    for (std::size_t i = 0; i < count; ++i) made.passed.push_back(i);
  }
  if (const Json* call = raw.find("call")) read_call(*call, made);
  if (const Json* target = raw.find("target")) made.target = read_target(*target);
  if (const Json* parameters = raw.find("parameters"))
    for (const Json& parameter : parameters->array()) made.parameters.push_back(read_stored(parameter));
  if (const Json* constraints = raw.find("constraints"))
    for (const Json& constraint : constraints->array()) {
      const std::vector<Json>& words = constraint.array();
      if (words.size() != 3) throw Unreadable("a constraint of other than three words");
      made.constraints.push_back(
          Constraint::parse(words[0].string(), words[1].string(), words[2].string()));
    }
  check_variables(made);
  if (const Json* state = raw.find("state"); state != nullptr && !state->is_null()) read_state(*state, made);
  return made;
}

std::vector<Dim> dims_of(const std::vector<Size>& shape) {
  std::vector<Dim> made;
  for (const Size& size : shape)
    made.push_back(size.expression ? Dim{-1, size.text()} : Dim{size.number, ""});
  return made;
}

}  // namespace

Record parse_record(std::string_view text) {
  try {
    return read(text);
  } catch (const Unreadable& error) {
    throw Error(Code::artifact,
                std::string("the artifact's description of a function cannot be read: ") +
                    error.what() + ".",
                "", kFix);
  }
}

namespace {

// An array of a declaration: its number of axes, and the result that is written into it.
struct Declared {
  std::size_t rank = 0;
  std::int64_t output = -1;
  bool operator==(const Declared& other) const { return rank == other.rank && output == other.output; }
};

// "async func @main(%input0: tensor<?x3xf32>, %input1: tensor<f32> {iree.abi.output = 0 : index}) ->
// (%output0: tensor<f32>)": the arrays whose name begins so.
std::vector<Declared> arrays_of(std::string_view declaration, std::string_view name) {
  std::vector<Declared> made;
  constexpr std::string_view type = ": tensor<", output = "iree.abi.output = ";
  for (std::size_t at = 0; (at = declaration.find(name, at)) != declaration.npos;) {
    at = declaration.find_first_not_of("0123456789", at + name.size());
    if (at == declaration.npos || declaration.substr(at, type.size()) != type) continue;
    at += type.size();
    Declared& array = made.emplace_back();
    for (;;) {  // sizes end in x: "4x", "?x"
      const std::size_t end = declaration.find_first_not_of("?0123456789", at);
      if (end == at || end == declaration.npos || declaration[end] != 'x') break;
      at = end + 1;
      ++array.rank;
    }
    const std::string_view rest = declaration.substr(at, declaration.find('%', at) - at);
    const std::size_t written = rest.find(output);
    if (written == rest.npos) continue;
    array.output = 0;
    for (const char c : rest.substr(written + output.size())) {
      if (c < '0' || c > '9' || array.output > INT32_MAX) break;
      array.output = 10 * array.output + (c - '0');
    }
  }
  return made;
}

}  // namespace

void check_declaration(const Record& record, std::string_view declaration) {
  std::vector<Declared> taken, given(record.computed);
  for (const std::size_t i : record.passed) taken.push_back({record.arguments[i].shape.size()});
  for (const OutputBuffer& written : record.call.output_buffers)
    taken.push_back({record.results[written.result].shape.size(), static_cast<std::int64_t>(written.computed)});
  for (const Result& result : record.results)
    if (result.origin == Origin::computed) given[result.position] = {result.shape.size()};
  const bool works_in_given = declaration.find("iree.abi.transients") != declaration.npos;
  if (taken == arrays_of(declaration, "%input") && given == arrays_of(declaration, "%output") &&
      works_in_given == record.call.transients)
    return;
  throw Error(Code::artifact,
              "the artifact's description of " + record.name + " is not that of the program: " +
                  std::string(declaration.substr(0, 200)) + ".",
              record.name, kFix);
}

std::size_t storage_bytes(const Record& record, std::string_view written) {
  std::size_t made = 0;
  bool is_size = !written.empty() && written.size() < 16;
  for (const char c : written) {
    is_size = is_size && c >= '0' && c <= '9';
    if (is_size) made = 10 * made + static_cast<std::size_t>(c - '0');
  }
  if (is_size) return made;
  throw Error(Code::artifact, "the compiled program does not say how much memory it works in.",
              record.name, kFix);
}

bool CallSpec::runs_inline(const Sizes& sizes) const {
  if (!work) return run_inline;
  try {
    return work->evaluate(sizes) < inline_below;
  } catch (const Undefined&) {
    return run_inline;
  }
}

bool Record::is_dynamic() const {
  const auto is_expression = [](const Size& size) { return size.expression.has_value(); };
  const auto has_one = [&](const Argument& argument) {
    return std::any_of(argument.shape.begin(), argument.shape.end(), is_expression);
  };
  return std::any_of(arguments.begin(), arguments.end(), has_one) ||
         std::any_of(results.begin(), results.end(), has_one);
}

Signature Record::signature() const {
  Signature made;
  made.name = name;
  made.target = target.name;
  made.record = text;
  for (std::size_t i = 0; i < arguments.size(); ++i)
    made.arguments.push_back({arguments[i].path, arguments[i].dtype, dims_of(arguments[i].shape),
                              donated[i], state ? state->arguments[i] : ""});
  for (std::size_t k = 0; k < results.size(); ++k)
    made.results.push_back({results[k].path, results[k].dtype, dims_of(results[k].shape), false,
                            state ? state->results[k] : ""});
  made.is_initial_state = state && state->initial;
  return made;
}

}  // namespace calque::artifact
