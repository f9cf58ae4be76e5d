#pragma once
// The dynamic twin on the toy tensor of the tests.

#include <utility>

#include "toy.hpp"

#include "trainer.hpp"

namespace twin {

struct Toy {
  using Tensor = toy::Tensor;
  using Batch = double;
  static long batch_size(Batch const&) { return 1; }
  static Tensor detached(Tensor const& t) { return t; }
  static double read(Tensor const& t) { return t.value(); }
  static void backward(Tensor& loss, double seed) { loss.backward(seed); }
  static auto no_grad() { return toy::Restored<bool>(toy::grad_enabled, false); }
};

/// Any optimizer of the toy.
template <class O>
class ToyOptimizer final : public Optimizer {
 public:
  explicit ToyOptimizer(O optimizer) : optimizer_(std::move(optimizer)) {}
  void zero_grad() override { optimizer_.zero_grad(); }
  void step() override { optimizer_.step(); }
  void scale_gradients(double factor) override { toy::Backend::scale_gradients(optimizer_.parameters(), factor); }
  void clip_norm(double limit) override { toy::Backend::clip_norm(optimizer_.parameters(), limit); }

 private:
  O optimizer_;
};

}  // namespace twin
