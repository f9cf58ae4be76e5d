// Reinforcement learning: REINFORCE balances a pole on a cart. The training data are a generator: each batch is 16
// episodes that the policy of this moment plays, so it is made only after the step on the one before. The step itself
// is manual optimization.
//   reinforcement
// Prints the mean return, which is the number of time steps that the pole stood, of 200 at most: at first, at the end.

#include <cmath>
#include <cstdio>
#include <optional>
#include <vector>

#include <fulgurite/fulgurite.hpp>

#include "helpers/arguments.hpp"

namespace nn = torch::nn;
using namespace fulgurite;

constexpr long limit = 200;  // of an episode, in time steps

/// Many carts at once, as in Barto, Sutton and Anderson (1983): place, speed, angle and its speed, in a row each.
class CartPoles {
 public:
  explicit CartPoles(long count) : state_(torch::rand({count, 4}) * 0.1 - 0.05) {}
  torch::Tensor const& state() const { return state_; }
  torch::Tensor standing() const { return (state_.select(1, 0).abs() < 2.4) & (state_.select(1, 2).abs() < 0.2095); }

  /// Pushes left (0) or right (1), for 20 ms.
  void step(torch::Tensor const& actions) {
    auto const s = state_.unbind(1);
    auto const sine = s[2].sin(), cosine = s[2].cos();
    auto const push = (20 * actions.to(torch::kFloat) - 10 + 0.05 * s[3].square() * sine) / 1.1;
    auto const turn = (9.8 * sine - cosine * push) / (0.5 * (4.0 / 3 - 0.1 * cosine.square() / 1.1));
    auto const pull = push - 0.05 * turn * cosine / 1.1;
    state_ = state_ + 0.02 * torch::stack({s[1], pull, s[3], turn}, 1);
  }

 private:
  torch::Tensor state_;
};

/// What was seen and done in all episodes of a batch, and the discounted return from there on.
struct Episodes {
  torch::Tensor states, actions, returns;
  double length;  // a mean
};

struct Policy : nn::Module {
  static constexpr Metric<"return"> mean_return{.prog_bar = true, .on_step = true};
  using Metrics = MetricList<mean_return>;

  nn::Sequential body = register_module("body", nn::Sequential(nn::Linear(4, 64), nn::Tanh(), nn::Linear(64, 2)));

  Episodes play(long count) {
    torch::NoGradGuard const no_graph;
    CartPoles carts(count);
    auto stands = carts.standing();
    std::vector<torch::Tensor> states, actions, stood;
    while (long(stood.size()) != limit && stands.any().item<bool>()) {
      states.push_back(carts.state());
      actions.push_back(body->forward(carts.state()).softmax(1).multinomial(1));
      stood.push_back(stands);  // before the push
      carts.step(actions.back().squeeze(1));
      stands = stands & carts.standing();
    }
    auto later = torch::zeros(count);
    std::vector<torch::Tensor> returns(stood.size());
    for (std::size_t t = stood.size(); t-- != 0;) returns[t] = later = stood[t].to(torch::kFloat) * (1 + 0.99 * later);
    auto const counts = torch::stack(stood);
    return {torch::stack(states).index({counts}), torch::stack(actions).index({counts}),
            torch::stack(returns).index({counts}), counts.sum().item<double>() / double(count)};
  }

  void training_step(Episodes const& played, auto& ctx) {  // void: manual optimization
    auto& [adam] = ctx.optimizers();
    auto const advantage = (played.returns - played.returns.mean()) / (played.returns.std() + 1e-6);
    auto const chosen = body->forward(played.states).log_softmax(1).gather(1, played.actions).squeeze(1);
    ctx.minimize(adam, -(chosen * advantage).mean());
    ctx.log(mean_return, torch::scalar_tensor(played.length), {.batch_size = 1});
  }
  auto configure_optimizers() { return optim::Adam(*this, {.lr = 1e-2}); }
};

int main(int argc, char** argv) try {
  example::Arguments arguments(argc, argv, "Balances a pole on a cart by REINFORCE.");
  bool const fast = arguments.flag("--fast", "15 batches, to see that everything works");
  int const batches = arguments.value("--batches", 100, "of episodes, a step each");
  long const episodes = arguments.value("--episodes", 16L, "in a batch");
  auto const seed = arguments.value<std::uint64_t>("--seed", 1, "of the weights, the carts and the actions");
  arguments.done();

  torch::set_num_threads(1);
  torch::manual_seed(seed);
  Policy policy;
  data::Stream games{[&] {  // without an end: `max_steps` is the limit
    return [&] { return std::optional(policy.play(episodes)); };
  }};
  double const first = policy.play(100).length;
  auto trainer = make_trainer<Policy>(TrainerOptions{.max_steps = fast ? 15 : batches}, SingleDevice{cpu}, Manual{},
                                      NoDefaults{}, ProgressBar{});
  trainer.fit(policy, games);
  std::printf("mean return over 100 episodes: %.0f at first, %.0f at the end\n", first, policy.play(100).length);
} catch (std::exception const& error) { return example::failed(error); }
