// One matrix product at a time: LibTorch's kernel against the one that is certified to have its bits, and the operators
// that Matmul::fastest computes otherwise. What torch/native/ says of a processor stands on these tables.
//   product_shapes [THREADS]
// Built and run by `tools/dev bench products`.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <ATen/Parallel.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/randn.h>

#include <fulgurite/torch/native/matmul_scope.hpp>
#include <fulgurite/torch/native/products.hpp>

#include "least.hpp"
#include "workloads.hpp"

using namespace fulgurite::libtorch::native;

namespace {

struct Row {
  std::int64_t batch, m, n, k;
};
/// Of layers from 128 to 784 wide with 1 to 768 rows, of heads, of attention, of a recurrent cell.
constexpr std::array rows{
    Row{0, 8, 32, 32},     Row{0, 32, 32, 8},     Row{0, 64, 128, 784},  Row{0, 128, 784, 64},  Row{0, 64, 128, 128},
    Row{0, 128, 128, 64},  Row{0, 64, 10, 128},   Row{0, 10, 128, 64},   Row{0, 64, 128, 10},   Row{0, 16, 128, 784},
    Row{0, 128, 784, 16},  Row{0, 1, 128, 784},   Row{0, 768, 128, 128}, Row{0, 768, 384, 128}, Row{0, 768, 512, 128},
    Row{0, 768, 128, 512}, Row{0, 512, 128, 768}, Row{0, 128, 512, 768}, Row{0, 768, 65, 128},  Row{0, 768, 128, 65},
    Row{0, 65, 128, 768},  Row{0, 8, 784, 128},   Row{0, 8, 16, 784},    Row{0, 64, 17, 784},   Row{0, 32, 40, 256},
    Row{0, 100, 80, 20},   Row{0, 512, 512, 512}, Row{48, 64, 64, 32},   Row{48, 64, 32, 64}};

at::Tensor matrix(std::int64_t batch, std::int64_t m, std::int64_t n, bool turned) {
  auto const made = batch == 0 ? turned ? at::randn({n, m}) : at::randn({m, n})
                    : turned ? at::randn({batch, n, m})
                               : at::randn({batch, m, n});
  return turned ? made.transpose(-1, -2) : made;
}

bool has_row(Epilogue epilogue) { return epilogue == Epilogue::row || epilogue == Epilogue::then_row; }

void compare(Row const& row, bool a_turned, bool b_turned, Epilogue epilogue) {
  auto const a = matrix(row.batch, row.m, row.k, a_turned), b = matrix(row.batch, row.k, row.n, b_turned),
             start = has_row(epilogue) ? at::randn({row.n}) : matrix(row.batch, row.m, row.n, false);
  auto const shape = product_shape(a, b, epilogue);
  if (!shape) return;
  auto const* const plan = Verdicts::of_process().find(*shape, {numbers(a), numbers(b), numbers(start)});
  auto theirs = new_result(*shape), ours = new_result(*shape);
  auto const work = static_cast<double>(shape->work());
  auto const [mkl, xsmm] = least(
      static_cast<int>(std::clamp(2e7 / work, 1.0, 2000.0)),
      [&] { product_by_libtorch(epilogue, a, b, theirs, start); },
      [&] {
        if (plan) plan->run(numbers(a), numbers(b), static_cast<float*>(ours.mutable_data_ptr()), numbers(start));
      });
  std::printf("| %-42s | %8.2f | ", shape->text().c_str(), mkl);
  if (plan)
    std::printf("%8.2f | %5.2f | %5.0f | %3ld | %3s |\n", xsmm, mkl / xsmm, 2e-3 * work / xsmm,
                static_cast<long>(plan->block()), is_faster(*shape) ? "yes" : "no");
  else std::printf("%8s | %5s | %5s | %3s | %3s |\n", "-", "-", "-", "-", "-");
}

/// An operator as LibTorch computes it, and in a scope of Matmul::fastest.
template <class F>
void compare(char const* what, F const& operation) {
  auto const [theirs, ours] = least(20, operation, [&] {
    fulgurite::MatmulScope const scope(fulgurite::Matmul::fastest);
    operation();
  });
  std::printf("| %s | %.1f | %.1f | %.2f |\n", what, theirs, ours, theirs / ours);
}

/// What Matmul::fastest has besides products.
void compare_operators() {
  std::puts("\n| operator | LibTorch, us | Matmul::fastest, us | times |\n|---|---:|---:|---:|");
  auto const x = at::randn({768, 512}), gradient = at::randn({768, 512});
  compare("gelu_backward, 768x512", [&] { at::gelu_backward(gradient, x); });
  for (bool const causal : {true, false})
    for (std::int64_t const keys : {16, 64, 128}) {
      auto const parts = at::randn({12, keys, 3, 4, 32}).permute({2, 0, 3, 1, 4});
      auto const after = at::randn({12, keys, 4, 32}).transpose(1, 2);
      auto const forward = [&] {
        return at::_scaled_dot_product_flash_attention_for_cpu(parts[0], parts[1], parts[2], 0.0, causal);
      };
      auto const [out, sums] = forward();
      auto const text = "attention, 48 of " + std::to_string(keys) + "x32" + (causal ? ", causal" : "");
      compare(text.c_str(), forward);
      compare((text + ", backward").c_str(), [&, &result = out, &of = sums] {
        at::_scaled_dot_product_flash_attention_for_cpu_backward(after, parts[0], parts[1], parts[2], result, of, 0.0,
                                                                 causal);
      });
    }
}

}  // namespace

int main(int argc, char** argv) {
  at::set_num_threads(argc < 2 ? 1 : std::max(1, std::atoi(argv[1])));
  if (!process_kernels()) {
    std::puts("built without LIBXSMM: there is nothing to compare");
    return 77;
  }
  std::puts(
      "| product (rows x columns x inner length) | LibTorch, us | LIBXSMM, us | times | GFLOP/s | block | used |");
  std::puts("|---|---:|---:|---:|---:|---:|---|");
  for (auto const& row : rows)
    for (bool const a_turned : {false, true})
      for (bool const b_turned : {false, true}) {
        if (a_turned && b_turned) continue;
        for (auto const epilogue : {Epilogue::none, Epilogue::row, Epilogue::then_onto, Epilogue::then_row}) {
          // A layer adds its bias to A B^T, and gradients of weights to A^T B.
          if (has_row(epilogue) != (b_turned && row.batch == 0 && epilogue != Epilogue::none)) continue;
          if (epilogue == Epilogue::then_onto && !a_turned) continue;
          compare(row, a_turned, b_turned, epilogue);
        }
      }
  // What else there is of a product, once each: into a cleared gradient, a bias in A B + row, added to a whole matrix.
  compare({0, 128, 128, 64}, true, false, Epilogue::zero_plus);
  compare({0, 64, 128, 128}, false, false, Epilogue::row);
  compare({0, 64, 128, 128}, false, false, Epilogue::onto);
  compare({48, 64, 64, 32}, false, false, Epilogue::onto);
  compare_operators();
}
