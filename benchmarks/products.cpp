// What is said of matrix products: whose kernels there are, and how much of them a step has.

#include <fulgurite/torch/native/matmul_scope.hpp>
#include <fulgurite/torch/native/plan.hpp>

#include <memory>
#include <string>
#include <string_view>

#include <ATen/record_function.h>

#include "workloads.hpp"

namespace bench {

namespace {

double counted = 0;

/// Without NDEBUG, which benchmarks are built with, inputs() would check a flag that a released LibTorch never sets.
std::unique_ptr<at::ObserverContext> count(at::RecordFunction const& call) {
  std::string_view const name = call.name();
  bool const adds = name == "aten::addmm" || name == "aten::baddbmm";
  if (adds || name == "aten::mm" || name == "aten::bmm") {
    auto const factors = call.inputs().slice(adds ? 1 : 0, 2);
    counted +=
        2.0 * static_cast<double>(factors[0].toTensor().numel()) * static_cast<double>(factors[1].toTensor().size(-1));
  }
  return nullptr;
}

}  // namespace

bool has_products() { return fulgurite::libtorch::native::process_kernels() != nullptr; }

std::string products_so_far() {
  return fulgurite::libtorch::native::products_account(fulgurite::Matmul::faster).front();
}

double product_operations(std::string const& workload) {
  auto const loop = raw_loops(fulgurite::Matmul::libtorch).at(workload)();
  counted = 0;
  auto const watch = at::addThreadLocalCallback(
      at::RecordFunctionCallback(&count).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
  loop.run(0, 1);
  at::removeCallback(watch);
  return counted;
}

}  // namespace bench
