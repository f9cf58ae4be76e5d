// Searches with the optimizers and the precisions that need more care than Adam in single precision.
#include "searched.hpp"

using namespace fulgurite;
using namespace searched;

TEST_CASE("tuner: no trace is left in a run of LBFGS, ours or LibTorch's") {
  CHECK(traces<Optimizer::lbfgs>(eager, Float32{}, shuffled) == 0);
  CHECK(traces<Optimizer::torch_lbfgs>(eager, Float32{}, shuffled) == 0);
}

TEST_CASE("tuner: no trace is left in double precision, and none in bfloat16") {
  CHECK(traces<Optimizer::ours>(eager, Float64{}, shuffled) == 0);
  CHECK(traces<Optimizer::torch>(eager, Bf16True{}, shuffled) == 0);
}

TEST_CASE("tuner: with Fp16Mixed, whose scale is put back, on a GPU; without one a search is refused as a fit is") {
  auto const at_run_time = [] { return SingleDevice{automatic}; };
  if (torch::cuda::is_available()) {
    CHECK(traces<Optimizer::ours>(at_run_time, Fp16Mixed{.init_scale = 1024, .growth_interval = 2}, shuffled) == 0);
    return;
  }
  Net<Optimizer::ours> net;
  auto loader = shuffled();
  auto trainer = make_trainer<Net<Optimizer::ours>>(options(1), at_run_time(), Fp16Mixed{}, Automatic{}, NoDefaults{});
  auto const before = fixtures::copied_weights(net);
  auto const refused = [&](auto&& search) {
    try {
      search();
      return std::string();
    } catch (Error const& error) { return std::string(error.identifier()); }
  };
  CHECK(refused([&] { tune::lr_find(trainer, net, loader, {}); }) == "fulgurite.policy.fp16_needs_gpu");
  CHECK(refused([&] { tune::scale_batch_size(trainer, net, loader, {.show = false}); }) ==
        "fulgurite.policy.fp16_needs_gpu");
  CHECK(loader.batch_size() == 5);
  auto const after = fixtures::copied_weights(net);
  for (std::size_t i = 0; i != before.size(); ++i) CHECK(fixtures::same_bits(before[i], after[i]));
}
