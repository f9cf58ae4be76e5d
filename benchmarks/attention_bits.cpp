// Whether LibTorch's attention in one operator keeps its bits where the two products inside are LIBXSMM's, and what
// that would bring: the forward pass of its kernel for the CPU, written again with ATen's own vectors (one block of
// keys, as long as there are no more than 512). Built and run by `tools/dev bench attention`, by g++ alone: LibTorch is
// built with it, and clang joins other multiplications and additions into one.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <tuple>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/cpu/vec/functional.h>
#include <ATen/cpu/vec/vec.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <libxsmm.h>

#include "least.hpp"

namespace {

using Vector = at::vec::Vectorized<float>;

struct Heads {
  int count, rows, wide;  ///< heads of all samples; queries, which are as many as keys; numbers of a head
};

/// c (m x n) = a (m x k) b (k x n), all with rows side by side.
void multiply(int m, int n, int k, float const* a, float const* b, float* c) {
  float const one = 1, zero = 0;
  auto const kernel = libxsmm_smmdispatch(n, m, k, &n, &k, &n, &one, &zero, nullptr, nullptr);
  kernel(b, a, c);
}

/// A row of scores becomes exp(scale * score - its maximum); the sum of these.
float exponentials(float* row, int size, float scale) {
  auto const whole = size / Vector::size() * Vector::size();
  float most = -std::numeric_limits<float>::infinity();
  Vector mosts(most);
  for (int i = 0; i != whole; i += Vector::size()) {
    auto const scaled = Vector::loadu(row + i) * Vector(scale);
    mosts = at::vec::maximum(mosts, scaled);
    scaled.store(row + i);
  }
  for (int i = whole; i < size; ++i) most = std::max(most, row[i] *= scale);
  most = std::max(most,
                  at::vec::vec_reduce_all<float>([](Vector& x, Vector& y) { return at::vec::maximum(x, y); }, mosts));
  Vector sums(0.0F);
  for (int i = 0; i != whole; i += Vector::size()) {
    auto const power = (Vector::loadu(row + i) - Vector(most)).exp_u20();
    sums = sums + power;
    power.store(row + i);
  }
  float sum = at::vec::vec_reduce_all<float>([](Vector& x, Vector& y) { return x + y; }, sums);
  for (int i = whole; i < size; ++i) sum += row[i] = std::exp(row[i] - most);
  return sum;
}

/// All of q, k, v and out are heads x rows x wide. Queries go in blocks of 32, or 64 from 192 on.
void attend(Heads const& heads, bool causal, float const* q, float const* k, float const* v, float* out) {
  int const rows = heads.rows, wide = heads.wide, block = std::min(rows >= 192 ? 64 : 32, rows);
  auto const scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(wide)));
  static std::vector<float> turned, scores;
  turned.resize(static_cast<std::size_t>(rows * wide));
  scores.resize(static_cast<std::size_t>(block * rows));
  for (int head = 0; head != heads.count; ++head, q += rows * wide, k += rows * wide, v += rows * wide) {
    for (int first = 0; first < rows; first += block, out += block * wide) {
      int const count = std::min(block, rows - first), keys = causal ? first + count : rows;
      for (int i = 0; i != wide; ++i)
        for (int j = 0; j != keys; ++j) turned[static_cast<std::size_t>(i * keys + j)] = k[j * wide + i];
      multiply(count, keys, wide, q + first * wide, turned.data(), scores.data());
      std::vector<float> sums;
      for (int row = 0; row != count; ++row) {
        auto* const at = scores.data() + row * keys;
        if (causal) std::fill(at + first + row + 1, at + keys, -std::numeric_limits<float>::infinity());
        sums.push_back(exponentials(at, keys, scale));
      }
      multiply(count, wide, keys, scores.data(), v, out);
      for (int row = 0; row != count; ++row)
        for (int i = 0; i < wide; i += Vector::size())
          (Vector::loadu(out + row * wide + i) * Vector(1 / sums[static_cast<std::size_t>(row)]))
              .store(out + row * wide + i);
    }
  }
}

/// Whether all bits are those of the operator.
bool compare(Heads const& heads, bool causal) {
  auto const made = [&] { return at::randn({1, heads.count, heads.rows, heads.wide}); };
  auto const q = made(), k = made(), v = made();
  auto const operators = [&] {
    return std::get<0>(at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal));
  };
  auto const ours = at::empty({1, heads.count, heads.rows, heads.wide});
  auto const by_hand = [&] {
    attend(heads, causal, q.const_data_ptr<float>(), k.const_data_ptr<float>(), v.const_data_ptr<float>(),
           ours.mutable_data_ptr<float>());
  };
  by_hand();
  bool const same = at::equal(operators(), ours);
  auto const [theirs, mine] = least(50, operators, by_hand);
  std::printf("| %d of %dx%d%s | %.1f | %.1f | %.2f | %s |\n", heads.count, heads.rows, heads.wide,
              causal ? ", causal" : "", theirs, mine, theirs / mine, same ? "same" : "other");
  return same;
}

}  // namespace

int main() {
  at::set_num_threads(1);
  std::puts("| heads x rows x wide | operator, us | with LIBXSMM, us | times | bits |\n|---|---:|---:|---:|---|");
  bool same = true;
  for (auto const& heads : {Heads{6, 16, 16}, Heads{48, 64, 32}, Heads{12, 64, 64}, Heads{6, 128, 32},
                            Heads{6, 192, 64}, Heads{4, 256, 64}})
    for (bool const causal : {false, true}) same = compare(heads, causal) && same;
  return same ? 0 : 1;
}
