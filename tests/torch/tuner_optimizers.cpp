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
