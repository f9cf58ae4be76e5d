// A variational autoencoder: an encoder makes of each digit a normal distribution over a few numbers, a decoder draws
// the digit again from a sample of it, and then new digits from samples of the prior.
//   vae
// Prints the evidence lower bound (ELBO) of the validation digits in nats, with its two parts, and three new digits.

#include <cstdio>
#include <string>

#include <fulgurite/fulgurite.hpp>

#include "helpers/arguments.hpp"
#include "helpers/digits.hpp"

namespace nn = torch::nn;
namespace F = torch::nn::functional;
using namespace fulgurite;

struct Vae : nn::Module {
  static constexpr Metric<"train/elbo"> train_elbo{.prog_bar = true};
  static constexpr Metric<"val/elbo"> val_elbo{.prog_bar = true};
  static constexpr Metric<"val/reconstruction"> reconstruction{};
  static constexpr Metric<"val/divergence"> divergence{};
  using Metrics = MetricList<train_elbo, val_elbo, reconstruction, divergence>;

  long side, latent;
  nn::Sequential encoder, decoder;
  Vae(long pixels, long dimensions)
      : side(pixels),
        latent(dimensions),
        encoder(register_module("encoder", nn::Sequential(nn::Flatten(), nn::Linear(side * side, 256), nn::ReLU(),
                                                          nn::Linear(256, 2 * latent)))),
        decoder(register_module("decoder",
                                nn::Sequential(nn::Linear(latent, 256), nn::ReLU(), nn::Linear(256, side * side)))) {}

  struct Parts {
    torch::Tensor reconstruction, divergence;  // their difference is the ELBO, a mean over the batch
  };
  Parts parts(torch::Tensor const& images) {
    auto const code = encoder->forward(images).chunk(2, 1);
    auto const &mean = code[0], &log_variance = code[1];
    auto const sample = mean + torch::randn_like(mean) * (log_variance / 2).exp();
    auto const rows = static_cast<double>(images.size(0));
    auto const error =
        F::binary_cross_entropy_with_logits(decoder->forward(sample), images.flatten(1),
                                            F::BinaryCrossEntropyWithLogitsFuncOptions().reduction(torch::kSum));
    return {-error / rows, (mean.square() + log_variance.exp() - 1 - log_variance).sum() / (2 * rows)};
  }

  torch::Tensor training_step(auto const& batch, auto& ctx) {
    auto const [drawn, distance] = parts(batch.data);
    ctx.log(train_elbo, drawn - distance);
    return distance - drawn;
  }
  void validation_step(auto const& batch, auto& ctx) {
    auto const [drawn, distance] = parts(batch.data);
    ctx.log(val_elbo, drawn - distance);
    ctx.log(reconstruction, drawn);
    ctx.log(divergence, distance);
  }
  auto configure_optimizers() { return optim::Adam(*this, {.lr = 2e-3}); }

  torch::Tensor draw(long count) {
    torch::NoGradGuard const no_graph;
    return decoder->forward(torch::randn({count, latent})).sigmoid().view({count, side, side});
  }
};

/// Shows images beside each other. A character is about twice as high as wide, so every second row is left out.
void show(torch::Tensor const& images) {
  for (long y = 0; y < images.size(1); y += images.size(1) > 8 ? 2 : 1) {
    for (long i = 0; i != images.size(0); ++i)
      for (long x = 0; x != images.size(2); ++x)
        std::putchar(" .:-=+*#%@"[static_cast<int>(9.99 * images[i][y][x].item<double>())]);
    std::putchar('\n');
  }
}

int main(int argc, char** argv) try {
  example::Arguments arguments(argc, argv, "Trains a variational autoencoder on handwritten digits, and lets it draw.");
  bool const fast = arguments.flag("--fast", "two epochs of 40 batches, to see that everything works");
  int const epochs = arguments.value("--epochs", 10, "passes over the digits");
  long const latent = arguments.value("--latent", 8L, "numbers of a digit's code");
  auto const seed = arguments.value<std::uint64_t>("--seed", 1, "of the weights, the samples and the order");
  auto const out = arguments.value<std::string>("--out", ".", "folder for the log and the weights");
  example::DigitSource const source(arguments);
  arguments.done();

  torch::set_num_threads(1);
  torch::manual_seed(seed);
  auto digits = source.load({.batch_size = 64, .seed = seed});
  Vae vae(digits.side, latent);
  auto trainer = make_trainer<Vae>(TrainerOptions{.max_epochs = fast ? 2 : epochs,
                                                  .limit_train_batches = fast ? Limit{40} : Limit{},
                                                  .default_root_dir = out},
                                   Signals{{.dirpath = out}});  // after Ctrl-C, the next run can resume
  trainer.fit(vae, digits.module);
  show(vae.draw(3));
  std::printf("validation ELBO %.1f nats: reconstruction %.1f, divergence %.1f\n", trainer.value(Vae::val_elbo).value(),
              trainer.value(Vae::reconstruction).value(), trainer.value(Vae::divergence).value());
} catch (std::exception const& error) { return example::failed(error); }
