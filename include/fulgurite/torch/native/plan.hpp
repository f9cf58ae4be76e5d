#pragma once
// How one product is cut into calls of small kernels: the inner length into blocks and columns into strips, which
// decides the bits; rows into panels, which does not.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <fulgurite/torch/native/kernels.hpp>
#include <fulgurite/torch/native/passes.hpp>
#include <fulgurite/torch/native/shape.hpp>
#include <fulgurite/torch/native/threads.hpp>

namespace fulgurite::libtorch::native {

/// Memory of this thread that the next product overwrites, one piece for each use.
inline float* scratch(std::size_t use, std::int64_t size) {
  thread_local std::vector<float> all[3];
  if (all[use].size() < static_cast<std::size_t>(size)) all[use].resize(static_cast<std::size_t>(size));
  return all[use].data();
}

/// The blocks of an inner length. MKL takes whole ones as long as it can and then what is left (on AMD's processors),
/// or halves what is left as soon as it is less than two blocks (on Intel's with AVX-512: 784 is 384, 200 and 200).
struct Blocks {
  std::int64_t length = 0;
  bool halves = false;

  /// The next block, where so many numbers are left.
  std::int64_t next(std::int64_t left) const {
    if (!halves) return std::min(length, left);
    return left >= 2 * length ? length : left > length ? (left + 1) / 2 : left;
  }
  /// All lengths that occur, at most three: `length` comes first, and a length that is not there is 0.
  std::array<std::int64_t, 3> lengths(std::int64_t whole) const {
    std::array<std::int64_t, 3> all{};
    for (std::int64_t left = whole, block = 0; left != 0; left -= block) {
      block = next(left);
      *std::find_if(all.begin(), all.end() - 1, [&](auto known) { return known == 0 || known == block; }) = block;
    }
    return all;
  }
};

class Plan {
 public:
  /// Each block of the inner length is summed by itself, from 0, and added to what the blocks before it have made, as
  /// MKL does it. The last `strip` columns, where that is not 0, have kernels of their own. Nullopt: there is no kernel
  /// for a part of it.
  static std::optional<Plan> make(ProductShape const& shape, Blocks const& blocks, std::int64_t strip,
                                  Kernels const& kernels) {
    Plan plan(shape, blocks, strip);
    std::int64_t const rows[] = {plan.panel_, shape.m % plan.panel_}, widths[] = {shape.n - strip, strip};
    auto const& lengths = plan.lengths_;
    for (std::size_t r = 0; r != 2; ++r)
      for (std::size_t l = 0; l != lengths.size(); ++l)
        for (std::size_t w = 0; w != 2; ++w) {
          if (rows[r] == 0 || lengths[l] == 0 || widths[w] == 0) continue;
          plan.kernel_[r][l][w] =
              kernels.product(int(rows[r]), int(widths[w]), int(lengths[l]), int(plan.a_.distance), plan.a_.turned,
                              int(plan.b_.turned ? shape.n : plan.b_.distance), int(shape.n));
          if (!plan.kernel_[r][l][w]) return std::nullopt;
        }
    return plan;
  }

  ProductShape const& shape() const { return shape_; }
  /// Of the inner length, the longest block.
  std::int64_t block() const { return lengths_[0]; }

  /// `row`: what Epilogue::row adds.
  void run(float const* a, float const* b, float* c, float const* row = nullptr) const {
    auto const panels = (shape_.m + panel_ - 1) / panel_, all = panels * shape_.matrices();
    float const* const whole = b_.turned && shape_.batch == 0 ? turned(b) : b;  // the threads share it
    auto const part = [&](std::int64_t i) {
      auto const matrix = i / panels, from = i % panels * panel_;
      auto const* mine = whole + matrix * shape_.b[0];
      if (b_.turned && shape_.batch != 0) mine = turned(mine);
      rows(a + matrix * shape_.a[0] + from * shape_.a[1], mine, c + (matrix * shape_.m + from) * shape_.n, row,
           std::min(panel_, shape_.m - from));
    };
    if (threads_ > 1) return on_threads(all, part);
    for (std::int64_t i = 0; i != all; ++i) part(i);
  }

 private:
  Plan(ProductShape const& shape, Blocks const& blocks, std::int64_t strip)
      : shape_(shape),
        a_(*order_of(shape.m, shape.k, shape.a)),
        b_(*order_of(shape.k, shape.n, shape.b)),
        blocks_(blocks),
        lengths_(blocks.lengths(shape.k)),
        strip_(strip),
        panel_(shape.m),
        threads_(shape.work() >= worth_threads ? shape.threads : 1) {
    bool const twice =
        block() != shape.k || shape.epilogue != Epilogue::none;  // what is gone over again stays in caches
    if (twice) panel_ = std::min(panel_, std::max<std::int64_t>(16, cached / shape.n / 16 * 16));
    if (threads_ > 1 && shape.batch < threads_) {
      auto const parts = (threads_ + shape.matrices() - 1) / shape.matrices();
      panel_ = std::min(panel_, ((shape.m + parts - 1) / parts + 7) / 8 * 8);
    }
    if (b_.turned && shape.batch != 0) panel_ = shape.m;  // so that each B is turned once
  }

  float const* turned(float const* b) const {
    auto* const to = scratch(0, shape_.k * shape_.n);
    turn(to, b, shape_.k, shape_.n, b_.distance);
    return to;
  }

  void rows(float const* a, float const* b, float* c, float const* row, std::int64_t count) const {
    auto const& kernels = kernel_[count == panel_ ? 0 : 1];
    auto const size = count * shape_.n, b_step = b_.turned ? shape_.n : b_.distance;
    bool const begun = shape_.epilogue == Epilogue::onto, later = shape_.epilogue == Epilogue::then_onto;
    float* const to = later ? scratch(2, size) : c;
    float* const sum = begun || block() != shape_.k ? scratch(1, size) : nullptr;
    for (std::int64_t j = 0, length = 0; j < shape_.k; j += length) {
      length = blocks_.next(shape_.k - j);
      auto const& kernel = kernels[length == lengths_[0] ? 0 : length == lengths_[1] ? 1 : 2];
      if (j == 0 && !begun) {
        strips(kernel, b, a, to);
        if (shape_.epilogue == Epilogue::zero_plus) add_to(to, nullptr, size);
        if (shape_.epilogue == Epilogue::row)
          for (std::int64_t i = 0; i != count; ++i) add_to(to + i * shape_.n, row, shape_.n);
      } else {
        strips(kernel, b + j * b_step, a + j * (a_.turned ? a_.distance : 1), sum);
        add_to(to, sum, size);
      }
    }
    if (later) add_to(c, to, size);
  }

  void strips(Kernel const (&kernel)[2], float const* b, float const* a, float* c) const {
    kernel[0](b, a, c);
    if (strip_ != 0) kernel[1](b + (shape_.n - strip_), a, c + (shape_.n - strip_));
  }

  static constexpr std::int64_t cached = 4096;            // numbers, of C or of a sum
  static constexpr std::int64_t worth_threads = 1 << 20;  // multiplications: some ten microseconds of one core

  ProductShape shape_;
  Order a_, b_;
  Blocks blocks_;
  std::array<std::int64_t, 3> lengths_;
  std::int64_t strip_, panel_;
  int threads_;
  Kernel kernel_[2][3][2] = {};  ///< for the rows of a panel, those of the last one; each length; both strips
};

}  // namespace fulgurite::libtorch::native
