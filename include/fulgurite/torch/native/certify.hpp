#pragma once
// Whether small kernels give LibTorch's very bits for a product, and in which blocks: tried before they are used.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include <ATen/ops/from_blob.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/torch/native/plan.hpp>
#include <fulgurite/torch/native/reference.hpp>

namespace fulgurite::libtorch::native {

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

}  // namespace fulgurite::libtorch::native
