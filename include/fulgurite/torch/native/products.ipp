#pragma once
// The bodies of torch/native/products.hpp.

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <ATen/EmptyTensor.h>
#include <ATen/ops/add_cpu_dispatch.h>
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/baddbmm_cpu_dispatch.h>
#include <ATen/ops/bmm_cpu_dispatch.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm_cpu_dispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <fulgurite/torch/native/products.hpp>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace fulgurite::libtorch::native {

FULGURITE_BULK_BODY void product_by_libtorch(Epilogue epilogue, at::Tensor const& a, at::Tensor const& b,
                                             at::Tensor const& c, at::Tensor const& row) {
  auto to = c;
  if (epilogue == Epilogue::then_onto) {
    auto const product = at::empty_like(c);
    product_by_libtorch(Epilogue::none, a, b, product, row);
    at::cpu::add_(to, product);
    return;
  }
  if (epilogue == Epilogue::then_row) {
    product_by_libtorch(Epilogue::none, a, b, c, row);
    at::cpu::add_(to, row);
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

/// Approximates a normal distribution by a sum of four numbers, with all of its bits in use.
FULGURITE_BULK_BODY float normal(std::uint64_t bits) {
  double sum = 0;
  for (int i = 0; i != 4; ++i) sum += static_cast<double>(bits >> (16 * i) & 0xffffU);
  return static_cast<float>((sum / 65535.0 - 2.0) * 1.7320508);
}

FULGURITE_BULK_BODY void Numbers::fill(float* to, std::int64_t size, Draw draw, bool added) {
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  float const factor = draw == Draw::tiny ? 1e-20F : draw == Draw::huge ? 3e18F : 1.0F;
  float const scale = added ? factor * factor : factor;
  for (std::int64_t i = 0; i != size; ++i) {
    auto const bits = next();
    to[i] = normal(bits) * scale;
    if ((draw == Draw::sparse || draw == Draw::infinite) && to[i] < 0) to[i] = 0;
    if (draw == Draw::infinite && bits % 61 == 0) to[i] = bits % 2 != 0 ? inf : -inf;
    if (draw == Draw::nan && bits % 127 == 0) to[i] = nan;
  }
}

FULGURITE_BULK_BODY std::uint64_t Numbers::next() {
  state_ ^= state_ << 13;
  state_ ^= state_ >> 7;
  state_ ^= state_ << 17;
  return state_ * 0x2545f4914f6cdd1dU;
}

/// LIBXSMM with AVX-512 takes 64 columns at a time. Up to 16 columns that remain are summed in one, two or four chains,
/// depending on the number of rows, which panels change; MKL sums one chain. Of two strips neither leaves so few
/// columns.
inline constexpr std::int64_t last_strip = 48;
constexpr std::int64_t strip_of_fastest(std::int64_t columns) {
  auto const left = columns % 64;
  return columns > 64 && left >= 1 && left <= 16 ? last_strip : 0;
}

/// A copy of numbers with the same offset from a multiple of 64 bytes as the original: LibTorch's kernels may add in
/// another order for other offsets.
class Sample : Pinned {
 public:
  Sample(std::int64_t size, std::uint8_t beyond) : size_(size), all_(static_cast<std::size_t>(size) + 32) {
    auto const past = native::beyond(all_.data());
    begin_ = all_.data() + (64 - past + beyond) % 64 / sizeof(float);
  }
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

class Certifier {
 public:
  explicit Certifier(ProductShape const& shape)
      : shape_(shape),
        a_(last(shape.a, shape.m, shape.k), shape.beyond[0]),
        b_(last(shape.b, shape.k, shape.n), shape.beyond[1]),
        start_(has_row() ? shape.n : shape.matrices() * shape.m * shape.n, shape.beyond[2]),
        theirs_(shape.matrices() * shape.m * shape.n, shape.beyond[2]),
        ours_(theirs_.size(), shape.beyond[2]) {}

  /// The plan that gives LibTorch's bits for these values and for all draws; nullopt if there is none.
  std::optional<Plan> search(Operands const& given, ProductKernels const& kernels) {
    take(given);
    std::vector<std::array<std::int64_t, 3>> tried;
    // On AMD's processors MKL takes 192 of the inner length at a time if there are more, and halves a remainder of less
    // than two of these; on Intel's with AVX-512 it takes 384.
    for (Blocks const& blocks : {Blocks{shape_.k}, Blocks{384, true}, Blocks{192}, Blocks{shape_.k / 2}, Blocks{128},
                                 Blocks{256}, Blocks{384}, Blocks{512}}) {
      if (blocks.length == 0) continue;
      auto const lengths = blocks.lengths(shape_.k);  // these differ for each way of cutting
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
  void take(Operands const& given) {
    a_.take(given.a);
    b_.take(given.b);
    if (has_row() || holds()) start_.take(given.start);
    reference();
  }
  /// True if the bits are the same for the given values, which were taken last, and for all draws.
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
  bool has_row() const { return shape_.epilogue == Epilogue::row || shape_.epilogue == Epilogue::then_row; }

  at::Tensor tensor(Sample& sample, std::int64_t rows, std::int64_t columns,
                    std::array<std::int64_t, 3> const& strides) const {
    if (shape_.batch == 0) return at::from_blob(sample.data(), {rows, columns}, {strides[1], strides[2]}, at::kFloat);
    return at::from_blob(sample.data(), {shape_.batch, rows, columns}, {strides[0], strides[1], strides[2]},
                         at::kFloat);
  }

  void reference() {
    auto const a = tensor(a_, shape_.m, shape_.k, shape_.a), b = tensor(b_, shape_.k, shape_.n, shape_.b),
               c = tensor(theirs_, shape_.m, shape_.n, {shape_.m * shape_.n, shape_.n, 1});
    if (holds()) theirs_.take(start_.data());
    product_by_libtorch(shape_.epilogue, a, b, c,
                        has_row() ? at::from_blob(start_.data(), {shape_.n}, at::kFloat) : at::Tensor());
  }
  bool same(Plan const& plan) {
    if (holds()) ours_.take(start_.data());
    else std::fill_n(ours_.data(), ours_.size(), std::numeric_limits<float>::quiet_NaN());
    plan.run(a_.data(), b_.data(), ours_.data(), start_.data());
    return ours_.same_bits(theirs_);
  }
  bool same_on_draws(Plan const& plan) {
    Numbers numbers;
    auto const passes = [&](Draw draw) {
      numbers.fill(a_.data(), a_.size(), draw);
      numbers.fill(b_.data(), b_.size(), draw);
      if (has_row() || holds()) numbers.fill(start_.data(), start_.size(), draw, true);
      reference();
      return same(plan);
    };
    // One sum of three numbers has the same bits in most orders, so a product of few results is drawn more than once;
    // of long sums fewer agree by luck.
    auto const results = std::max<std::int64_t>(1, theirs_.size());
    for (auto seen = results; seen < 1024 && seen * shape_.k < 1 << 20; seen += results)
      if (!passes(Draw::normal)) return false;
    return std::all_of(draws.begin(), draws.end(), passes);
  }

  ProductShape shape_;
  Sample a_, b_, start_, theirs_, ours_;
};

FULGURITE_BULK_BODY Matmul on_this_thread() {
  auto const left_out = c10::impl::tls_local_dispatch_key_set().excluded_;
  bool const first = left_out.has(product_mark), second = left_out.has(other_product_mark);
  return first ? second ? Matmul::certified : Matmul::faster : second ? Matmul::fastest : Matmul::libtorch;
}

FULGURITE_BULK_BODY Verdicts::Verdicts(ProductKernels const* kernels, bool tests) : kernels_(kernels), tests_(tests) {
  static std::atomic<std::uint64_t> made = 0;
  number_ = ++made;
}

FULGURITE_BULK_BODY Verdicts& Verdicts::of_process(Matmul how) {
  // Threads may use them until the very end.
  static Verdicts *const tested = new Verdicts(process_kernels()), *const fastest =
                                                                       new Verdicts(process_kernels(), false);
  return how == Matmul::fastest ? *fastest : *tested;
}

FULGURITE_BULK_BODY Plan const* Verdicts::find(ProductShape const& shape, Operands const& given) {
  // Per thread, so that the threads of a step need no lock. Not an array, since compilers would write out the
  // initialisation of each element.
  thread_local std::vector<Seen> last_seen(256);
  auto& seen = last_seen[ProductHash{}(shape) % 256];
  if (seen.of == number_ && seen.shape == shape) return seen.plan;
  auto const* const plan = kernels_ ? search(shape, given) : nullptr;
  seen = {number_, shape, plan};
  return plan;
}

FULGURITE_BULK_BODY Verdicts::Count Verdicts::count() const {
  std::lock_guard const lock(mutex_);
  Count count;
  for (auto const& [shape, plan] : all_) ++(plan ? count.certified : count.left);
  return count;
}

FULGURITE_BULK_BODY std::string Verdicts::account() const {
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
  for (char const* before = tests_ ? ": no block gives the bits (" : ": no kernel ("; auto const& one : left)
    text += std::exchange(before, "; ") + one;
  return left.empty() ? text : text + ")";
}

FULGURITE_BULK_BODY Plan const* Verdicts::search(ProductShape const& shape, Operands const& given) {
  Marked const as_ever(Matmul::libtorch);  // an operator that LibTorch's kernel calls must not be intercepted
  std::lock_guard const lock(mutex_);
  auto const [found, fresh] = all_.try_emplace(shape);
  if (fresh)
    if (auto const plan = tests_ ? Certifier(shape).search(given, *kernels_)
                                 : Plan::make(shape, fastest_blocks, strip_of_fastest(shape.n), *kernels_))
      found->second = std::make_unique<Plan>(*plan);
  return found->second.get();
}

FULGURITE_BULK_BODY Processor this_processor() {
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

/// How many rows of one matrix a thread computes.
FULGURITE_BULK_BODY std::int64_t rows_of_thread(ProductShape const& shape) {
  return std::min(shape.m, shape.m * shape.matrices() / shape.threads_used());
}

/// Measured (`tools/dev bench products`): on Zen 5, where MKL leaves half of the core idle, LIBXSMM is twice as fast,
/// on Zen 4 by a tenth to a half. It reads all of B for each few rows, where MKL copies pieces of B first: beyond 2
/// million numbers no cache holds B, and MKL is up to twice as fast; and for narrow products with long rows of A, whose
/// numbers then evict each other. A transposed B is copied, which needs rows to pay, and a B that fits into the second
/// cache: on Zen 4 at least 32 rows, and 16 for each thread, since each makes a copy of its own; on Zen 5, 8. The
/// limits of large products were measured on Zen 4, and are assumed on Zen 5; the rows of a thread were measured with
/// two threads on Zen 4, and are assumed with more and on Zen 5.
FULGURITE_BULK_BODY bool pays_on_amd(ProductShape const& shape, Processor on) {
  auto const of_b = shape.k * shape.n, of_thread = rows_of_thread(shape);
  if (shape.m < 8 || shape.n < 16 || (shape.n < 32 && shape.k > 1024)) return false;
  if (shape.b[2] == 1) return of_b <= 1 << 21;
  if (on == Processor::amd_whole) return of_thread >= 8 && of_b <= 1 << 20;
  return shape.m >= 32 && of_thread >= 16 && of_b <= 1 << 18;
}

/// Measured on Intel's Granite Rapids, where both reach the same peak, so that only smaller overhead and sums that are
/// still in the first cache help: a gain of a tenth at a million multiplications, of half at a hundred thousand.
/// Transposing a wide B first costs as much as it gains, unless a bias is added, for which LibTorch copies B or makes
/// another pass; with several threads, each of which transposes it, 8 rows for each are assumed to pay.
FULGURITE_BULK_BODY bool pays_on_intel(ProductShape const& shape) {
  auto const work = shape.m * shape.n * shape.k;
  if (shape.m < 8 || work > seen_on_intel) return false;
  if (shape.epilogue == Epilogue::then_onto) return true;
  if (shape.b[2] == 1) return shape.m >= 16 || work <= seen_on_intel / 4;
  bool const bias = shape.epilogue == Epilogue::row || shape.epilogue == Epilogue::then_row;
  return work <= seen_on_intel / 2 && (bias || shape.n < 128) && rows_of_thread(shape) >= 8;
}

FULGURITE_BULK_BODY bool may_be_faster(at::Tensor const& a, at::Tensor const& b, Processor on) {
  auto const as = a.sizes(), bs = b.sizes();
  if (as.size() < 2 || bs.size() != as.size()) return false;
  auto const m = as[as.size() - 2], work = m * as.back() * bs.back();
  if (work <= small_product) return true;
  return m >= 8 && on != Processor::other && (on != Processor::intel_bf16 || work <= seen_on_intel);
}

FULGURITE_BULK_BODY bool is_faster(ProductShape const& shape, Processor on) {
  if (shape.work() <= small_product * shape.matrices()) return true;
  switch (on) {
  case Processor::amd_whole:
  case Processor::amd_in_halves: return pays_on_amd(shape, on);
  case Processor::intel_bf16: return pays_on_intel(shape);
  case Processor::other: return false;
  }
  return false;
}

FULGURITE_BULK_BODY Plan const* plan_of(std::optional<ProductShape> const& shape, Operands const& given, Matmul how) {
  if (how == Matmul::libtorch || !shape || at::in_parallel_region()) return nullptr;
  if (how == Matmul::faster && !is_faster(*shape)) return nullptr;
  if (how == Matmul::fastest) {
    // A step as it is written and its tape have to choose alike, so what follows on the product in a tape, and where
    // the memory lies, must not matter.
    auto asked = *shape;
    if (asked.epilogue != Epilogue::row && asked.epilogue != Epilogue::onto) asked.epilogue = Epilogue::none;
    if (!is_faster(asked)) return nullptr;
  }
  return Verdicts::of_process(how).find(*shape, given);
}

FULGURITE_BULK_BODY Matmul asked_for(at::Tensor const& a, at::Tensor const& b) {
  auto const how = on_this_thread();
  bool const by_rule = how == Matmul::faster || how == Matmul::fastest;
  return by_rule && !may_be_faster(a, b) ? Matmul::libtorch : how;
}

FULGURITE_BULK_BODY float const* numbers(at::Tensor const& tensor) {
  return static_cast<float const*>(tensor.const_data_ptr());
}

FULGURITE_BULK_BODY std::optional<Epilogue> epilogue_of(at::Tensor const& start, at::Tensor const& a,
                                                        at::Tensor const& b, at::Scalar const& beta,
                                                        at::Scalar const& alpha) {
  if (!is_plain_float(start) || !start.is_contiguous() || !beta.equal(1) || !alpha.equal(1) || a.dim() != b.dim())
    return std::nullopt;
  auto const n = b.size(-1);
  if (a.dim() == 2 && start.dim() == 1 && start.size(0) == n) return Epilogue::row;
  bool const whole = start.dim() == a.dim() && start.size(-1) == n && start.size(-2) == a.size(-2) &&
                     (a.dim() != 3 || start.size(0) == a.size(0));
  return whole ? std::optional(Epilogue::onto) : std::nullopt;
}

FULGURITE_BULK_BODY at::Tensor new_result(ProductShape const& shape) {
  auto made = shape.batch == 0 ? at::detail::empty_cpu({shape.m, shape.n}, at::kFloat)
                               : at::detail::empty_cpu({shape.batch, shape.m, shape.n}, at::kFloat);
  return at::Tensor(std::move(made));
}

FULGURITE_BULK_BODY at::Tensor computed(Plan const& plan, Operands const& given) {
  auto result = new_result(plan.shape());
  auto* const to = static_cast<float*>(result.mutable_data_ptr());
  if (plan.shape().epilogue == Epilogue::onto) std::memcpy(to, given.start, result.nbytes());
  plan.run(given.a, given.b, to, given.start);
  return result;
}

}  // namespace fulgurite::libtorch::native
