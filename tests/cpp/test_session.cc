// Sessions: state by name, calls that keep it, archives, and the header that `calque header` has made.
#include <cmath>
#include <fstream>

#include "check.hpp"
#include "trainer.hpp"

namespace {

using calque::Array;
using calque::Session;

const std::vector<float> kInput = {1, 2, 3, 4, 5, 6, 7, 8};

void a_session_keeps_what_calls_write() {
  const calque::Module module = load("trainer");
  Session session(module), other(module);
  CHECK(session.leaves().size() == 4 && session.leaves()[0].path == "count");
  CHECK(session.leaves()[2].path == "params['b']" && session.leaves()[2].describe() == "float32[3]");
  const Array x = Array::from_host(kInput, {4, 2}), rate = Array::scalar(0.5f);
  // rows' sums 3, 7, 11, 15, each times 0 + 1 + 2
  CHECK(session("step", x, rate)[0].item<float>() == 108.0f);
  CHECK((session.read("params['w']").to_vector<float>() == std::vector<float>(6, 0.5f)));
  CHECK((session.read("params['b']").to_vector<float>() == std::vector<float>{0, 36, 72}));
  CHECK(session.read("history").view<float>()[0] == 108.0f);
  CHECK(session.read("count").item<std::int32_t>() == 1 && other.read("count").item<std::int32_t>() == 0);
  CHECK(session("step", x, rate).size() == 2 && session("reset").empty());
  CHECK(session.read("count").item<std::int32_t>() == 0);
  const Array b = Array::from_host<float>({1, 2, 3}, {3});
  session.write("params['b']", b);
  session("step", x, rate);
  CHECK(!b.is_deleted() && b.to_vector<float>()[0] == 1.0f);  // the session has a copy
}

// Leaves that are the same array, an argument's or a result's, change alone.
void leaves_that_share_memory() {
  Session session(load("pair"));
  std::vector<float> a(5000), b(5000);
  for (int i = 0; i < 5000; ++i) a[i] = static_cast<float>(i), b[i] = 2 * a[i];
  const auto step = [&] {
    session("step");
    for (int i = 5; i < 8; ++i) a[i] = 7;
    for (float& x : b) x *= 2;
    CHECK(session.read("a").to_vector<float>() == a && session.read("b").to_vector<float>() == b);
  };
  session("swap");
  std::swap(a, b);
  step();
  session("same");
  b = a;
  step();
  step();
  const Array x = Array::from_host(std::vector<float>(5000, 1), {5000});
  const Array taken = session("take", x)[0], given = session("give")[0];
  a.assign(5000, 1);
  step();
  for (const Array& held : {x, taken, given}) CHECK(held.to_vector<float>() == std::vector<float>(5000, 1));
}

void what_is_wrong_is_said_and_changes_nothing() {
  Session session(load("trainer"));
  const Array x = Array::from_host(kInput, {4, 2}), rate = Array::scalar(0.5f), one = Array::scalar(1);
  CHECK_ERROR(not_found, ({"no leaf 'c'", "count, history", "Fix: "}), session.read("c"));
  CHECK_ERROR(dtype, ({"count must be int32[]", "float32", "Fix: "}), session.write("count", rate));
  CHECK_ERROR(shape, ({"count must be int32[]", "(4, 2)"}),
              session.write("count", Array::from_host(std::vector<std::int32_t>(8), {4, 2})));
  CHECK_ERROR(arity, ({"takes 2 arguments besides the state, got 1", "pass x, rate"}), session("step", x));
  CHECK_ERROR(shape, ({"x must be float32[4,2]"}), session("step", rate, rate));
  CHECK_ERROR(dtype, ({"rate must be float32[]"}), session("step", x, one));
  CHECK_ERROR(not_found, ({"no function 'f'"}), session("f", x));
  CHECK_ERROR(artifact, ({"the artifact has no state"}), Session(load("add")));
  CHECK_ERROR(artifact, ({"no archive"}), session.restore("no.safetensors"));
  CHECK_ERROR(artifact, ({"is no archive of a session"}), session.restore("no.gguf"));
  CHECK_ERROR(invalid_argument, ({"its name says no format"}), session.save("state.bin"));
  CHECK(session.read("count").item<std::int32_t>() == 0);
  CHECK(session("step", x, rate)[0].item<float>() == 108.0f);
}

void a_state_goes_to_a_file_and_back(const std::string& folder) {
  const calque::Module module = load("trainer");
  Session session(module), other(module);
  const Array x = Array::from_host(kInput, {4, 2}), rate = Array::scalar(0.5f);
  session("step", x, rate);
  const std::string path = folder + "/session.safetensors";
  session.save(path);
  if (std::ifstream(folder + "/python.irpa").good()) {  // of the same state, saved in Python
    other.restore(folder + "/python.irpa");
    CHECK((other.read("params['b']").to_vector<float>() == std::vector<float>{0, 36, 72}));
  }
  other.restore(path);
  CHECK(other("step", x, rate)[0].item<float>() == session("step", x, rate)[0].item<float>());
  CHECK(other.read("count").item<std::int32_t>() == 2);
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  for (const std::size_t size : {bytes.size() - 5, std::size_t{100}, std::size_t{4}}) {
    std::ofstream(path, std::ios::binary | std::ios::trunc).write(bytes.data(), static_cast<std::streamsize>(size));
    CHECK_ERROR(artifact, ({"cannot be read", "Fix: "}), other.restore(path));
  }
  const std::string whole = bytes;
  const std::size_t at = bytes.find("\"count\"");
  CHECK(at != bytes.npos);
  bytes[at + 1] = 'k';
  std::ofstream(path, std::ios::binary | std::ios::trunc).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  CHECK_ERROR(artifact, ({"has no leaf count"}), other.restore(path));
  CHECK(other.read("count").item<std::int32_t>() == 2);
  std::ofstream(path, std::ios::binary | std::ios::trunc).write(whole.data(), static_cast<std::streamsize>(whole.size()));
}

void the_header_is_typed() {
  trainer::Model model(path_of("trainer"));
  const trainer::StepResults made =
      model.step({calque::Typed<float, 4, 2>::from_host(kInput), 0.5f});
  CHECK(made.loss.item() == 108.0f && made.y.view().size() == 12);
  CHECK(model.session.read(trainer::Model::State::params_b).to_vector<float>()[1] == 36.0f);
  model.reset();
  CHECK_ERROR(shape, ({"float32[8]", "float32[4,2] is wanted"}),
              (model.step({calque::Typed<float, 4, 2>(Array::from_host(kInput, {8})), 0.5f})));
}

}  // namespace

int main(int count, char** words) {
  artifacts() = words[1];
  a_session_keeps_what_calls_write();
  leaves_that_share_memory();
  what_is_wrong_is_said_and_changes_nothing();
  a_state_goes_to_a_file_and_back(count > 2 ? words[2] : ".");
  the_header_is_typed();
}
