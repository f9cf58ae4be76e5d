// The same by the dynamic twin: a virtual call for each callback and event.

#include <memory>
#include <utility>

#include "../../benchmarks/twin/trainer.hpp"
#include "null.hpp"
#include "program.hpp"

// Named, so that other files could derive from its classes: a compiler that sees all of them calls none virtually.
namespace null {

struct Library {
  using Tensor = null::Value;
  using Batch = long;
  static long batch_size(Batch const&) { return 1; }
  static Tensor detached(Tensor const& t) { return t; }
  static double read(Tensor const& t) { return t.number; }
  static void backward(Tensor&, double) {}
  static int no_grad() { return 0; }
};
using Trainer = twin::Trainer<Library>;

struct TwinOptimizer final : twin::Optimizer {
  void zero_grad() override {}
  void step() override {}
  void scale_gradients(double) override {}
  void clip_norm(double) override {}
};

struct Net final : twin::Module<Library> {
  Value training_step(Trainer&, long const& batch) override { return work(batch); }
  void validation_step(Trainer&, long const& batch) override { work(batch); }
  std::unique_ptr<twin::Optimizer> configure_optimizer() override { return std::make_unique<TwinOptimizer>(); }
};

template <int>
struct Idle final : twin::Callback<Library> {
  void on_fit_start(Trainer&) override {}
};
template <int>
struct Listening final : twin::Callback<Library> {
  long starts = 0, ends = 0;
  void on_train_batch_start(Trainer&, long const&) override { ++starts; }
  void on_train_batch_end(Trainer&, null::Value const&, long const&) override { ++ends; }
};

}  // namespace null

int main(int argc, char** argv) {
  long const steps = steps_of(argc, argv);
  null::Net net;
  null::Trainer trainer({.max_epochs = 1, .num_sanity_val_steps = 0});
  [&]<int... I, int... H>(std::integer_sequence<int, I...>, std::integer_sequence<int, H...>) {
    (trainer.add(std::make_unique<null::Idle<I>>()), ...);
    (trainer.add(std::make_unique<null::Listening<H>>()), ...);
  }(std::make_integer_sequence<int, IDLE>{}, std::make_integer_sequence<int, LISTENING>{});
  null::Count batches(steps), one(1);
  twin::RangeLoader<null::Library, null::Count> train(batches), validation(one);
#ifdef VALIDATED
  trainer.fit(net, train, &validation);
#else
  trainer.fit(net, train);
#endif
  return report(steps, trainer.global_step());
}
