#pragma once
// The bodies of torch/optim/arena_optimizer.hpp.

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/exp2.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/tensor.h>

#include <fulgurite/torch/native/matmul_scope.hpp>
#include <fulgurite/torch/optim/arena_optimizer.hpp>

namespace fulgurite::libtorch {

FULGURITE_BULK_BODY void UpdateTrace::note(What what, std::size_t to, std::size_t from, std::size_t a, std::size_t b,
                                           double number) {
  if (size_ == most) {
    whole_ = false;
    return;
  }
  auto const byte = [](std::size_t value) { return static_cast<std::uint8_t>(value); };
  operations_[size_] = {what, byte(to), byte(from), byte(a), byte(b)};
  numbers_[size_++] = number;
}

FULGURITE_BULK_BODY std::span<UpdateTrace::Operation const> UpdateTrace::operations() const {
  return {operations_.data(), size_};
}
FULGURITE_BULK_BODY std::span<double const> UpdateTrace::numbers() const { return {numbers_.data(), size_}; }

FULGURITE_BULK_BODY TracedValue const& TracedValue::change(What what, std::size_t a, std::size_t b,
                                                           double number) const {
  trace_->note(what, number_, number_, a, b, number);
  return *this;
}
FULGURITE_BULK_BODY TracedValue TracedValue::result(What what, std::size_t a, std::size_t b, double number) const {
  auto const to = trace_->fresh();
  trace_->note(what, to, number_, a, b, number);
  return {*trace_, to};
}

FULGURITE_BULK_BODY TracedValue const& TracedValue::mul_(double factor) const {
  return change(What::scale, 0, 0, factor);
}
FULGURITE_BULK_BODY TracedValue const& TracedValue::div_(double divisor) const {
  return change(What::divide, 0, 0, divisor);
}
FULGURITE_BULK_BODY TracedValue const& TracedValue::add_(double summand) const {
  return change(What::add_number, 0, 0, summand);
}
FULGURITE_BULK_BODY TracedValue const& TracedValue::add_(TracedValue const& y, double alpha) const {
  return change(What::add, y.number_, 0, alpha);
}
FULGURITE_BULK_BODY TracedValue TracedValue::add(TracedValue const& y, double alpha) const {
  return result(What::add, y.number_, 0, alpha);
}
FULGURITE_BULK_BODY TracedValue const& TracedValue::addcmul_(TracedValue const& a, TracedValue const& b,
                                                             double value) const {
  return change(What::add_product, a.number_, b.number_, value);
}
FULGURITE_BULK_BODY TracedValue TracedValue::addcmul(TracedValue const& a, TracedValue const& b, double value) const {
  return result(What::add_product, a.number_, b.number_, value);
}
FULGURITE_BULK_BODY TracedValue const& TracedValue::addcdiv_(TracedValue const& a, TracedValue const& b,
                                                             double value) const {
  return change(What::add_quotient, a.number_, b.number_, value);
}
FULGURITE_BULK_BODY TracedValue TracedValue::sqrt() const { return result(What::root, 0, 0, 0); }
FULGURITE_BULK_BODY TracedValue const& TracedValue::copy_(TracedValue const& from) const {
  return change(What::copy, from.number_, 0, 0);
}
FULGURITE_BULK_BODY TracedValue const& TracedValue::take_maximum(TracedValue const& other) const {
  return change(What::maximum, other.number_, 0, 0);
}

FULGURITE_BULK_BODY void take_maximum(TracedValue const& x, TracedValue const& other) { x.take_maximum(other); }
FULGURITE_BULK_BODY void scale_and_add(TracedValue const& x, double factor, TracedValue const& y, double alpha) {
  x.mul_(factor).add_(y, alpha);
}
FULGURITE_BULK_BODY void scale_and_addcmul(TracedValue const& x, double factor, TracedValue const& a,
                                           TracedValue const& b, double value) {
  x.mul_(factor).addcmul_(a, b, value);
}
FULGURITE_BULK_BODY void add_quotient(TracedValue const& to, TracedValue const& x, TracedValue const& root,
                                      double divisor, double eps, double value) {
  to.addcdiv_(x, root.div_(divisor).add_(eps), value);
}

/// The source of a kernel. Each thread computes the numbers at four places. `product_first`: in x + value * a * b the
/// product a * b is rounded first, otherwise value * a. Which it is in LibTorch's kernel is found by comparing.
FULGURITE_BODY std::string update_source(UpdateTrace const& trace, std::vector<bool> const& given, at::ScalarType type,
                                         bool product_first) {
  using What = UpdateTrace::What;
  std::string const number = type == at::kFloat ? "float" : "double";
  auto const x = [](std::size_t value) { return "x" + std::to_string(value); };
  std::vector<bool> written(trace.values(), false);
  std::string lines;
  for (std::size_t i = 0; i != trace.operations().size(); ++i) {
    auto const& operation = trace.operations()[i];
    auto const from = x(operation.from), a = x(operation.a), b = x(operation.b), n = "n.at[" + std::to_string(i) + "]";
    written[operation.to] = true;
    lines += "    " + x(operation.to) + " = ";
    switch (operation.what) {
    case What::copy: lines += a; break;
    case What::scale:
    case What::divide: lines += from + " * " + n; break;
    case What::add_number: lines += from + " + " + n; break;
    case What::add: lines += "fma(" + a + ", " + n + ", " + from + ")"; break;
    case What::add_product:
      lines += product_first ? "fma(" + n + ", " + a + " * " + b + ", " + from + ")"
                             : "fma(" + n + " * " + a + ", " + b + ", " + from + ")";
      break;
    case What::add_quotient: lines += "fma(" + n + ", " + a + " / " + b + ", " + from + ")"; break;
    case What::root: lines += "sqrt(" + from + ")"; break;
    case What::maximum:
      lines += "(" + from + " != " + from + " || " + from + " > " + a + ") ? " + from + " : " + a;
      break;
    }
    lines += ";\n";
  }
  std::string source = "struct alignas(4 * sizeof(" + number + ")) Four { " + number + " at[4]; };\nstruct Numbers { " +
                       number + " at[" + std::to_string(UpdateTrace::most) +
                       "]; };\nextern \"C\" __global__ void update(long long count, Numbers n";
  std::string loads, locals, stores;
  for (std::size_t value = 0; value != trace.values(); ++value) {
    bool const input = value < trace.inputs();
    locals += "    " + number + " " + x(value) +
              (input && given[value] ? " = f" + std::to_string(value) + ".at[k];\n" : " = 0;\n");
    if (!input || !given[value]) continue;
    auto const name = std::to_string(value);
    source += ", Four* p" + name;
    loads += "  Four f" + name + " = p" + name + "[i];\n";
    if (!written[value]) continue;
    lines += "    f" + name + ".at[k] = " + x(value) + ";\n";
    stores += "  p" + name + "[i] = f" + name + ";\n";
  }
  return source +
         ") {\n  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n  if (i >= count) return;\n" + loads +
         "  #pragma unroll\n  for (int k = 0; k != 4; ++k) {\n" + locals + lines + "  }\n" + stores + "}\n";
}

/// Launches the kernel. `count`: a multiple of four.
FULGURITE_BULK_BODY void launch_update(native::GpuKernel const& kernel, UpdateTrace const& trace,
                                       std::span<void* const> memory, std::int64_t count, at::ScalarType type) {
  constexpr int threads = 256;
  std::array<float, UpdateTrace::most> floats{};
  std::array<double, UpdateTrace::most> doubles{};
  for (std::size_t i = 0; i != trace.numbers().size(); ++i) {
    // LibTorch multiplies by the inverse.
    bool const inverse = trace.operations()[i].what == UpdateTrace::What::divide;
    doubles[i] = inverse ? 1.0 / trace.numbers()[i] : trace.numbers()[i];
    floats[i] = static_cast<float>(doubles[i]);
  }
  long long quarters = count / 4;
  std::array<void*, 8> pointers{};
  std::array<void*, 10> arguments{&quarters, type == at::kFloat ? static_cast<void*>(floats.data()) : doubles.data()};
  std::size_t next = 2;
  for (std::size_t value = 0; value != memory.size(); ++value) {
    if (memory[value] == nullptr) continue;
    pointers[value] = memory[value];
    arguments[next++] = &pointers[value];
  }
  kernel.launch((quarters + threads - 1) / threads, threads, arguments.data());
}

/// True if the kernel has the bits of LibTorch's operators for numbers of many magnitudes and both signs.
FULGURITE_BODY bool as_operators_do(native::GpuKernel const& kernel, UpdateTrace const& trace,
                                    std::vector<bool> const& given, at::ScalarType type, at::Device device,
                                    std::function<void(std::span<at::Tensor const>)> const& operators) {
  constexpr std::int64_t count = 8192;
  at::NoGradGuard const no_graph;
  for (bool const positive : {true, false}) {
    std::vector<at::Tensor> ours, theirs;
    std::vector<void*> memory;
    for (std::size_t value = 0; value != given.size(); ++value) {
      ours.emplace_back();
      theirs.emplace_back();
      memory.push_back(nullptr);
      if (!given[value]) continue;
      // Without a generator: exponents from -40 to 20 in an order of its own for each tensor, and mantissas beside.
      auto const place =
          at::arange(count, at::TensorOptions(device).dtype(at::kDouble)).mul(7919.0 + 2.0 * double(value) * 104729.0);
      auto numbers = at::exp2(place.remainder(60.0007).sub(40)).mul(place.remainder(0.9973).add(1));
      if (!positive || value < 2) numbers.mul_(place.remainder(3.1).sub(1.5).sign());
      ours[value] = numbers.to(type);
      theirs[value] = ours[value].clone();
      memory[value] = ours[value].mutable_data_ptr();
    }
    launch_update(kernel, trace, memory, count, type);
    operators(theirs);
    for (std::size_t value = 0; value != given.size(); ++value)
      if (given[value] && !at::equal(ours[value].view(at::kByte), theirs[value].view(at::kByte))) return false;
  }
  return true;
}

/// The kernels of the process, by what they do.
class UpdateKernels {
 public:
  static UpdateKernels& of_process() {
    static auto& kernels = *new UpdateKernels;  // threads may use it until the very end
    return kernels;
  }
  native::GpuKernel const* of(UpdateTrace const& trace, std::span<void* const> memory, at::ScalarType type,
                              at::Device device, std::function<void(std::span<at::Tensor const>)> const& operators) {
    std::lock_guard const lock(mutex_);
    // LibTorch may treat 0 and 1 as special, and a rate of 0 would hide how the last operation rounds.
    auto const special = [](double number) { return number == 0 ? 0 : number == 1 ? 1 : 2; };
    for (auto const& entry : entries_)
      if (entry.type == type && entry.device == device && std::ranges::equal(entry.operations, trace.operations()) &&
          std::ranges::equal(entry.numbers, trace.numbers(), {}, {}, special) &&
          std::ranges::equal(entry.given, memory, {}, {}, [](void* at) { return at != nullptr; }))
        return entry.kernel;
    if (native::is_recording_graph(device)) return nullptr;
    Entry entry{type, device, {trace.operations().begin(), trace.operations().end()}, {}, {}, nullptr};
    std::ranges::transform(trace.numbers(), std::back_inserter(entry.numbers), special);
    for (auto* const at : memory) entry.given.push_back(at != nullptr);
    for (bool const product_first : {true, false}) {
      auto const* const kernel =
          native::GpuKernel::of(update_source(trace, entry.given, type, product_first), "update", device);
      if (kernel == nullptr || !as_operators_do(*kernel, trace, entry.given, type, device, operators)) continue;
      entry.kernel = kernel;
      break;
    }
    return entries_.emplace_back(std::move(entry)).kernel;
  }

 private:
  struct Entry {
    at::ScalarType type;
    at::Device device;
    std::vector<UpdateTrace::Operation> operations;
    std::vector<int> numbers;  ///< 0 and 1 as they are, 2 for others
    std::vector<bool> given;
    native::GpuKernel const* kernel;
  };
  std::mutex mutex_;
  std::vector<Entry> entries_;
};

FULGURITE_BULK_BODY bool updated_by_kernel(UpdateTrace const& trace, std::span<void* const> memory, std::int64_t count,
                                           at::ScalarType type, at::Device device,
                                           std::function<void(std::span<at::Tensor const>)> const& operators) {
  auto const bytes = static_cast<std::uintptr_t>(type == at::kDouble ? 32 : 16);
  for (auto* const at : memory)
    if (reinterpret_cast<std::uintptr_t>(at) % bytes != 0) return false;
  if (!trace.whole() || count % 4 != 0 || (type != at::kFloat && type != at::kDouble)) return false;
  auto const* const kernel = UpdateKernels::of_process().of(trace, memory, type, device, operators);
  if (kernel != nullptr) launch_update(*kernel, trace, memory, count, type);
  return kernel != nullptr;
}

extern "C" {
[[gnu::weak]] void fulgurite_vms_sqrt(int n, float const* from, float* to, long long mode) __asm__("vmsSqrt");
[[gnu::weak]] void fulgurite_vmd_sqrt(int n, double const* from, double* to, long long mode) __asm__("vmdSqrt");
}
/// As LibTorch calls it: with high accuracy, denormal numbers as they are, and errors are not reported.
inline constexpr long long mkl_mode = 0x2 | 0x140000 | 0x100;

/// Compares the bits of roots of positive numbers of all exponents, of both zeros, a negative number, infinities and
/// nan.
template <class T>
bool as_libtorch(Roots<T> roots) {
  auto const type = c10::CppTypeToScalarType<T>::value;
  auto const exponents = at::linspace(std::numeric_limits<T>::min_exponent - std::numeric_limits<T>::digits,
                                      std::numeric_limits<T>::max_exponent, 4080, type);
  auto numbers = at::exp2(exponents).mul_(at::linspace(1, 1.9, 4080, type));
  T const odd[] = {0,
                   T(-0.0),
                   -1,
                   std::numeric_limits<T>::infinity(),
                   -std::numeric_limits<T>::infinity(),
                   std::numeric_limits<T>::quiet_NaN(),
                   std::numeric_limits<T>::denorm_min(),
                   4,
                   9,
                   2,
                   3,
                   5,
                   T(1e-8),
                   T(1e-30),
                   T(1e30),
                   std::numeric_limits<T>::max()};
  numbers = at::cat({numbers, at::tensor(at::ArrayRef<T>(odd))});
  auto ours = at::empty_like(numbers);
  roots(static_cast<int>(ours.numel()), static_cast<T const*>(numbers.const_data_ptr()),
        static_cast<T*>(ours.mutable_data_ptr()));
  numbers.sqrt_();
  return std::memcmp(ours.const_data_ptr(), numbers.const_data_ptr(), ours.nbytes()) == 0;
}

template <class T>
Roots<T> roots_of_mkl() {
  static Roots<T> const found = [] {
    Roots<T> mkl = nullptr;
    if constexpr (std::same_as<T, float>) {
      if (fulgurite_vms_sqrt != nullptr)
        mkl = [](int n, float const* from, float* to) { fulgurite_vms_sqrt(n, from, to, mkl_mode); };
    } else {
      if (fulgurite_vmd_sqrt != nullptr)
        mkl = [](int n, double const* from, double* to) { fulgurite_vmd_sqrt(n, from, to, mkl_mode); };
    }
    return mkl != nullptr && as_libtorch(mkl) ? mkl : nullptr;
  }();
  return found;
}
FULGURITE_INSTANTIATE(Roots<float> roots_of_mkl());
FULGURITE_INSTANTIATE(Roots<double> roots_of_mkl());

FULGURITE_BULK_BODY void take_maximum(at::Tensor& x, at::Tensor const& other) { at::maximum_out(x, x, other); }

FULGURITE_BULK_BODY void scale_and_add(at::Tensor const& x, double factor, at::Tensor const& y, double alpha) {
  x.mul_(factor).add_(y, alpha);
}

FULGURITE_BULK_BODY void scale_and_addcmul(at::Tensor const& x, double factor, at::Tensor const& a, at::Tensor const& b,
                                           double value) {
  x.mul_(factor).addcmul_(a, b, value);
}

FULGURITE_BULK_BODY void add_quotient(at::Tensor const& to, at::Tensor const& x, at::Tensor const& root, double divisor,
                                      double eps, double value) {
  to.addcdiv_(x, root.div_(divisor).add_(eps), value);
}

FULGURITE_INSTANTIATE(at::Tensor clip_norm(ArenaParameters const&, double));
FULGURITE_INSTANTIATE(void clip_value(ArenaParameters const&, double));
FULGURITE_INSTANTIATE(void scale_gradients(ArenaParameters const&, double));
FULGURITE_INSTANTIATE(bool gradients_finite(ArenaParameters const&));
FULGURITE_INSTANTIATE(bool gradients_finite(ArenaParameters const&, SeenGradients const&));
FULGURITE_INSTANTIATE(bool weights_finite(ArenaParameters const&));
FULGURITE_INSTANTIATE(void note_gradients(std::vector<at::Tensor>&, ArenaParameters const&));
FULGURITE_INSTANTIATE(void note_weights(std::vector<at::Tensor>&, ArenaParameters const&));
FULGURITE_INSTANTIATE(at::Tensor listed_twice(ArenaParameters&&));

}  // namespace fulgurite::libtorch

#if defined(__x86_64__)

namespace fulgurite::libtorch {

FULGURITE_BULK_BODY bool libtorch_fuses() {
  static bool const fuses = at::get_cpu_capability().starts_with("AVX");
  return fuses;
}

}  // namespace fulgurite::libtorch

#endif

namespace fulgurite::libtorch {

FULGURITE_BULK_BODY bool prefers_blocks(Arena::Run const& run, at::Tensor const& flat) {
#if defined(__x86_64__)
  return flat.is_cpu() && (run.end - run.begin < (std::int64_t{1} << 18) || at::get_num_threads() < 4);
#else
  return false;
#endif
}

}  // namespace fulgurite::libtorch

namespace fulgurite::optim {

FULGURITE_BULK_BODY void require_option(bool holds, std::string_view optimizer, std::string_view option, double value) {
  if (holds) return;
  throw Error("fulgurite.optim.option",
              std::string(optimizer) + "'s " + std::string(option) + " = " + std::to_string(value) +
                  " is not allowed: rates, eps, decays and momenta must not be negative, betas must be in [0, 1)");
}

}  // namespace fulgurite::optim
