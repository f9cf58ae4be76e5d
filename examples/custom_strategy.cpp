// A strategy of one's own. It runs the model on the CPU, and adds noise to every gradient that it computes, less and
// less with each step (Neelakantan et al., 2015). A strategy is a struct with these members and no base class; what it
// lacks does not compile, and the error names the member. CONTRIBUTING.md says what each is for.
//   custom_strategy
// Prints what the strategy has counted, and the accuracy with the noise and without it.

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include <fulgurite/fulgurite.hpp>

#include "helpers/arguments.hpp"

namespace nn = torch::nn;
namespace F = torch::nn::functional;
using namespace fulgurite;

class NoisyGradients {
 public:
  using Backend = LibTorch;
  // What rules read in place of the type.
  static constexpr Known on_gpu = Known::no;
  static constexpr bool is_distributed = false, captures = false;

  explicit NoisyGradients(double first) : first_(first) {}

  // Where the model and its batches are.
  at::Device device() const { return at::kCPU; }
  bool is_on_gpu() const { return false; }
  void setup(auto& model, auto const& /*precision*/) { parameters_ = model.parameters(); }
  void teardown(auto& /*model*/) { parameters_.clear(); }
  template <class Batch>
  Batch&& move(Batch&& batch) {
    return std::forward<Batch>(batch);
  }

  // One batch: body(batch) is training_step, clearing, and backward, which is called below.
  auto gradients(StepKey key, auto& batch, auto& /*board*/, auto&& body) {
    auto output = body(batch);
    if (key.closes) {  // the optimizer steps next
      torch::NoGradGuard const no_graph;
      for (auto& p : parameters_)
        if (auto& gradient = p.mutable_grad(); gradient.defined())
          gradient.add_(torch::randn_like(gradient), deviation());
      ++steps_;
    }
    return output;
  }
  void backward(torch::Tensor const& loss, torch::Tensor const& seed) { loss.backward(seed); }
  /// A window of accumulated gradients that ends early.
  void flush(auto& optimizer, double scale) { Backend::scale_gradients(optimizer.parameters(), scale); }

  int rank() const { return 0; }
  int world() const { return 1; }

  /// In checkpoints: a run that is resumed continues with the noise of this step.
  void state(auto& archive) { archive("steps", steps_); }
  /// A line of describe(trainer).
  std::vector<std::string> account() const {
    return {"noise of deviation " + std::to_string(deviation()) + " in each gradient"};
  }
  /// Events reach a strategy after callbacks and model.
  void on_fit_end() const { std::printf("%ld steps; the noise fell from %.3g to %.3g\n", steps_, first_, deviation()); }

 private:
  double deviation() const { return first_ * std::pow(1.0 + static_cast<double>(steps_), -0.55); }

  double first_;
  long steps_ = 0;
  std::vector<torch::Tensor> parameters_{};
};

struct Net : nn::Module {
  static constexpr Metric<"val/accuracy"> val_accuracy{.prog_bar = true};
  using Metrics = MetricList<val_accuracy>;

  nn::Sequential body =
      register_module("body", nn::Sequential(nn::Flatten(), nn::Linear(784, 32), nn::ReLU(), nn::Linear(32, 10)));
  torch::Tensor training_step(auto const& batch) { return F::cross_entropy(body->forward(batch.data), batch.target); }
  void validation_step(auto const& batch, auto& ctx) {
    ctx.log(val_accuracy, (body->forward(batch.data).argmax(1) == batch.target).to(torch::kFloat).mean());
  }
  auto configure_optimizers() { return optim::Adam(*this, {.lr = 1e-3}); }
};

int main(int argc, char** argv) try {
  example::Arguments arguments(argc, argv, "Trains by a strategy of its own, which adds noise to gradients.");
  bool const fast = arguments.flag("--fast", "one epoch, to see that everything works");
  int const epochs = arguments.value("--epochs", 5, "passes over the digits");
  double const noise = arguments.value("--noise", 0.01, "deviation of the noise in the first step");
  arguments.done();

  torch::set_num_threads(1);
  TrainerOptions const options{.max_epochs = fast ? 1 : epochs};
  auto const train = [&](auto strategy) {
    torch::manual_seed(1);
    Net net;
    auto digits = data::digits({.train = 4000, .validation = 1000});
    auto trainer = make_trainer<Net>(options, strategy, NoDefaults{});
    trainer.fit(net, digits);
    return 100 * trainer.value(Net::val_accuracy).value();
  };
  double const noisy = train(NoisyGradients{noise}), plain = train(SingleDevice{cpu});
  std::printf("validation accuracy %.1f %%, without noise %.1f %%\n", noisy, plain);
} catch (std::exception const& error) { return example::failed(error); }
