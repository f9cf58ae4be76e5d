// Two networks against each other: one draws digits, the other distinguishes drawn from real ones. Each has an
// optimizer of its own, and both are stepped by hand, with `Manual{}`.
//   gan --out pictures
// Leaves a picture of 64 digits every few epochs, drawn from the same points, which shows how far the first has come.

#include <fulgurite/fulgurite.hpp>

#include "helpers/arguments.hpp"
#include "helpers/digits.hpp"
#include "helpers/picture.hpp"

namespace nn = torch::nn;
namespace F = torch::nn::functional;
using namespace fulgurite;

struct Gan : nn::Module {
  static constexpr Metric<"loss/generator"> g_loss{.prog_bar = true};
  static constexpr Metric<"loss/discriminator"> d_loss{.prog_bar = true};
  using Metrics = MetricList<g_loss, d_loss>;
  static constexpr long latent = 64;

  nn::Sequential g = register_module(
      "g",
      nn::Sequential(nn::Linear(nn::LinearOptions(latent, 64 * 7 * 7).bias(false)),
                     nn::Unflatten(nn::UnflattenOptions(1, {64, 7, 7})), nn::BatchNorm2d(64), nn::ReLU(),
                     nn::ConvTranspose2d(nn::ConvTranspose2dOptions(64, 32, 4).stride(2).padding(1).bias(false)),
                     nn::BatchNorm2d(32), nn::ReLU(),
                     nn::ConvTranspose2d(nn::ConvTranspose2dOptions(32, 1, 4).stride(2).padding(1)), nn::Sigmoid()));
  nn::Sequential d = register_module("d", nn::Sequential(nn::Conv2d(nn::Conv2dOptions(1, 32, 4).stride(2).padding(1)),
                                                         nn::LeakyReLU(nn::LeakyReLUOptions().negative_slope(0.2)),
                                                         nn::Conv2d(nn::Conv2dOptions(32, 64, 4).stride(2).padding(1)),
                                                         nn::LeakyReLU(nn::LeakyReLUOptions().negative_slope(0.2)),
                                                         nn::Dropout(0.3), nn::Flatten(), nn::Linear(64 * 7 * 7, 1)));

  auto configure_optimizers() {
    auto const adam = [](auto& net) {
      return torch::optim::Adam(net->parameters(), torch::optim::AdamOptions(5e-4).betas({0.5, 0.999}));
    };
    return optimizers(adam(g), adam(d));
  }

  void training_step(auto const& batch, auto& ctx) {  // void: manual optimization
    auto& [opt_g, opt_d] = ctx.optimizers();
    auto const judged = [&](torch::Tensor const& images, double truth) {
      auto const verdict = d->forward(images);
      return F::binary_cross_entropy_with_logits(verdict, torch::full_like(verdict, truth));
    };
    auto const fake = g->forward(torch::randn({batch.data.size(0), latent}, batch.data.options()));

    auto const dl = judged(batch.data, 0.9) + judged(fake.detach(), 0.0);
    ctx.minimize(opt_d, dl);  // toggle, clear, backward, step
    ctx.log(d_loss, dl);

    auto const gl = judged(fake, 1.0);
    ctx.minimize(opt_g, gl);
    ctx.log(g_loss, gl);
  }
};

/// Saves what the generator makes of the same 64 points of its latent space, every so many epochs.
struct Album {
  using Hooks = Implements<hook::on_train_epoch_end>;
  using Stateless = ByChoice;
  std::filesystem::path folder;
  int every;
  torch::Tensor points = torch::randn({64, Gan::latent});

  void on_train_epoch_end(auto& ctx) {
    int const epoch = ctx.current_epoch() + 1;
    if (epoch % every != 0 && epoch != ctx.options().max_epochs) return;
    torch::NoGradGuard const no_grad;
    auto& g = ctx.model().g;
    g->eval();
    torch::Tensor const images = g->forward(points.to(ctx.device())).cpu().contiguous();
    g->train();
    char name[32];
    std::snprintf(name, sizeof name, "gan-epoch-%03d.png", epoch);
    example::write_png(folder / name,
                       example::grid({images.data_ptr<float>(), static_cast<std::size_t>(images.numel())}, 28, 28, 8));
  }
};

int main(int argc, char** argv) try {
  example::Arguments arguments(argc, argv, "Trains a generator of handwritten digits against a discriminator.");
  bool const fast = arguments.flag("--fast", "ten batches, to see that everything works");
  int const epochs = arguments.value("--epochs", 20, "passes over the images");
  int const every = arguments.value("--every", 5, "epochs from one picture to the next");
  int const threads = arguments.value("--threads", 1, "of the CPU");
  auto const seed = arguments.value<std::uint64_t>("--seed", 1, "of weights, noise and order");
  std::filesystem::path const out =
      arguments.value<std::string>("--out", "lightning_logs/gan", "folder for the pictures");
  example::DigitSource const source(arguments, false);  // the generator paints 28 x 28
  arguments.done();

  torch::set_num_threads(threads);
  torch::manual_seed(seed);
  std::filesystem::create_directories(out);
  auto digits = source.load({.validation = 0, .batch_size = 64, .seed = seed, .drop_last = true});
  Gan gan;
  auto trainer = make_trainer<Gan>(
      TrainerOptions{.max_epochs = fast ? 1 : epochs, .limit_train_batches = fast ? Limit{10} : Limit{}}, Manual{},
      Album{out, every}, Signals{{.dirpath = out}});  // after Ctrl-C, the next run can resume
  trainer.fit(gan, digits.module.train_dataloader());
  std::printf("the pictures are in %s\n", out.c_str());
} catch (std::exception const& error) { return example::failed(error); }
