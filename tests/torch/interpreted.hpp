#pragma once
// An update rule that was written down, done by LibTorch's operators: what the kernel made of it has to do, too.

#include <cstddef>
#include <span>
#include <vector>

#include <ATen/ATen.h>

#include <fulgurite/torch/optim/update_kernel.hpp>

namespace interpreted {

using namespace fulgurite;

/// Does what the trace says with these numbers, an operator for each line.
inline void interpret(libtorch::UpdateTrace const& trace, std::span<double const> numbers,
                      std::span<at::Tensor const> inputs) {
  using What = libtorch::UpdateTrace::What;
  std::vector<at::Tensor> values(inputs.begin(), inputs.end());
  values.resize(trace.values());
  for (std::size_t i = 0; i != trace.operations().size(); ++i) {
    auto const& o = trace.operations()[i];
    auto const &from = values[o.from], &a = values[o.a], &b = values[o.b];
    double const n = numbers[i];
    auto const result = [&] {
      switch (o.what) {
      case What::copy: return a.clone();
      case What::scale: return from.mul(n);
      case What::divide: return from.div(n);
      case What::add_number: return from.add(n);
      case What::sum: return from.add(a, n);
      case What::add_product: return from.addcmul(a, b, n);
      case What::add_quotient: return from.addcdiv(a, b, n);
      case What::root: return from.sqrt();
      case What::maximum: return at::maximum(from, a);
      }
      return at::Tensor();
    }();
    if (values[o.to].defined()) values[o.to].copy_(result);
    else values[o.to] = result;
  }
}

}  // namespace interpreted
