#pragma once
// Matrix products by LIBXSMM with LibTorch's bits: the scope that a program opens, and what it has led to.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/add_cpu_dispatch.h>
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/baddbmm_cpu_dispatch.h>
#include <ATen/ops/baddbmm_ops.h>
#include <ATen/ops/bmm_cpu_dispatch.h>
#include <ATen/ops/bmm_ops.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm_cpu_dispatch.h>
#include <ATen/ops/mm_ops.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/policy/policies.hpp>
#include <fulgurite/torch/device/internals.hpp>
#include <fulgurite/torch/native/plan.hpp>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace fulgurite::libtorch::native {

// The same product by LibTorch's own kernels, below everything that somebody may have put before them.

/// `c` is contiguous; with Epilogue::onto and then_onto it holds what is added to. `row`: what Epilogue::row adds.
inline void product_by_libtorch(Epilogue epilogue, at::Tensor const& a, at::Tensor const& b, at::Tensor const& c,
                                at::Tensor const& row) {
  auto to = c;
  if (epilogue == Epilogue::then_onto) {
    auto const product = at::empty_like(c);
    product_by_libtorch(Epilogue::none, a, b, product, row);
    at::cpu::add_(to, product);
    return;
  }
  bool const plain = a.dim() == 2;
  if (epilogue == Epilogue::row) {
    at::cpu::addmm_out(to, row, a, b);
  } else if (epilogue == Epilogue::onto) {
    if (plain) at::cpu::addmm_(to, a, b);
    else at::cpu::baddbmm_(to, a, b);
  } else {
    if (plain) at::cpu::mm_out(to, a, b);
    else at::cpu::bmm_out(to, a, b);
    if (epilogue == Epilogue::none) return;
    auto* const numbers = static_cast<float*>(c.mutable_data_ptr());
    for (std::int64_t i = 0; i != c.numel(); ++i) numbers[i] = 0.0F + numbers[i];
  }
}

// Whether small kernels give LibTorch's very bits for a product, and in which blocks: tried before they are used.

/// What a product is computed from. `start`: the row of Epilogue::row, or what C holds before Epilogue::onto and
/// Epilogue::then_onto.
struct Operands {
  float const *a, *b, *start = nullptr;
};

/// Numbers that begin as many bytes past a multiple of 64 as those that they stand for: LibTorch's kernels may add in
/// another order elsewhere.
class Sample {
 public:
  Sample(std::int64_t size, std::uint8_t beyond) : size_(size), all_(static_cast<std::size_t>(size) + 32) {
    auto const past = native::beyond(all_.data());
    begin_ = all_.data() + (64 - past + beyond) % 64 / sizeof(float);
  }
  Sample(Sample const&) = delete;
  Sample& operator=(Sample const&) = delete;
  float* data() { return begin_; }
  std::int64_t size() const { return size_; }
  void take(float const* from) { std::copy_n(from, size_, begin_); }
  bool same_bits(Sample const& other) const {
    return std::memcmp(begin_, other.begin_, static_cast<std::size_t>(size_) * sizeof(float)) == 0;
  }

 private:
  std::int64_t size_;
  std::vector<float> all_;
  float* begin_;
};

/// Values to try: as they come, sparse as after a relu, so small or so large that sums leave the range, with infinities
/// beside zeros, with NaN (not beside infinities: which of two kinds of NaN a sum keeps depends on the order of its
/// terms).
enum class Draw : std::uint8_t { normal, again, sparse, tiny, huge, infinite, nan };
inline constexpr std::array draws{Draw::normal, Draw::again,    Draw::sparse, Draw::tiny,
                                  Draw::huge,   Draw::infinite, Draw::nan};

/// Its own numbers, so that nobody's generator moves.
class Numbers {
 public:
  FULGURITE_BULK void fill(Sample& sample, Draw draw) { fill(sample.data(), sample.size(), draw); }
  FULGURITE_BULK void fill(float* to, std::int64_t size, Draw draw) { fill(to, size, draw, scale_of(draw)); }
  /// What is added to products is as large as they are: beside more, what becomes of tiny ones could not be seen.
  FULGURITE_BULK void fill_start(Sample& sample, Draw draw) {
    fill(sample.data(), sample.size(), draw, scale_of(draw) * scale_of(draw));
  }

 private:
  static float scale_of(Draw draw) { return draw == Draw::tiny ? 1e-20F : draw == Draw::huge ? 3e18F : 1.0F; }
  FULGURITE_BULK void fill(float* to, std::int64_t size, Draw draw, float scale) {
    constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    for (std::int64_t i = 0; i != size; ++i) {
      auto const bits = next();
      to[i] = normal(bits) * scale;
      if ((draw == Draw::sparse || draw == Draw::infinite) && to[i] < 0) to[i] = 0;
      if (draw == Draw::infinite && bits % 61 == 0) to[i] = bits % 2 != 0 ? inf : -inf;
      if (draw == Draw::nan && bits % 127 == 0) to[i] = nan;
    }
  }

  /// Near enough to a normal distribution: a sum of four, with all its bits in use.
  FULGURITE_BULK static float normal(std::uint64_t bits) {
    double sum = 0;
    for (int i = 0; i != 4; ++i) sum += static_cast<double>(bits >> (16 * i) & 0xffffU);
    return static_cast<float>((sum / 65535.0 - 2.0) * 1.7320508);
  }
  std::uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_ * 0x2545f4914f6cdd1dU;
  }
  std::uint64_t state_ = 88172645463325252U;
};

class Certifier {
 public:
  explicit Certifier(ProductShape const& shape)
      : shape_(shape),
        a_(last(shape.a, shape.m, shape.k), shape.beyond[0]),
        b_(last(shape.b, shape.k, shape.n), shape.beyond[1]),
        start_(shape.epilogue == Epilogue::row ? shape.n : shape.matrices() * shape.m * shape.n, shape.beyond[2]),
        theirs_(shape.matrices() * shape.m * shape.n, shape.beyond[2]),
        ours_(theirs_.size(), shape.beyond[2]) {}

  /// The plan that gives LibTorch's bits on these values and on all draws; nullopt: none does.
  FULGURITE_BULK std::optional<Plan> search(Operands const& given, Kernels const& kernels) {
    take(given);
    std::vector<std::array<std::int64_t, 3>> tried;
    // MKL takes 192 of the inner length at a time on AMD's processors, where there are more, and halves what is less
    // than two of these; on Intel's with AVX-512 it takes 384.
    for (Blocks const& blocks : {Blocks{shape_.k}, Blocks{384, true}, Blocks{192}, Blocks{shape_.k / 2}, Blocks{128},
                                 Blocks{256}, Blocks{384}, Blocks{512}}) {
      if (blocks.length == 0) continue;
      auto const lengths = blocks.lengths(shape_.k);  // which are another set for each other cut
      if (std::find(tried.begin(), tried.end(), lengths) != tried.end()) continue;
      tried.push_back(lengths);
      for (std::int64_t const strip : {std::int64_t{0}, last_strip})
        if (strip < shape_.n)
          if (auto plan = Plan::make(shape_, blocks, strip, kernels); plan && same_everywhere(*plan, given))
            return plan;
    }
    return std::nullopt;
  }

 private:
  /// LIBXSMM with AVX-512 takes 64 columns at a time, and sums up to 16 that remain as two chains, which MKL does not.
  /// Two strips, neither of which leaves 1 to 16 columns, keep MKL's order of summation.
  static constexpr std::int64_t last_strip = 48;

  void take(Operands const& given) {
    a_.take(given.a);
    b_.take(given.b);
    if (starts()) start_.take(given.start);
    reference();
  }
  /// On the given values, which are those that were taken last, and on all draws.
  bool same_everywhere(Plan const& plan, Operands const& given) {
    if (!same(plan)) return false;
    if (same_on_draws(plan)) return true;
    take(given);
    return false;
  }
  static std::int64_t span(std::int64_t step, std::int64_t count) { return step * (count - 1); }
  std::int64_t last(std::array<std::int64_t, 3> const& strides, std::int64_t rows, std::int64_t columns) const {
    return span(strides[0], shape_.matrices()) + span(strides[1], rows) + span(strides[2], columns) + 1;
  }
  bool holds() const { return shape_.epilogue == Epilogue::onto || shape_.epilogue == Epilogue::then_onto; }
  bool starts() const { return shape_.epilogue == Epilogue::row || holds(); }

  FULGURITE_BULK at::Tensor tensor(Sample& sample, std::int64_t rows, std::int64_t columns,
                                   std::array<std::int64_t, 3> const& strides) const {
    if (shape_.batch == 0) return at::from_blob(sample.data(), {rows, columns}, {strides[1], strides[2]}, at::kFloat);
    return at::from_blob(sample.data(), {shape_.batch, rows, columns}, {strides[0], strides[1], strides[2]},
                         at::kFloat);
  }

  FULGURITE_BULK void reference() {
    auto const a = tensor(a_, shape_.m, shape_.k, shape_.a), b = tensor(b_, shape_.k, shape_.n, shape_.b),
               c = tensor(theirs_, shape_.m, shape_.n, {shape_.m * shape_.n, shape_.n, 1});
    if (holds()) theirs_.take(start_.data());
    product_by_libtorch(shape_.epilogue, a, b, c,
                        shape_.epilogue == Epilogue::row ? at::from_blob(start_.data(), {shape_.n}, at::kFloat)
                                                         : at::Tensor());
  }
  FULGURITE_BULK bool same(Plan const& plan) {
    if (holds()) ours_.take(start_.data());
    else std::fill_n(ours_.data(), ours_.size(), std::numeric_limits<float>::quiet_NaN());
    plan.run(a_.data(), b_.data(), ours_.data(), start_.data());
    return ours_.same_bits(theirs_);
  }
  FULGURITE_BULK bool same_on_draws(Plan const& plan) {
    Numbers numbers;
    return std::all_of(draws.begin(), draws.end(), [&](Draw draw) {
      numbers.fill(a_, draw);
      numbers.fill(b_, draw);
      if (starts()) numbers.fill_start(start_, draw);
      reference();
      return same(plan);
    });
  }

  ProductShape shape_;
  Sample a_, b_, start_, theirs_, ours_;
};

// Whether a scope for matrix products is open on this thread, and what it says.

inline Matmul on_this_thread() {
  auto const left_out = c10::impl::tls_local_dispatch_key_set().excluded_;
  if (!left_out.has(product_mark)) return Matmul::libtorch;
  return left_out.has(certified_mark) ? Matmul::certified : Matmul::faster;
}

/// While it lives, products on this thread are computed as `how` says, whatever was said before.
class Marked {
 public:
  explicit Marked(Matmul how) : guard_(now().included_, (now().excluded_ - both) | marks_of(how)) {}

 private:
  static constexpr c10::DispatchKeySet both{product_mark, certified_mark};
  static c10::impl::LocalDispatchKeySet now() { return c10::impl::tls_local_dispatch_key_set(); }
  static c10::DispatchKeySet marks_of(Matmul how) {
    return how == Matmul::certified ? both
           : how == Matmul::faster  ? c10::DispatchKeySet(product_mark)
                                    : c10::DispatchKeySet();
  }
  c10::impl::ForceDispatchKeyGuard guard_;
};

// Which products are certified, of the whole process: each shape is tried once.

class Verdicts {
 public:
  /// Without kernels every product is LibTorch's.
  explicit Verdicts(Kernels const* kernels) : kernels_(kernels), number_(++made()) {}
  Verdicts(Verdicts const&) = delete;
  Verdicts& operator=(Verdicts const&) = delete;

  static Verdicts& of_process() {
    static Verdicts* const all = new Verdicts(process_kernels());  // threads may ask until the very end
    return *all;
  }

  /// The plan of a certified product; nullptr: LibTorch's. The first time that a shape is asked for it is tried, on
  /// these values among others. Plans stay as long as the verdicts.
  Plan const* find(ProductShape const& shape, Operands const& given) {
    auto& seen = last_seen()[ProductHash{}(shape) % 256];
    if (seen.of == number_ && seen.shape == shape) return seen.plan;
    auto const* const plan = kernels_ ? search(shape, given) : nullptr;
    seen = {number_, shape, plan};
    return plan;
  }

  struct Count {
    std::size_t certified = 0, left = 0;
  };
  Count count() const {
    std::lock_guard const lock(mutex_);
    Count count;
    for (auto const& [shape, plan] : all_) ++(plan ? count.certified : count.left);
    return count;
  }

  /// For a person: how many products are whose, in which blocks, and which have no block that fits. Those that differ
  /// only in where their numbers lie are one, as their text is, or two, where one of them alone is certified.
  FULGURITE_BULK std::string account() const {
    std::lock_guard const lock(mutex_);
    if (all_.empty()) return "";
    std::map<std::int64_t, std::set<std::string>> certified;  // by block; 0: in one block
    std::set<std::string> left;
    for (auto const& [shape, plan] : all_)
      (plan ? certified[plan->block() == shape.k ? 0 : plan->block()] : left).insert(shape.text());
    std::size_t count = left.size();
    std::string by;
    for (auto const& [block, texts] : certified) {
      count += texts.size();
      by += " " + std::to_string(texts.size()) + " by " + kernels_->name +
            (block == 0 ? std::string(" in one block,") : " in blocks of " + std::to_string(block) + ",");
    }
    std::string text = std::to_string(count) + " matrix products:" + by;
    text += " " + std::to_string(left.size()) + " by LibTorch";
    for (char const* before = ": no block gives the bits ("; auto const& one : left)
      text += std::exchange(before, "; ") + one;
    return left.empty() ? text : text + ")";
  }

 private:
  struct Seen {
    std::uint64_t of = 0;
    ProductShape shape = {};
    Plan const* plan = nullptr;
  };
  /// So that the threads of a step need no lock. No array: compilers write out how each of its parts begins.
  static std::vector<Seen>& last_seen() {
    thread_local std::vector<Seen> all(256);
    return all;
  }
  static std::atomic<std::uint64_t>& made() {
    static std::atomic<std::uint64_t> count = 0;
    return count;
  }

  FULGURITE_BULK Plan const* search(ProductShape const& shape, Operands const& given) {
    Marked const as_ever(Matmul::libtorch);  // a kernel of LibTorch's that calls another operator must not ask again
    std::lock_guard const lock(mutex_);
    auto const [found, fresh] = all_.try_emplace(shape);
    if (fresh)
      if (auto const plan = Certifier(shape).search(given, *kernels_)) found->second = std::make_unique<Plan>(*plan);
    return found->second.get();
  }

  Kernels const* kernels_;
  std::uint64_t number_;
  mutable std::mutex mutex_;
  std::unordered_map<ProductShape, std::unique_ptr<Plan const>, ProductHash> all_;
};

// Where LIBXSMM's kernels are used: a rule of shape and processor, never a measurement, which could say one thing today
// and another tomorrow.

/// Of a processor, what the rule asks. MKL stays with AVX2 on AMD's.
enum class Processor : std::uint8_t {
  other,
  amd_in_halves,  ///< Zen 4: AVX-512 in two turns of 256 bits, so that AVX2 multiplies as fast
  amd_whole,      ///< Zen 5: all 512 bits at once
  intel_bf16,     ///< Sapphire Rapids and newer, which are known by AVX-512 with BF16: MKL reaches the core's peak
};

/// The processor at hand. AMD's families: 25 is Zen 4 where there is AVX-512, 26 is Zen 5.
inline Processor this_processor() {
#if defined(__x86_64__)
  static Processor const answer = [] {
    unsigned int signature = 0, b = 0, c = 0, d = 0;
    if (__builtin_cpu_is("intel") && __builtin_cpu_supports("avx512bf16")) return Processor::intel_bf16;
    if (!__builtin_cpu_is("amd") || !__builtin_cpu_supports("avx512f") || __get_cpuid(1, &signature, &b, &c, &d) == 0)
      return Processor::other;
    unsigned int const family = (signature >> 8 & 0xfU) + (signature >> 20 & 0xffU);
    return family >= 26 ? Processor::amd_whole : Processor::amd_in_halves;
  }();
  return answer;
#else
  return Processor::other;
#endif
}

/// Up to here a call of MKL's takes longer than the multiplications themselves: some 0.6 microseconds, in which a core
/// does 27,000 of them.
inline constexpr std::int64_t small_product = 16384;

/// What was measured on Zen 5 (`tools/dev bench products`): twice as fast from 8 rows and 16 columns on, where B is
/// transposed, and so copied first, too.
inline bool pays_whole(ProductShape const& shape) { return shape.m >= 8 && shape.n >= 16; }

/// What was measured on Zen 4, where both reach the same peak and LIBXSMM wins a tenth, for widths of whole registers.
/// A copy of B pays for many rows and short inner lengths alone there, and a bias for long ones, which MKL adds without
/// another pass. What is added to after the product is another pass of both.
inline bool pays_in_halves(ProductShape const& shape) {
  bool const b_turned = shape.b[2] != 1;
  if (shape.m < (b_turned ? 64 : 8) || shape.n % 16 != 0) return false;
  bool const one_pass = shape.epilogue == Epilogue::none || shape.epilogue == Epilogue::then_onto;
  return b_turned ? one_pass && shape.k <= 256 : one_pass || shape.k >= 384;
}

/// Up to so many multiplications of one matrix a call's own time can be seen beside them on Intel's processors.
inline constexpr std::int64_t seen_on_intel = 1 << 20;

/// What was measured on Intel's Granite Rapids, where both reach the same peak, so that only shorter calls and sums
/// that are still in the first cache win: a tenth at a million multiplications, half as much again at a hundred
/// thousand. Turning B first costs as much as is won where it is wide, unless a bias is added, for which LibTorch
/// copies it first.
inline bool pays_on_intel(ProductShape const& shape) {
  auto const work = shape.m * shape.n * shape.k;
  if (shape.m < 8 || work > seen_on_intel) return false;
  if (shape.epilogue == Epilogue::then_onto) return true;
  if (shape.b[2] == 1) return shape.m >= 16 || work <= seen_on_intel / 4;
  return work <= seen_on_intel / 2 && (shape.epilogue == Epilogue::row || shape.n < 128);
}

/// Sizes that the rule may say yes to, asked before a shape is made: what is left alone should cost nothing.
inline bool may_be_faster(at::Tensor const& a, at::Tensor const& b, Processor on = this_processor()) {
  auto const as = a.sizes(), bs = b.sizes();
  if (as.size() < 2 || bs.size() != as.size()) return false;
  auto const m = as[as.size() - 2], work = m * as.back() * bs.back();
  if (work <= small_product) return true;
  return m >= 8 && on != Processor::other && (on != Processor::intel_bf16 || work <= seen_on_intel);
}

/// Small products everywhere. On older processors of Intel's, on AMD's without AVX-512 and on those of other makers,
/// MKL is taken to be as fast as LIBXSMM for larger ones.
inline bool is_faster(ProductShape const& shape, Processor on = this_processor()) {
  if (shape.work() <= small_product * shape.matrices()) return true;
  switch (on) {
  case Processor::amd_whole: return pays_whole(shape);
  case Processor::amd_in_halves: return pays_in_halves(shape);
  case Processor::intel_bf16: return pays_on_intel(shape);
  case Processor::other: return false;
  }
  return false;
}

// Matrix products of steps that run as they are written: kernels before LibTorch's own, which look whether a scope is
// open on their thread.

/// The plan for a product at hand; nullptr: LibTorch's. LibTorch does not let products start threads where threads run
/// already, and what it does there is not what is tried here.
inline Plan const* plan_of(std::optional<ProductShape> const& shape, Operands const& given, Matmul how) {
  if (how == Matmul::libtorch || !shape || (how == Matmul::faster && !is_faster(*shape)) || at::in_parallel_region())
    return nullptr;
  return Verdicts::of_process().find(*shape, given);
}

/// How a product on this thread is to be computed, from what costs least to ask.
inline Matmul asked_for(at::Tensor const& a, at::Tensor const& b) {
  auto const how = on_this_thread();
  return how == Matmul::faster && !may_be_faster(a, b) ? Matmul::libtorch : how;
}

inline float const* numbers(at::Tensor const& tensor) { return static_cast<float const*>(tensor.const_data_ptr()); }

/// How `start` is added to a product of this shape, where that is one of the two ways that are known: as a row, or as a
/// whole.
inline std::optional<Epilogue> epilogue_of(at::Tensor const& start, at::Tensor const& a, at::Tensor const& b,
                                           at::Scalar const& beta, at::Scalar const& alpha) {
  if (!is_plain_float(start) || !start.is_contiguous() || !beta.equal(1) || !alpha.equal(1) || a.dim() != b.dim())
    return std::nullopt;
  auto const n = b.size(-1);
  if (a.dim() == 2 && start.dim() == 1 && start.size(0) == n) return Epilogue::row;
  bool const whole = start.dim() == a.dim() && start.size(-1) == n && start.size(-2) == a.size(-2) &&
                     (a.dim() != 3 || start.size(0) == a.size(0));
  return whole ? std::optional(Epilogue::onto) : std::nullopt;
}

inline at::Tensor new_result(ProductShape const& shape) {
  auto made = shape.batch == 0 ? at::detail::empty_cpu({shape.m, shape.n}, at::kFloat)
                               : at::detail::empty_cpu({shape.batch, shape.m, shape.n}, at::kFloat);
  return at::Tensor(std::move(made));
}

inline at::Tensor computed(Plan const& plan, Operands const& given) {
  auto result = new_result(plan.shape());
  auto* const to = static_cast<float*>(result.mutable_data_ptr());
  if (plan.shape().epilogue == Epilogue::onto) std::memcpy(to, given.start, result.nbytes());
  plan.run(given.a, given.b, to, given.start);
  return result;
}

inline constexpr c10::DispatchKeySet below_products(c10::DispatchKeySet::FULL_AFTER, product_key);

/// The two operators that only multiply, and the two that add: `Own` is LibTorch's. Batches and matrices differ by what
/// they are given.
template <class Own>
at::Tensor multiplied(c10::DispatchKeySet keys, at::Tensor const& a, at::Tensor const& b) {
  if (auto const how = asked_for(a, b); how != Matmul::libtorch)
    if (auto const shape = product_shape(a, b, Epilogue::none)) {
      Operands const given{numbers(a), numbers(b)};
      if (auto const* plan = plan_of(shape, given, how)) return computed(*plan, given);
    }
  return Own::redispatch(keys & below_products, a, b);
}
template <class Own>
at::Tensor multiplied_and_added(c10::DispatchKeySet keys, at::Tensor const& start, at::Tensor const& a,
                                at::Tensor const& b, at::Scalar const& beta, at::Scalar const& alpha) {
  if (auto const how = asked_for(a, b); how != Matmul::libtorch)
    if (auto const epilogue = epilogue_of(start, a, b, beta, alpha))
      if (auto const shape = product_shape(a, b, *epilogue)) {
        Operands const given{numbers(a), numbers(b), numbers(start)};
        if (auto const* plan = plan_of(shape, given, how)) return computed(*plan, given);
      }
  return Own::redispatch(keys & below_products, start, a, b, beta, alpha);
}

/// Whether the kernels are in place, which the first call sees to. The key is the one below that of the recorder of
/// captured steps, so both work at once; every thread includes it anyway, and for these operators LibTorch has nothing
/// there, so nothing is replaced. Where no scope is open they ask for that and pass on. False: the program has no
/// LIBXSMM, or somebody else has put kernels there (another copy of this library with hidden symbols).
inline bool intercepts() {
  static bool const done = [] {
    if (!process_kernels()) return false;
    for (char const* name : {"aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm"}) {
      auto const op = c10::Dispatcher::singleton().findSchema({name, ""});
      if (!op || op->hasKernelForDispatchKey(product_key)) return false;
    }
    // It lives as long as the process, and is held where a search for leaks finds it.
    static auto* const library = new torch::Library(torch::Library::IMPL, "aten", product_key, __FILE__, __LINE__);
    library->impl("mm", TORCH_FN(multiplied<at::_ops::mm>));
    library->impl("bmm", TORCH_FN(multiplied<at::_ops::bmm>));
    library->impl("addmm", TORCH_FN(multiplied_and_added<at::_ops::addmm>));
    library->impl("baddbmm", TORCH_FN(multiplied_and_added<at::_ops::baddbmm>));
    return true;
  }();
  return done;
}

}  // namespace fulgurite::libtorch::native

namespace fulgurite {

// MatmulScope: until it ends, matrix products of this thread take the faster way where it gives the same bits.

/// mm, addmm, bmm, baddbmm and linear of float32 tensors on the CPU are computed by LIBXSMM's kernels instead of
/// MKL's, forward and backward, on this thread and on those that autograd starts from it. No bit of a result changes:
/// each product is certified before it is used. Nothing happens where the program is built without LIBXSMM. A scope
/// within another one says anew what is done: `MatmulScope const as_ever(Matmul::libtorch);`.
class MatmulScope {
 public:
  explicit MatmulScope(Matmul how = Matmul::faster)
      : marked_(how != Matmul::libtorch && is_possible() ? how : Matmul::libtorch) {}
  MatmulScope(MatmulScope const&) = delete;
  MatmulScope& operator=(MatmulScope const&) = delete;

 private:
  FULGURITE_COLD static bool is_possible() {
    using enum at::Float32Precision;
    auto const wanted = at::globalContext().float32Precision(at::Float32Backend::MKLDNN, at::Float32Op::MATMUL);
    bool const exact = wanted == NONE || wanted == IEEE;  // LibTorch can be told to compute in less than float32
    return exact && libtorch::native::intercepts();
  }

  libtorch::native::Marked marked_;
};

}  // namespace fulgurite

namespace fulgurite::libtorch::native {

/// What a strategy tells of the products of the process so far, for a person.
inline std::vector<std::string> products_account(Matmul how) {
  if (how == Matmul::libtorch) return {"matrix products: LibTorch's, as was asked for"};
  if (!process_kernels()) return {"matrix products: LibTorch's (this program is built without LIBXSMM)"};
  auto text = Verdicts::of_process().account();
  if (text.empty())
    text = "matrix products: LibTorch's; none was computed so far that LIBXSMM has faster on this processor";
  else if (how == Matmul::faster) text += "; not counted: those that the rule for this processor leaves to LibTorch";
  return {std::move(text)};
}

}  // namespace fulgurite::libtorch::native
