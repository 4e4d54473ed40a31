// Signatures, element types, values, odd arguments: what goes in and what comes out.
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <limits>

#include "check.hpp"

using namespace calque;

namespace {

void signatures() {
  const Module module = load("train_step");
  CHECK(module.functions().size() == 1);
  const Signature& signature = module.functions()[0];
  CHECK(signature.name == "train_step");
  CHECK(signature.arguments.size() == 7 && signature.results.size() == 5);
  CHECK(signature.arguments[0].path == "params[0]['b']");
  CHECK(signature.arguments[1].path == "params[0]['w']");
  CHECK(signature.arguments[1].describe() == "float32[64,32]");
  CHECK(signature.arguments[0].donated && signature.arguments[3].donated);
  CHECK(!signature.arguments[4].donated && signature.arguments[5].dtype == DType::int32);
  CHECK(signature.arguments[6].shape.empty());
  CHECK(signature.target.rfind("cpu", 0) == 0 && signature.record.find("\"version\"") != std::string::npos);
  CHECK(load("add").functions()[0].describe() == "add(x: float32[4], y: float32[4]) -> float32[4]");
}

void addition() {
  const Module module = load("add");
  const float a[] = {1, 2, 3, 4}, b[] = {10, 20, -30, 0.5f};
  const Array x = Array::from_host(Span<const float>(a, 4), {4});
  const std::vector<Array> results = module["add"](x, Array::from_host(Span<const float>(b, 4), {4}));
  CHECK(results.size() == 1 && results[0].shape() == Shape{4} && results[0].nbytes() == 16);
  CHECK(results[0].dtype() == DType::float32 && results[0].describe() == "float32[4]");
  CHECK((results[0].to_vector<float>() == std::vector<float>{11, 22, -27, 4.5f}));
  float target[4];
  results[0].to_host(Span<float>(target, 4));
  CHECK(target[2] == -27);
  // From bytes, and with the parts alive without the module.
  const Function function = Module::load(bytes_of("add")).function("add");
  CHECK(function(x, x)[0].view<float>()[3] == 8);
  CHECK(x.device() == Device::open("cpu:0") && x.device().platform() == "cpu");
}

// A function that was compiled for some sizes, and for any or for no other.
void forms() {
  const auto ones = [](std::int64_t n) {
    return Array::from_host(std::vector<float>(static_cast<std::size_t>(3 * n), 1), {n, 3});
  };
  const auto check = [&](const Function& counted, std::int64_t n) {
    const std::vector<Array> results = counted(ones(n));
    CHECK((results[0].shape() == Shape{n, 3} && results[1].shape() == Shape{n}));
    CHECK(n == 0 || (results[0].view<float>()[0] == static_cast<float>(n) && results[1].view<int>()[0] == n));
  };
  const Module any = load("counted");
  CHECK(any.functions().size() == 3 && any.functions()[0].describe() ==
        "counted(x: float32[b,3]) -> float32[b,3], int32[b]");
  for (const std::int64_t n : {1, 4, 3, 0, 7, 4, 1}) check(any["counted"], n);
  CHECK_ERROR(shape, ({"counted was not compiled for x of shape (2, 4)", "float32[b,3] or x: float32[1,3]"}),
              any["counted"](Array::from_host(std::vector<float>(8), {2, 4})));
  CHECK_ERROR(not_found, ({"no function 'x' in this module; it has counted."}), any["x"]);
  const Function some = load("counted_some")["counted"];
  for (const std::int64_t n : {2, 5, 2}) check(some, n);
  CHECK_ERROR(shape, ({"counted was not compiled for x of shape (3, 3)",
                       "it takes x: float32[2,3] or x: float32[5,3]"}), some(ones(3)));
  CHECK_ERROR(dtype, ({"x must be float32[2,3]"}), some(Array::from_host(std::vector<int>(6), {2, 3})));
}

// A kernel of the user's is part of the artifact: no compiler and no Python function is called.
void own_kernel() {
  const Array x = Array::from_host(std::vector<float>{1, 2, -3, 0.5f}, {4});
  CHECK((load("kernel")["kernel"](x)[0].to_vector<float>() == std::vector<float>{4, 6.5f, -6, 2.75f}));
}

template <class T>
void twice(const std::vector<Array>& results, std::size_t i, T expected) {
  CHECK(results[i].view<T>()[1] == expected);
}

template <class T>
Array three(T a, T b, T c) {
  const T values[] = {a, b, c};
  return Array::from_host(Span<const T>(values, 3), {3});
}

void element_types() {
  const Function function = load("types")["types"];
  const auto h = [](float v) { return float16(v); };
  const auto g = [](float v) { return bfloat16(v); };
  using C = std::complex<float>;
  using Z = std::complex<double>;
  const std::vector<Array> given = {
      three<bool>(true, false, true), three<std::int8_t>(1, -3, 3), three<std::int16_t>(1, -3, 3),
      three<std::int32_t>(1, 1 << 29, 3), three<std::int64_t>(1, std::int64_t{1} << 60, 3),
      three<std::uint8_t>(1, 200, 3), three<std::uint16_t>(1, 30000, 3),
      three<std::uint32_t>(1, 0x80000001u, 3), three<std::uint64_t>(1, ~std::uint64_t{0} >> 1, 3),
      three(h(1), h(0.375f), h(3)), three(g(1), g(-0.375f), g(3)), three(1.0f, 0.1f, 3.0f),
      three(1.0, 0.1, 3.0), three(C(1), C(1, -2), C(3)), three(Z(1), Z(0.1, -2), Z(3))};
  const std::vector<Array> results = function.call(given);
  CHECK(results.size() == given.size());
  for (std::size_t i = 0; i < given.size(); ++i) CHECK(results[i].dtype() == given[i].dtype());
  twice<bool>(results, 0, true);
  twice<std::int8_t>(results, 1, -6);
  twice<std::int16_t>(results, 2, -6);
  twice<std::int32_t>(results, 3, 1 << 30);
  twice<std::int64_t>(results, 4, std::int64_t{1} << 61);
  twice<std::uint8_t>(results, 5, 144);  // wraps
  twice<std::uint16_t>(results, 6, 60000);
  twice<std::uint32_t>(results, 7, 2);  // wraps
  twice<std::uint64_t>(results, 8, ~std::uint64_t{0} - 1);
  CHECK(static_cast<float>(results[9].view<float16>()[1]) == 0.75f);
  CHECK(static_cast<float>(results[10].view<bfloat16>()[1]) == -0.75f);
  twice<float>(results, 11, 0.2f);
  twice<double>(results, 12, 0.2);
  twice<C>(results, 13, C(2, -4));
  twice<Z>(results, 14, Z(0.2, -4));
}

template <class T>
Array four() {
  const T values[] = {T{0x01}, T{0x7e}, T{0x80}, T{0x38}};
  return Array::from_host(Span<const T>(values, 4), {4});
}

void eight_bit_floats() {
  const std::vector<Array> results = load("bits")["bits"](
      four<float8_e4m3fn>(), four<float8_e5m2>(), four<float8_e4m3fnuz>(), four<float8_e5m2fnuz>());
  CHECK(results[0].view<float8_e4m3fn>()[0].bits == 0x38);
  CHECK(results[1].view<float8_e5m2>()[1].bits == 0x80);
  CHECK(results[2].view<float8_e4m3fnuz>()[2].bits == 0x7e);
  CHECK(results[3].view<float8_e5m2fnuz>()[3].bits == 0x01);
}

void less_than_a_byte() {
  const std::vector<Array> results = load("small")["types"](
      three(float4_e2m1fn{0x2}, float4_e2m1fn{0x5}, float4_e2m1fn{0xb}),
      three(int4{1}, int4{7}, int4{0x8}), three(uint4{1}, uint4{9}, uint4{15}),
      three(float8_e8m0fnu{127}, float8_e8m0fnu{1}, float8_e8m0fnu{255}));
  CHECK(results[0].dtype() == DType::float4_e2m1fn);
  const int floats[] = {0x4, 0x7, 0xd}, integers[] = {2, 0xe, 0}, naturals[] = {2, 2, 14},
            powers[] = {128, 2, 255};
  for (int i = 0; i < 3; ++i) {
    CHECK(results[0].view<float4_e2m1fn>()[i].bits == floats[i]);
    CHECK(results[1].view<int4>()[i].bits == integers[i]);  // wraps
    CHECK(results[2].view<uint4>()[i].bits == naturals[i]);
    CHECK(results[3].view<float8_e8m0fnu>()[i].bits == powers[i]);
  }
}

void odd_arguments() {
  const Function function = load("mixed")["mixed"];
  const float values[] = {1, 2, 3};
  const std::int32_t unused[] = {7, 8};
  const Array x = Array::from_host(Span<const float>(values, 3), {3});
  const Array empty = Array::from_host(Span<const float>(), {0, 5});
  const std::vector<Array> results =
      function(x, Array::from_host(Span<const std::int32_t>(unused, 2), {2}), empty,
               Array::scalar(2.0f));
  CHECK(results.size() == 4);
  CHECK((results[0].to_vector<float>() == std::vector<float>{2, 4, 6}));
  CHECK((results[1].to_vector<float>() == std::vector<float>{1, 2, 3}));
  CHECK((results[2].shape() == Shape{0, 5}) && results[2].view<float>().empty());
  CHECK(results[2].is_ready() && results[2].to_vector<float>().empty());
  CHECK(results[3].view<float>()[2] == 6);
  const Array scalar = Array::scalar(2.5);
  CHECK(scalar.shape().empty() && scalar.size() == 1 && scalar.item<double>() == 2.5);
}

// A size that is known at the call only, and shared by two arguments.
void dynamic_sizes() {
  const Function grow = load("grow")["grow"];
  CHECK(grow.signature().describe() == "grow(x: uint32[n,2], y: uint32[n]) -> uint32[n,2]");
  CHECK(grow.signature().arguments[0].shape[0].is_dynamic());
  for (const std::size_t n : {std::size_t{1}, std::size_t{5}, std::size_t{0}}) {
    const auto rows = static_cast<std::int64_t>(n);
    const Array x = Array::from_host(std::vector<std::uint32_t>(2 * n, 0x80000001u), {rows, 2});
    const Array y = Array::from_host(std::vector<std::uint32_t>(n), {rows});
    const Array twice = grow(x, y)[0];
    CHECK((twice.shape() == Shape{rows, 2}) && twice.dtype() == DType::uint32);
    CHECK(twice.to_vector<std::uint32_t>() == std::vector<std::uint32_t>(2 * n, 2));
    const Array other = Array::from_host(std::vector<std::uint32_t>(n + 1), {rows + 1});
    CHECK_ERROR(shape, ({"y must be uint32[n] with n = " + std::to_string(n) + ", got shape (" +
                         std::to_string(n + 1) + ",)."}),
                grow(x, other));
  }
}

// Sizes that are expressions of others, and a constraint: checked before the program runs.
void related_sizes() {
  const Function halves = load("halves")["halves"];
  CHECK(halves.signature().describe() ==
        "halves(x: float32[2*n,3], y: float32[n,3]) -> float32[n,3], float32[n]");
  const auto ones = [](std::int64_t rows) {
    return Array::from_host(std::vector<float>(static_cast<std::size_t>(3 * rows), 1.0f), {rows, 3});
  };
  for (const std::int64_t n : {std::int64_t{1}, std::int64_t{7}, std::int64_t{64}, std::int64_t{0}}) {
    const auto results = halves(ones(2 * n), ones(n));
    CHECK((results[0].shape() == Shape{n, 3}) && (results[1].shape() == Shape{n}));
    CHECK(results[1].to_vector<float>() == std::vector<float>(static_cast<std::size_t>(n), 9.0f));
  }
  CHECK_ERROR(shape, ({"x must be float32[2*n,3]", "got shape (5, 3)"}), halves(ones(5), ones(2)));
  CHECK_ERROR(shape, ({"must be float32[", "got shape"}), halves(ones(4), ones(3)));
  CHECK_ERROR(shape, ({"n <= 64 must hold of the arguments' sizes, got n = 65."}),
              halves(ones(130), ones(65)));
}

// Weights in an archive beside the artifact, or named.
void parameter_archives() {
  const std::vector<float> ones(2 * 64, 1.0f);
  const Array x = Array::from_host(ones, {2, 64});
  const std::string archive = artifacts() + "/weighted.irpa";
  const Module named = Module::load(bytes_of("weighted"), Device::open(), archive);
  for (const Module& module : {load("weighted"), named}) {
    const Array y = module["weighted"](x)[0];
    for (int j = 0; j < 64; ++j) {  // sums of (64 i + j) / 4096 over i: exact in f32
      const float expected = static_cast<float>(64 * (63 * 64 / 2) + 64 * j) / 4096;
      CHECK(y.view<float>()[static_cast<std::size_t>(j)] == expected);
    }
  }
  CHECK_ERROR(artifact, ({"there is no /nowhere.irpa", "Fix: "}),
              Module::load(path_of("weighted"), Device::open(), "/nowhere.irpa"));
  CHECK_ERROR(artifact, ({"is no parameter archive", "Fix: "}),
              Module::load(path_of("weighted"), Device::open(), path_of("add")));
}

// The same in another format: a header of JSON, its length before it, and the bytes.
void safetensors() {
  const std::string record = load("weighted").functions()[0].record;
  const std::string name = "WEIGHTS";  // the variable's
  CHECK(record.find("\"name\":\"WEIGHTS\",\"shape\":[64,64]") != record.npos);
  const std::string path = artifacts() + "/" + std::to_string(getpid()) + ".safetensors";
  const auto write = [&](const std::string& title, std::size_t bytes) {
    const std::string header = "{\"" + title + "\":{\"dtype\":\"F32\",\"shape\":[" +
                               std::to_string(bytes / 256) + ",64],\"data_offsets\":[0," +
                               std::to_string(bytes) + "]}}";
    const std::uint64_t length = header.size();
    std::vector<float> values(bytes / sizeof(float), 0.5f);
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&length), sizeof length) << header;
    file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(bytes));
  };
  const auto weighted = [&] { return Module::load(path_of("weighted"), Device::open(), path); };
  write(name, 64 * 64 * sizeof(float));
  const Array x = Array::from_host(std::vector<float>(128, 1.0f), {2, 64});
  CHECK(weighted()["weighted"](x)[0].view<float>()[127] == 32);
  write(name, 256);
  CHECK_ERROR(artifact, ({"is float32[1,64], the artifact wants float32[64,64]", "Fix: "}), weighted());
  write("another", 64 * 64 * sizeof(float));
  CHECK_ERROR(artifact, ({"has no parameter WEIGHTS (float32[64,64])", "Fix: "}), weighted());
  std::ofstream(path) << "no archive";
  CHECK_ERROR(artifact, ({"cannot be read", "Fix: "}), weighted());
  std::remove(path.c_str());
}

// One file for several targets: the one that asks most of this machine.
void several_targets() {
  const Module module = load("several");
  const std::string& target = module.functions()[0].target;
  CHECK(module.functions().size() == 1);
  CHECK(target == "cpu:x86-64-v2" || target == "cpu:x86-64-v3" || target == "cpu:aarch64");
  const Array x = three(1.0f, 2.0f, 3.0f);
  CHECK(module["add"](x, x)[0].view<float>()[2] == 6);
}

// Every pattern of 16 bits survives; values between two patterns go to the nearest, even at ties.
void conversions() {
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    const auto word = static_cast<std::uint16_t>(i);
    float16 half;
    half.bits = word;
    bfloat16 brain;
    brain.bits = word;
    const float h = static_cast<float>(half), b = static_cast<float>(brain);
    CHECK(std::isnan(h) ? std::isnan(static_cast<float>(float16(h))) : float16(h).bits == word);
    CHECK(std::isnan(b) ? std::isnan(static_cast<float>(bfloat16(b))) : bfloat16(b).bits == word);
    if (i + 1 < 0x7c00) {
      float16 next;
      next.bits = static_cast<std::uint16_t>(i + 1);
      const float middle = (h + static_cast<float>(next)) / 2;  // exact in float
      const auto even = static_cast<std::uint16_t>(i % 2 == 0 ? i : i + 1);
      CHECK(float16(middle).bits == even);
      CHECK(float16(std::nextafter(middle, 1e9f)).bits == i + 1);
      CHECK(float16(std::nextafter(middle, -1e9f)).bits == i);
    }
  }
  CHECK(float16(65519.996f).bits == 0x7bff && float16(65520.0f).bits == 0x7c00);
  CHECK(static_cast<float>(bfloat16(1.00390625f)) == 1.0f);           // a tie, to even
  CHECK(static_cast<float>(bfloat16(1.01171875f)) == 1.015625f);      // a tie, to even
  CHECK(bfloat16(std::numeric_limits<float>::max()).bits == 0x7f80);  // rounds to infinity
}

}  // namespace

int main(int, char** words) {
  artifacts() = words[1];
  signatures();
  addition();
  own_kernel();
  forms();
  element_types();
  eight_bit_floats();
  less_than_a_byte();
  odd_arguments();
  dynamic_sizes();
  related_sizes();
  parameter_archives();
  safetensors();
  several_targets();
  conversions();
  return 0;
}
