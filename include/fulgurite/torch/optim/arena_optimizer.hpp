#pragma once
// An optimizer over an arena, with the interface that the loops use: parameter groups, learning rates, an update in one
// pass over memory, which on a GPU is one kernel. Its state and how it is saved are in arena.hpp.

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sqrt_cpu_dispatch.h>
#include <torch/nn/module.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/torch/optim/arena.hpp>
#include <fulgurite/torch/optim/clip.hpp>
#include <fulgurite/torch/optim/update_kernel.hpp>
#include <fulgurite/torch/weights/weights.hpp>

namespace fulgurite::libtorch {

// A block of numbers with at::Tensor's operations under the same names, so that an update rule is written once for
// both.

/// to[i] = the square root of from[i], for n numbers.
template <class T>
using Roots = void (*)(int n, T const* from, T* to);

/// MKL's function, which LibTorch's square root calls, without the tensors and iterators around it; null if LibTorch's
/// library does not offer it, or if a trial finds other bits than LibTorch's.
template <class T>
Roots<T> roots_of_mkl();
FULGURITE_EXTERN(Roots<float> roots_of_mkl());
FULGURITE_EXTERN(Roots<double> roots_of_mkl());

/// Memory for intermediate results, for one block at a time. Each thread has its own.
template <class T>
class Scratch {
 public:
  static constexpr std::size_t most =
      8192;  ///< numbers in a block, which with gradient, states and results fits into the L2 cache

  static Scratch& of_thread() {
    thread_local Scratch scratch;
    return scratch;
  }
  T* fresh() { return data_.at(used_++); }
  void clear() { used_ = 0; }
  /// A fresh block with LibTorch's square root of each number. LibTorch uses MKL's, which differs from the processor's
  /// in the last bit.
  [[gnu::noinline]] T* roots(T const* from, std::size_t size) {
    auto* const to = fresh();
    if (roots_) {
      roots_(static_cast<int>(size), from, to);
    } else {
      std::copy_n(from, size, to);
      auto& tensor = tensors_[used_ - 1];
      tensor.unsafeGetTensorImpl()->set_sizes_contiguous(static_cast<std::int64_t>(size));
      at::cpu::sqrt_(tensor);
    }
    return to;
  }

 private:
  Scratch() {
    for (std::size_t i = 0; i != tensors_.size(); ++i) {
      tensors_[i] = at::ones({most}, at::TensorOptions(c10::CppTypeToScalarType<T>::value));
      data_[i] = static_cast<T*>(tensors_[i].mutable_data_ptr());
    }
  }
  Roots<T> roots_ = roots_of_mkl<T>();
  std::array<at::Tensor, 4> tensors_;
  std::array<T*, 4> data_{};
  std::size_t used_ = 0;
};

/// A block of numbers whose operations round exactly as LibTorch's CPU kernels do. `Fused`: as its AVX2 and AVX-512
/// kernels, in which x + alpha * y is rounded once; otherwise as its plain kernels. A block ends where a slice of an
/// arena ends, at a multiple of 64 bytes. `alpha * y` and division are never contracted.
template <class T, bool Fused>
class Block {
 public:
  Block(T* data, std::size_t size, Scratch<T>& scratch) : data_(data), size_(size), scratch_(&scratch) {}

  [[gnu::always_inline]] Block const& mul_(double factor) const {
    return change([s = static_cast<T>(factor)](T x) __attribute__((always_inline)) { return x * s; });
  }
  [[gnu::always_inline]] Block const& add_(double summand) const {
    return change([s = static_cast<T>(summand)](T x) __attribute__((always_inline)) { return x + s; });
  }
  [[gnu::always_inline]] Block const& add_(Block const& y, double alpha) const { return change(sum(alpha), y); }
  [[gnu::always_inline]] Block add(Block const& y, double alpha) const { return result(sum(alpha), y); }
  [[gnu::always_inline]] Block const& addcmul_(Block const& a, Block const& b, double value) const {
    return change(sum_of_products(value), a, b);
  }
  [[gnu::always_inline]] Block addcmul(Block const& a, Block const& b, double value) const {
    return result(sum_of_products(value), a, b);
  }
  [[gnu::always_inline]] Block const& addcdiv_(Block const& a, Block const& b, double value = 1.0) const {
    return change([s = static_cast<T>(value)](T x, T y, T z) __attribute__((always_inline)) { return x + s * y / z; },
                  a, b);
  }
  [[gnu::always_inline]] Block sqrt() const { return Block(scratch_->roots(data_, size_), size_, *scratch_); }
  /// The same numbers with -0 replaced by 0.
  [[gnu::always_inline]] Block plus_zero() const {
    return result([](T x) __attribute__((always_inline)) { return x + T(0); });
  }
  [[gnu::always_inline]] Block const& copy_(Block const& from) const {
    return change([](T, T y) __attribute__((always_inline)) { return y; }, from);
  }
  /// Sets each number to the maximum of both; nan if one of them is nan.
  [[gnu::always_inline]] Block const& take_maximum(Block const& other) const {
    return change([](T x, T y) __attribute__((always_inline)) { return y > x || y != y ? y : x; }, other);
  }

  // Several of these operations in one loop over the block.
  [[gnu::always_inline]] void scale_and_add(double factor, Block const& y, double alpha) const {
    change([f = static_cast<T>(factor), add = sum(alpha)](T x, T z)
               __attribute__((always_inline)) { return add(x * f, z); },
           y);
  }
  [[gnu::always_inline]] void scale_and_addcmul(double factor, Block const& a, Block const& b, double value) const {
    change([f = static_cast<T>(factor), add = sum_of_products(value)](T x, T y, T z)
               __attribute__((always_inline)) { return add(x * f, y, z); },
           a, b);
  }
  [[gnu::always_inline]] void add_quotient(Block const& x, Block const& root, double divisor, double eps,
                                           double value) const {
    change([d = static_cast<T>(divisor), e = static_cast<T>(eps), s = static_cast<T>(value)](T to, T y, T z)
               __attribute__((always_inline)) { return to + s * y / (z / d + e); },
           x, root);
  }

 private:
  /// Sets each number of this block to f(number, more...).
  template <class F, class... Blocks>
  [[gnu::always_inline]] Block const& change(F f, Blocks const&... more) const {
    in_place(f, size_, data_, more.data_...);
    return *this;
  }
  template <class F, class... Blocks>
  [[gnu::always_inline]] Block result(F f, Blocks const&... more) const {
    Block const to(scratch_->fresh(), size_, *scratch_);
    elsewhere(f, size_, to.data_, data_, more.data_...);
    return to;
  }

  // The pointer does not alias others and portions have a constant length, so that both compilers vectorise the loop at
  // -O2.
  template <class F, class... Pointers>
  [[gnu::always_inline]] static void in_place(F f, std::size_t size, T* __restrict to, Pointers... from) {
    for (std::size_t begin = 0; begin < size; begin += portion) {
      for (std::size_t i = 0; i != portion; ++i) to[begin + i] = f(to[begin + i], from[begin + i]...);
    }
  }
  template <class F, class... Pointers>
  [[gnu::always_inline]] static void elsewhere(F f, std::size_t size, T* __restrict to, Pointers... from) {
    for (std::size_t begin = 0; begin < size; begin += portion) {
      for (std::size_t i = 0; i != portion; ++i) to[begin + i] = f(from[begin + i]...);
    }
  }
  static constexpr std::size_t portion = 64 / sizeof(T);

  [[gnu::always_inline]] static auto sum(double alpha) {
    return [s = static_cast<T>(alpha)](T x, T y) __attribute__((always_inline)) {
      if constexpr (Fused) return std::fma(y, s, x);
      else return x + s * y;
    };
  }
  [[gnu::always_inline]] static auto sum_of_products(double value) {
    return [s = static_cast<T>(value)](T x, T y, T z) __attribute__((always_inline)) {
      if constexpr (Fused) return std::fma(s * y, z, x);
      else return x + s * y * z;
    };
  }
  T* data_;
  std::size_t size_;
  Scratch<T>* scratch_;
};

/// The same operation on tensors.
void take_maximum(at::Tensor& x, at::Tensor const& other);
template <class T, bool Fused>
[[gnu::always_inline]] inline void take_maximum(Block<T, Fused> const& x, Block<T, Fused> const& other) {
  x.take_maximum(other);
}

// What follows one after the other in an update rule. On tensors each is a few operators, on blocks one loop with the
// same roundings.

/// x = x * factor + y * alpha
void scale_and_add(at::Tensor const& x, double factor, at::Tensor const& y, double alpha);
/// x = x * factor + a * b * value
void scale_and_addcmul(at::Tensor const& x, double factor, at::Tensor const& a, at::Tensor const& b, double value);
/// to = to + x / (root / divisor + eps) * value; `root` may be overwritten
void add_quotient(at::Tensor const& to, at::Tensor const& x, at::Tensor const& root, double divisor, double eps,
                  double value);
template <class T, bool Fused>
[[gnu::always_inline]] inline void scale_and_add(Block<T, Fused> const& x, double factor, Block<T, Fused> const& y,
                                                 double alpha) {
  x.scale_and_add(factor, y, alpha);
}
template <class T, bool Fused>
[[gnu::always_inline]] inline void scale_and_addcmul(Block<T, Fused> const& x, double factor, Block<T, Fused> const& a,
                                                     Block<T, Fused> const& b, double value) {
  x.scale_and_addcmul(factor, a, b, value);
}
template <class T, bool Fused>
[[gnu::always_inline]] inline void add_quotient(Block<T, Fused> const& to, Block<T, Fused> const& x,
                                                Block<T, Fused> const& root, double divisor, double eps, double value) {
  to.add_quotient(x, root, divisor, eps, value);
}

// Runs an update rule over a range of flat buffers: block by block if LibTorch's CPU kernels are known to be matched
// bit for bit, else with operators.

/// One pass: each block is read, updated and written while it is in the cache. `apart`: the gradient is in the memory
/// that backward allocated, and was not added to zero.
template <bool Fused, class T, std::size_t N, class Rule>
[[gnu::always_inline]] inline void blocks(Rule const& rule, T* parameters, T* gradients, bool apart,
                                          std::array<T*, N> const& states, std::size_t size) {
  auto& scratch = Scratch<T>::of_thread();
  for (std::size_t from = 0; from < size; from += Scratch<T>::most) {
    auto const length = std::min(size - from, Scratch<T>::most);
    scratch.clear();
    auto const block = [&](T* data) __attribute__((always_inline)) {
      return Block<T, Fused>(data == nullptr ? nullptr : data + from, length, scratch);
    };
    [&]<std::size_t... I>(std::index_sequence<I...>) __attribute__((always_inline)) {
      auto const gradient = block(gradients);
      rule(block(parameters), apart ? gradient.plus_zero() : gradient, block(states[I])...);
    }(std::make_index_sequence<N>{});
  }
}

#if defined(__x86_64__)
/// Compiled for processors for which LibTorch has kernels with fused multiply-add, whatever the target of the rest of
/// the program is.
template <class T, std::size_t N, class Rule>
[[gnu::target("avx2,fma"), gnu::noinline]] void fused_blocks(Rule const& rule, T* parameters, T* gradients, bool apart,
                                                             std::array<T*, N> const& states, std::size_t size) {
  blocks<true>(rule, parameters, gradients, apart, states, size);
}
template <class T, std::size_t N, class Rule>
[[gnu::noinline]] void plain_blocks(Rule const& rule, T* parameters, T* gradients, bool apart,
                                    std::array<T*, N> const& states, std::size_t size) {
  blocks<false>(rule, parameters, gradients, apart, states, size);
}

/// True if LibTorch uses its AVX2 or AVX-512 kernels, which ATEN_CPU_CAPABILITY=default disables.
bool libtorch_fuses();

/// The blocks that round as LibTorch's kernels do on this processor.
template <class T, std::size_t N, class Rule>
void as_libtorch_rounds(Rule const& rule, T* parameters, T* gradients, bool apart, std::array<T*, N> const& states,
                        std::size_t size) {
  if (libtorch_fuses()) fused_blocks<T, N>(rule, parameters, gradients, apart, states, size);
  else plain_blocks<T, N>(rule, parameters, gradients, apart, states, size);
}
#endif

template <class T, std::size_t N, class Rule>
void in_blocks([[maybe_unused]] Rule const& rule, [[maybe_unused]] Arena::Run const& run,
               [[maybe_unused]] Arena::Buffer const& buffer) {
#if defined(__x86_64__)
  auto const data = [&](at::Tensor const& flat, std::int64_t first = 0) {
    return flat.defined() ? static_cast<T*>(flat.mutable_data_ptr()) + (run.begin - first) : nullptr;
  };
  std::array<T*, N> states{};
  for (std::size_t s = 0; s != N; ++s) states[s] = data(buffer.states[s], buffer.states_begin);
  auto const size = static_cast<std::size_t>(run.end - run.begin);
  bool const apart = run.gradient != nullptr;
  auto* const gradients = apart ? static_cast<T*>(run.gradient->mutable_data_ptr()) : data(buffer.gradients);
  as_libtorch_rounds<T, N>(rule, data(buffer.parameters), gradients, apart, states, size);
#endif
}

/// Writes down what the rule does to a run.
template <std::size_t N, class Rule>
TracedUpdate traced(Rule const& rule, Arena::Run const& run, Arena::Buffer const& buffer) {
  TracedUpdate all{.trace = UpdateTrace(2 + N),
                   .type = buffer.parameters.scalar_type(),
                   .device = buffer.parameters.device(),
                   .count = run.end - run.begin};
  auto const take = [&](std::size_t value, at::Tensor const& flat, std::int64_t first) {
    if (flat.defined())
      all.memory[value] = static_cast<char*>(flat.mutable_data_ptr()) +
                          (run.begin - first) * static_cast<std::int64_t>(flat.itemsize());
  };
  take(0, buffer.parameters, 0);
  take(1, buffer.gradients, 0);
  for (std::size_t s = 0; s != N; ++s) take(2 + s, buffer.states[s], buffer.states_begin);
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    rule(TracedValue(all.trace, I)...);
  }(std::make_index_sequence<2 + N>{});
  return all;
}

/// The rule as LibTorch operators on tensors in the order of its inputs.
template <std::size_t N, class Rule>
std::function<void(std::span<at::Tensor const>)> operators_of(Rule const& rule) {
  return [&rule](std::span<at::Tensor const> tensors) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      rule(at::Tensor(tensors[I])...);
    }(std::make_index_sequence<2 + N>{});
  };
}

/// The rule as one kernel of a GPU; false if there is none with the bits of LibTorch's operators.
template <std::size_t N, class Rule>
bool in_one_kernel(Rule const& rule, Arena::Run const& run, Arena::Buffer const& buffer) {
  auto const all = traced<N>(rule, run, buffer);
  return updated_by_kernel(all.trace, all.inputs(), all.count, all.type, all.device, operators_of<N>(rule));
}

/// The same rule as LibTorch operators, one for each line: for GPUs, and for other element types and processors.
template <std::size_t N, class Rule>
void as_operators(Rule const& rule, Arena::Run const& run, Arena::Buffer const& buffer) {
  if (buffer.parameters.is_cuda() && !run.gradient && in_one_kernel<N>(rule, run, buffer)) return;
  auto const part = [&](at::Tensor const& flat, std::int64_t first = 0) {
    return flat.defined() ? flat.narrow(0, run.begin - first, run.end - run.begin) : at::Tensor();
  };
  auto const gradient = [&] {
    if (!run.gradient) return part(buffer.gradients);
    return run.gradient->as_strided({run.end - run.begin}, {1}).add(0);  // the same bits as adding to zero
  };
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    rule(part(buffer.parameters), gradient(), part(buffer.states[I], buffer.states_begin)...);
  }(std::make_index_sequence<N>{});
}

/// True if blocks are faster. Operators use LibTorch's threads and blocks do not; for a long range, four or more
/// threads gain more than the cache does.
bool prefers_blocks(Arena::Run const& run, at::Tensor const& flat);

template <std::size_t N, class Rule>
void pass(Rule const& rule, Arena::Run const& run, Arena::Buffer const& buffer) {
  auto const type = buffer.parameters.scalar_type();
  if (type == at::kFloat && prefers_blocks(run, buffer.parameters)) in_blocks<float, N>(rule, run, buffer);
  else if (type == at::kDouble && prefers_blocks(run, buffer.parameters)) in_blocks<double, N>(rule, run, buffer);
  else as_operators<N>(rule, run, buffer);
}

// Clipping for all optimizers over an arena.
FULGURITE_EXTERN(at::Tensor clip_norm(ArenaParameters const&, double));
FULGURITE_EXTERN(void clip_value(ArenaParameters const&, double));
FULGURITE_EXTERN(void scale_gradients(ArenaParameters const&, double));
FULGURITE_EXTERN(bool gradients_finite(ArenaParameters const&));
FULGURITE_EXTERN(bool gradients_finite(ArenaParameters const&, SeenGradients const&));
FULGURITE_EXTERN(bool weights_finite(ArenaParameters const&));
FULGURITE_EXTERN(void note_gradients(std::vector<at::Tensor>&, ArenaParameters const&));
FULGURITE_EXTERN(void note_weights(std::vector<at::Tensor>&, ArenaParameters const&));
FULGURITE_EXTERN(at::Tensor listed_twice(ArenaParameters const&));

}  // namespace fulgurite::libtorch

namespace fulgurite::optim {

#define FULGURITE_SENTENCE_OPTIM_OPTIONS                                                                               \
  "[fulgurite.optim.options] an optimizer takes a module or its parameters, then a learning rate, or options of its "  \
  "own by their names: optim::SGD(*this, 0.1), or optim::SGD(*this, {.lr = 0.1, .momentum = 0.9})"
/// In an optimizer: refuses names that its options do not have.
#if defined(__clang__)
#define FULGURITE_OPTIM_OPTIONS(CLASS)                                                                                 \
  template <class fulgurite_optim_options_are = CLASS##Options>                                                        \
  explicit CLASS(...) FULGURITE_REFUSED(FULGURITE_SENTENCE_OPTIM_OPTIONS)
#else
#define FULGURITE_OPTIM_OPTIONS(CLASS)                                                                                 \
  template <class fulgurite_optim_options_are = CLASS##Options>                                                        \
  explicit CLASS(torch::nn::Module const&, ...) = delete;                                                              \
  template <class fulgurite_optim_options_are = CLASS##Options>                                                        \
  explicit CLASS(std::vector<at::Tensor> const&, ...) = delete
#endif

/// What follows the parameters if it is no options: a learning rate, or refused.
template <class T, class Options>
concept NoOptionsOf = !std::convertible_to<T const&, Options const&>;
/// Whose parameters an optimizer takes. Two groups in braces are none of these.
template <class T>
concept ModuleOrTensors =
    std::convertible_to<T const&, torch::nn::Module const&> || std::convertible_to<T const&, std::vector<at::Tensor>>;

/// The default options with this learning rate.
template <class Options, class T>
Options with_rate([[maybe_unused]] T const& lr) {
  constexpr bool is_rate = std::is_arithmetic_v<T> && !std::same_as<T, bool>;
  static_assert(is_rate, FULGURITE_SENTENCE_OPTIM_OPTIONS);
  Options options;
  if constexpr (is_rate) options.lr = static_cast<double>(lr);
  return options;
}

/// Throws [fulgurite.optim.option] with the value if an option is out of range.
void require_option(bool holds, std::string_view optimizer, std::string_view option, double value);

/// Parameters with options of their own:
///
///     optim::Adam({{body->parameters(), {.lr = 1e-4}}, {head->parameters(), {.lr = 1e-3}}})
template <class Options>
struct Group {
  std::vector<at::Tensor> parameters;
  Options options = {};
};

/// The base of fulgurite's optimizers. Their parameters become slices of a few flat buffers, as do their gradients:
/// clearing is one operation, clipping is one, and the update is one pass. The updates are those of torch::optim, bit
/// for bit on x86 CPUs and on GPUs for float and double (LibTorch 2.11): same operations, same order, same rounding. On
/// a GPU the update of a group is one kernel for float and double. These things differ:
///   - Gradients stay where they are and are added to, so that -0 becomes 0. If backward did not reach a parameter, its
///     `p.grad()` is defined and zero. Such a parameter is not updated, as with torch::optim (see libtorch::Arena).
///     There is one exception: during a fit of one process on the CPU with automatic optimization, without clipping,
///     accumulation or Captured. There a gradient of 64 KB or more (float or double, a multiple of 64 bytes) behaves
///     as in torch::optim: it is undefined after clearing, and then where backward allocates it.
///   - A parameter that is listed twice in a group (a shared module) is updated once.
///   - Sparse gradients become dense.
///   - A parameter may belong to two optimizers: it is in the arena of the one that used it last, and is copied to the
///     other one's arena when that uses it. If both were cleared and no backward reached the parameter, it counts as
///     having a zero gradient for the second one.
///
/// All other code may use the module as before: load weights, call to(device), freeze, replace p.grad(), even call
/// set_data or Module::zero_grad. If that takes a tensor out of the buffers, it is copied back at the next step, which
/// costs time but loses no gradient.
template <class Rule>
class ArenaOptimizer : public NamedState<Rule> {
 public:
  using Options = typename Rule::Options;
  static constexpr bool needs_closure = false;
  static constexpr bool stable_gradients = true;
  static constexpr std::string_view name() { return Rule::name; }
  static std::string kind() { return "fulgurite::optim::" + std::string(name()); }

  /// Optimizes all parameters of a module. `state` uses the module's names for them.
  explicit ArenaOptimizer(torch::nn::Module const& module, Options const& options = {});
  explicit ArenaOptimizer(std::vector<at::Tensor> const& parameters, Options const& options = {});
  /// Takes a learning rate only, as torch::optim does: `optim::Adam(parameters(), 1e-3)`.
  template <ModuleOrTensors From, NoOptionsOf<Options> Rate>
  ArenaOptimizer(From const& from, Rate const& lr) : ArenaOptimizer(from, with_rate<Options>(lr)) {}
  ArenaOptimizer(std::vector<Group<Options>> const& groups);

  void zero_grad() { this->arena_->zero_grad(); }

  void step();

  std::size_t groups() const { return this->groups_.size(); }
  double lr(std::size_t group) const { return this->groups_.at(group).lr; }
  void set_lr(std::size_t group, double value) { this->groups_.at(group).lr = value; }
  std::optional<double> momentum(std::size_t group) const { return Rule::momentum(this->groups_.at(group)); }
  /// Sets the momentum of a group, or the first beta of Adam. Throws fulgurite.optim.option for a value out of range,
  /// and for a group that was constructed without momentum, since it has no momentum buffer.
  void set_momentum(std::size_t group, double value)
    requires requires(Options& options) { Rule::set_momentum(options, value); }
  {
    Options options = this->groups_.at(group);
    Rule::set_momentum(options, value);
    Rule::check(options);
    if (value != 0 && momentum(group) == 0.0) require_kept(group, options);
    this->groups_[group] = options;
  }

  std::optional<double> weight_decay(std::size_t group) const { return this->groups_.at(group).weight_decay; }
  Options const& options(std::size_t group) const { return this->groups_.at(group); }

  /// Adds a parameter group; the buffers are allocated again. Throws fulgurite.optimizer.twice for a parameter that is
  /// in another group.
  void add_group(std::vector<at::Tensor> const& parameters, Options const& options);
  /// Adds a parameter group with this learning rate and otherwise the options of the first group.
  void add_group(std::vector<at::Tensor> const& parameters, double lr);

  /// Which gradients count as received, to save and restore: for a strategy that runs a step again and undoes its
  /// effects. See libtorch::Arena.
  std::vector<bool> received() { return this->arena_->received(); }
  void set_received(std::vector<bool> const& all) { this->arena_->set_received(all); }

  /// True if all gradients are finite, found in one pass over memory; nullopt if that would wait for a device.
  std::optional<bool> gradients_finite();

  // For a strategy that makes the update itself, in a recording of the step.

  /// The runs of the next update. `counts`: it counts as made, as by `step`.
  std::vector<libtorch::Arena::Run> runs(bool counts);
  /// Updates a run that was counted.
  void update(libtorch::Arena::Run const& run) const;
  /// What an update does to the run `later` steps after this one, with the present options.
  libtorch::TracedUpdate traced(libtorch::Arena::Run const& run, long later = 0) const;
  /// True if a kernel in a graph can do it.
  bool fits_graph(libtorch::Arena::Run const& run) const;

  /// The parameters of all groups, in the order given. Clipping uses their flat gradients.
  libtorch::ArenaParameters parameters() { return libtorch::ArenaParameters(*this->arena_); }

 private:
  ArenaOptimizer() = default;

  /// Throws an Error if a parameter of the group lacks a state that these options need.
  void require_kept(std::size_t group, Options const& options) const;
};

template <class Rule>
ArenaOptimizer<Rule>::ArenaOptimizer(torch::nn::Module const& module, Options const& options) : ArenaOptimizer() {
  add_group(module.parameters(), options);
  for (auto const& parameter : module.named_parameters())
    for (std::size_t i = 0; i != this->arena_->slots().size(); ++i)
      if (this->arena_->slots()[i].parameter.is_same(parameter.value())) this->names_[parameter.key()] = i;
}

template <class Rule>
ArenaOptimizer<Rule>::ArenaOptimizer(std::vector<at::Tensor> const& parameters, Options const& options)
    : ArenaOptimizer() {
  add_group(parameters, options);
}

template <class Rule>
ArenaOptimizer<Rule>::ArenaOptimizer(std::vector<Group<Options>> const& groups) : ArenaOptimizer() {
  for (auto const& group : groups) add_group(group.parameters, group.options);
}

template <class Rule>
void ArenaOptimizer<Rule>::step() {
  this->arena_->update([&](libtorch::Arena::Run const& run, auto const&) { update(run); });
}

template <class Rule>
std::vector<libtorch::Arena::Run> ArenaOptimizer<Rule>::runs(bool counts) {
  std::vector<libtorch::Arena::Run> all;
  this->arena_->update([&](libtorch::Arena::Run const& run, auto const&) { all.push_back(run); }, counts);
  return all;
}

template <class Rule>
void ArenaOptimizer<Rule>::update(libtorch::Arena::Run const& run) const {
  libtorch::pass<Rule::states.size()>(Rule(this->groups_[run.group], run.steps), run,
                                      this->arena_->buffers()[run.buffer]);
}

template <class Rule>
libtorch::TracedUpdate ArenaOptimizer<Rule>::traced(libtorch::Arena::Run const& run, long later) const {
  return libtorch::traced<Rule::states.size()>(Rule(this->groups_[run.group], run.steps + later), run,
                                               this->arena_->buffers()[run.buffer]);
}

template <class Rule>
bool ArenaOptimizer<Rule>::fits_graph(libtorch::Arena::Run const& run) const {
  Rule const rule(this->groups_[run.group], run.steps);
  return libtorch::has_kernel_in_graph(traced(run), libtorch::operators_of<Rule::states.size()>(rule));
}

template <class Rule>
void ArenaOptimizer<Rule>::add_group(std::vector<at::Tensor> const& parameters, Options const& options) {
  Rule::check(options);
  std::vector<at::Tensor> own;
  for (auto const& parameter : parameters) {
    auto const same = [&](at::Tensor const& other) { return other.is_same(parameter); };
    if (std::any_of(this->arena_->parameters().begin(), this->arena_->parameters().end(), same))
      throw libtorch::InTwoGroups(name(), parameter);
    if (std::none_of(own.begin(), own.end(), same)) own.push_back(parameter);
  }
  auto const initial = Rule::initial(options);
  this->arena_->add(own, this->groups_.size(), {initial.begin(), initial.end()});
  this->groups_.push_back(options);
}

template <class Rule>
void ArenaOptimizer<Rule>::add_group(std::vector<at::Tensor> const& parameters, double lr) {
  Options options = this->groups_.empty() ? Options{} : this->groups_.front();
  options.lr = lr;
  add_group(parameters, options);
}

template <class Rule>
std::optional<bool> ArenaOptimizer<Rule>::gradients_finite() {
  for (auto const& buffer : this->arena_->buffers())
    if (!buffer.gradients.is_cpu()) return std::nullopt;
  return this->arena_->all_gradients([](at::Tensor const& flat) { return libtorch::all_finite(flat); });
}

template <class Rule>
void ArenaOptimizer<Rule>::require_kept(std::size_t group, Options const& options) const {
  auto const needed = Rule::initial(options);
  for (auto const& slot : this->arena_->slots())
    for (std::size_t s = 0; slot.group == group && s != needed.size(); ++s)
      if (needed[s] && !this->arena_->states().keeps(group, s))
        throw Error("fulgurite.optim.option", std::string(name()) + " was made without momentum in group " +
                                                  std::to_string(group) +
                                                  " and keeps no buffer for one: construct it "
                                                  "with one");
}

// After a rule, FULGURITE_ARENA_OPTIMIZER(EXTERN, rule::Adam<AdamOptions, false>) declares that the library contains
// the instantiation of its optimizer; FULGURITE_ARENA_OPTIMIZER(INSTANTIATE, ...) in the body file instantiates it.
#define FULGURITE_ARENA_OPTIMIZER(WHAT, ...)                                                                           \
  FULGURITE_##WHAT(class NamedState<__VA_ARGS__>);                                                                     \
  FULGURITE_##WHAT(void NamedState<__VA_ARGS__>::fold(::fulgurite::StateSaver&));                                      \
  FULGURITE_##WHAT(void NamedState<__VA_ARGS__>::fold(::fulgurite::StateLoader&));                                     \
  FULGURITE_##WHAT(class ArenaOptimizer<__VA_ARGS__>)

}  // namespace fulgurite::optim

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/optim/arena_optimizer.ipp>
#endif
