// fit of the null model that logs one value a step, on the host: what a logged scalar costs the step's thread (P8).

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string_view>
#include <utility>

#include <fulgurite/loop/trainer.hpp>

#include "null.hpp"
#include "program.hpp"

namespace null {

struct Silent {
  Value training_step(long batch, auto&) { return work(batch); }
  Optimizer configure_optimizers() { return {}; }
};

struct Logging {
  static constexpr fulgurite::Metric<"loss"> train_loss{};
  using Metrics = fulgurite::MetricList<train_loss>;
  Value training_step(long batch, auto& ctx) {
    auto loss = work(batch);
    ctx.log(train_loss, loss);
    return loss;
  }
  Optimizer configure_optimizers() { return {}; }
};

template <class Model>
int train(long steps) {
  Model model;
  auto trainer = fulgurite::make_trainer<Model>(fulgurite::TrainerOptions{.max_epochs = 1}, Device{},
                                                fulgurite::Float32{}, fulgurite::Automatic{});
  Count batches(steps);
  trainer.fit(model, batches);
  return report(steps, trainer.progress().global_step);
}

template <class Model>
double nanoseconds(long steps) {
  auto const began = std::chrono::steady_clock::now();
  train<Model>(steps);
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - began).count() /
         static_cast<double>(steps);
}

/// The two alternate, since a machine's clock rate wanders; the least of each is what it can do.
int time_both() {
  double silent = nanoseconds<Silent>(1'000'000), logging = nanoseconds<Logging>(1'000'000);
  for (int round = 0; round != 30; ++round) {
    silent = std::min(silent, nanoseconds<Silent>(1'000'000));
    logging = std::min(logging, nanoseconds<Logging>(1'000'000));
  }
  return std::printf("a step %.2f ns, with one logged scalar %.2f ns: %.2f ns for it\n", silent, logging,
                     logging - silent) < 0;
}

}  // namespace null

/// `null_logged time` prints nanoseconds; else it takes its steps, to be counted.
int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "time") return null::time_both();
  return null::train<null::Logging>(steps_of(argc, argv));
}
