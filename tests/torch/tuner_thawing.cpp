// Searches beside BackboneFinetuning: a group that is added in the middle of a fit is put back as the others are.
#include "searched.hpp"

using namespace fulgurite;
using namespace searched;

namespace {

/// A head that trains from the start, and a backbone with a batch norm.
template <Optimizer Which>
struct Parts : torch::nn::Module {
  torch::nn::Sequential backbone = register_module(
      "backbone", torch::nn::Sequential(torch::nn::Linear(6, 8), torch::nn::BatchNorm1d(8), torch::nn::ReLU()));
  torch::nn::Dropout drop = register_module("drop", torch::nn::Dropout(0.3));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(8, 3));
  double lr = 0.02;

  torch::Tensor training_step(auto const& batch) {
    return F::cross_entropy(head->forward(drop->forward(backbone->forward(batch.data))), batch.target);
  }
  auto configure_optimizers() {
    auto const cosine = schedule::Cosine{.total = 30};
    ScheduleOptions const each_step{.interval = Interval::step};
    if constexpr (Which == Optimizer::ours)
      return scheduled(optim::AdamW(head->parameters(), {.lr = lr}), cosine, each_step);
    else if constexpr (Which == Optimizer::torch)
      return scheduled(torch::optim::Adam(head->parameters(), torch::optim::AdamOptions(lr)), cosine, each_step);
    else
      return scheduled(torch::optim::Adagrad(head->parameters(), torch::optim::AdagradOptions(lr)), cosine, each_step);
  }
};

/// What a run comes to that thaws before its second epoch and searches before these, and the file of it that another
/// run goes on from.
template <Optimizer Which, class Make>
std::string came(Make make, Searches searches, auto... from) {
  torch::manual_seed(7);
  Parts<Which> net;
  auto loader = shuffled();
  bool const looks = searches.what != What::nothing;
  auto trainer = make_trainer<Parts<Which>>(options(4), make(), Float32{}, Automatic{.accumulate_grad_batches = 3},
                                            BackboneFinetuning{{.unfreeze_backbone_at_epoch = 1}}, std::move(searches),
                                            NoDefaults{});
  trainer.fit(net, loader, from...);
  CHECK(trainer.template callback<BackboneFinetuning>().added_groups().size() == 1);
  CHECK((trainer.template callback<Searches>().points > 0) == looks);
  return bits(trainer, net);
}
template <Optimizer Which, class Make>
void leaves_no_trace(Make make) {
  auto const file = fs::temp_directory_path() / ("fulgurite_thawing_" + std::to_string(::getpid()) + ".safetensors");
  auto const never = came<Which>(make, {.file_after = 5, .file = file});  // inside of the second epoch
  for (auto const what : {What::rate, What::size}) {
    CHECK(came<Which>(make, {.what = what, .epochs = {1, 2, 3}}) == never);
    CHECK(came<Which>(make, {.what = what, .epochs = {2}}, CkptPath{file}) == never);
  }
  fs::remove(file);
}

}  // namespace

TEST_CASE("tuner: no trace is left when a backbone has thawed into a group of its own, nor in a run from its file") {
  leaves_no_trace<Optimizer::ours>(eager);
  leaves_no_trace<Optimizer::torch>(eager);
  leaves_no_trace<Optimizer::adagrad>(eager);  // whose sums are made with the group
}

TEST_CASE("tuner: the same of captured steps") { leaves_no_trace<Optimizer::ours>(captured); }
