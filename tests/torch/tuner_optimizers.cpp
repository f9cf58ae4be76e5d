// Searches with the optimizers that no other unit of them has: each one's moments, sums and counts are put back.
#include "searched.hpp"

using namespace fulgurite;
using namespace searched;

TEST_CASE("tuner: no trace is left in a run of our Adam with amsgrad, SGD, RMSprop or Adagrad") {
  CHECK(traces<Optimizer::our_adam>(eager, Float32{}, shuffled) == 0);
  CHECK(traces<Optimizer::our_sgd>(eager, Float32{}, shuffled) == 0);
  CHECK(traces<Optimizer::our_rmsprop>(eager, Float32{}, shuffled) == 0);
  CHECK(traces<Optimizer::our_adagrad>(eager, Float32{}, shuffled) == 0);
}

TEST_CASE("tuner: no trace is left in a run of LibTorch's AdamW with amsgrad, RMSprop or Adagrad") {
  CHECK(traces<Optimizer::adamw>(eager, Float32{}, shuffled) == 0);
  CHECK(traces<Optimizer::rmsprop>(eager, Float32{}, shuffled) == 0);
  CHECK(traces<Optimizer::adagrad>(eager, Float32{}, shuffled) == 0);
}

namespace {

/// LibTorch's, by whose name no file knows what it keeps; its moments may be lost.
struct Mine : torch::optim::SGD {
  using torch::optim::SGD::SGD;
  using Stateless = ByChoice;
};
struct WithMine : Net<Optimizer::momentum> {
  auto configure_optimizers() { return Mine(parameters(), torch::optim::SGDOptions(lr).momentum(0.9)); }
};

}  // namespace

TEST_CASE("tuner: an optimizer whose declaration hides its moments is refused inside of a fit, and put back between") {
  auto const fit = [](bool searches) {
    torch::manual_seed(7);
    WithMine net;
    auto loader = shuffled();
    auto trainer = make_trainer<WithMine>(options(2), SingleDevice{cpu}, Float32{}, Automatic{}, NoDefaults{});
    if (searches) tune::rehearse(trainer, net, loader, {.steps = 5});
    trainer.fit(net, loader);
    return bits(trainer, net);
  };
  CHECK(fit(true) == fit(false));

  WithMine net;
  auto loader = shuffled();
  auto trainer =
      make_trainer<WithMine>(options(2), SingleDevice{cpu}, Float32{}, Automatic{}, Tries{true, {}, {}}, NoDefaults{});
  try {
    trainer.fit(net, loader);
    FAIL("steps were tried out");
  } catch (Error const& error) { CHECK(error.identifier() == "fulgurite.tuner.optimizer"); }
  CHECK(trainer.progress().global_step == 0);
}
