// Finds the best of 64 learning rates and widths of a small network on handwritten digits: all of them are trained in
// one process, several at a time, with captured steps, and the worse half ends early, twice.
//   sweep --epochs 9
// Prints a table of the best, and leaves sweep.csv with all, and sweep.svg with their curves.

#include <chrono>
#include <ctime>
#include <filesystem>
#include <vector>

#include <fulgurite/fulgurite.hpp>

#include "helpers/arguments.hpp"
#include "helpers/digits.hpp"

namespace nn = torch::nn;
namespace F = torch::nn::functional;
using namespace fulgurite;

struct Setting {
  double rate = 1e-3;
  long width = 64;
};

struct Mlp : nn::Module {
  static constexpr Metric<"val/accuracy"> val_accuracy{};
  using Metrics = MetricList<val_accuracy>;

  Setting setting;
  nn::Sequential body;
  Mlp(Setting const& s, long pixels)
      : setting(s),
        body(register_module("body", nn::Sequential(nn::Flatten(), nn::Linear(pixels, s.width), nn::ReLU(),
                                                    nn::Dropout(0.1), nn::Linear(s.width, 10)))) {}
  torch::Tensor forward(torch::Tensor const& x) { return body->forward(x); }

  torch::Tensor training_step(auto const& batch) { return F::cross_entropy(forward(batch.data), batch.target); }
  void validation_step(auto const& batch, auto& ctx) {
    ctx.log(val_accuracy, (forward(batch.data).argmax(1) == batch.target).to(torch::kFloat).mean());
  }
  auto configure_optimizers() { return optim::Adam(*this, {.lr = setting.rate}); }
};

int main(int argc, char** argv) try {
  example::Arguments arguments(argc, argv, "Finds the best of 64 learning rates and widths of a small network.");
  bool const fast = arguments.flag("--fast", "4 members of one epoch, to see that everything works");
  bool const whole = arguments.flag("--whole", "train all members to the end, instead of the better half at rungs");
  int const epochs = fast ? 1 : arguments.value("--epochs", 9, "passes over the training images");
  int const threads = arguments.value("--threads", 0, "members that train at a time; 0: one on each core");
  auto const seed = arguments.value<std::uint64_t>("--seed", 1, "of the weights, the split, the order and the dropout");
  auto const out = arguments.value<std::string>("--out", ".", "folder for sweep.csv and sweep.svg");
  example::DigitSource const source(arguments);
  arguments.done();

  auto const digits = source.load({.batch_size = 64, .seed = seed});
  long const pixels = digits.side * digits.side;
  auto const space = tune::draws({.count = fast ? 4 : 64, .seed = seed}, tune::log_uniform<&Setting::rate>(1e-4, 1e-1),
                                 tune::log_uniform<&Setting::width>(8, 256));
  auto const make = [&](Setting const& setting, auto probe) {
    return tune::Member{Mlp(setting, pixels),
                        make_trainer<Mlp>(TrainerOptions{.max_epochs = epochs, .num_sanity_val_steps = 0},
                                          Captured{SingleDevice{cpu}}, NoDefaults{}, probe),
                        digits.module};
  };
  tune::SweepOptions const options{.mode = Mode::max,
                                   .rungs = whole || epochs < 4 ? std::vector<int>{} : std::vector{1, 3},
                                   .threads = threads,
                                   .seed = seed};

  auto const began = std::chrono::steady_clock::now();
  auto const worked = std::clock();
  auto results = tune::sweep(make, space, Mlp::val_accuracy, options);
  std::chrono::duration<double> const took = std::chrono::steady_clock::now() - began;

  double const processor = static_cast<double>(std::clock() - worked) / CLOCKS_PER_SEC;

  std::printf("%s", results.table(10).c_str());
  if (results.signal() != 0) throw Interrupted(results.signal());
  std::filesystem::path const folder = out;
  results.save_csv(folder / "sweep.csv");
  results.plot().save(folder / "sweep.svg");
  long trained = 0;
  for (auto const& row : results.rows()) trained += row.epochs();
  std::printf("%zu members, %ld epochs in %.1f s, %.1f of processors; all of them are in %s, their curves in %s\n",
              space.settings.size(), trained, took.count(), processor, (folder / "sweep.csv").c_str(),
              (folder / "sweep.svg").c_str());

  auto module = digits.module;
  results.trainer().validate(results.model(), module);
  double const again = results.trainer().value(Mlp::val_accuracy).value();
  std::printf("the best: rate %.3g, width %ld, validation accuracy %.2f %%; its model again: %.2f %%, %s\n",
              results.setting().rate, results.setting().width, 100 * *results.best().value, 100 * again,
              again == *results.best().value ? "exactly the same" : "NOT THE SAME");
  if (again != *results.best().value) throw std::runtime_error("the best member is not the one in the table");
} catch (std::exception const& error) { return example::failed(error); }
