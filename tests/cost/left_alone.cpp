// Calls that faster matrix products leave alone: what they cost before a scope was ever opened, after one, and inside
// one. left_alone.py counts the functions `counted`, each of which makes a thousand of the same calls.

#include <array>
#include <cstdio>
#include <optional>
#include <utility>

#include <ATen/Parallel.h>
#include <ATen/ops/add.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <c10/util/Exception.h>

#include <fulgurite/torch/native/matmul_scope.hpp>

namespace {

struct Operands {
  at::Tensor a, b;
  bool adds = false;
};

/// The number of a case is its kind, and 10 for each place: before, after, inside.
template <int number>
[[gnu::noinline]] void counted(Operands const& of) {
  asm volatile("" : : "i"(number));  // else g++ makes one function of all of them
  for (int i = 0; i != 1000; ++i) of.adds ? at::add(of.a, of.b) : at::mm(of.a, of.b);
}

template <int place, std::size_t... kind>
void all(std::array<Operands, 4> const& operands, std::index_sequence<kind...>) {
  for (auto const& of : operands) counted<99>(of);  // what only the first calls do
  (counted<10 * place + int(kind)>(operands[kind]), ...);
}

/// The first scope puts kernels in place, of which LibTorch would warn where they replaced others.
struct Warnings : c10::WarningHandler {
  int count = 0;
  void process(c10::Warning const& warning) override {
    ++count;
    std::fprintf(stderr, "a warning: %s\n", warning.msg().c_str());
  }
};

}  // namespace

int main() {
  at::set_num_threads(1);
  std::array<Operands, 4> const operands{{
      {at::ones({4, 4}, at::kDouble), at::ones({4, 4}, at::kDouble)},  // another type
      {at::ones({4, 8}).slice(1, 0, 8, 2), at::ones({4, 4})},          // strides that are neither order
      {at::ones({4, 520}), at::ones({520, 9})},                        // too large for the rule, and not regular
      {at::ones({4, 4}), at::ones({4, 4}), true},                      // another operator
  }};
  std::make_index_sequence<4> const kinds;
  all<0>(operands, kinds);
  Warnings warnings;
  std::optional<fulgurite::MatmulScope> scope;
  {
    c10::WarningUtils::WarningHandlerGuard const listen(&warnings);
    scope.emplace();
    scope.reset();
  }
  if (warnings.count != 0) return 1;
  all<1>(operands, kinds);
  scope.emplace();
  all<2>(operands, kinds);
}
