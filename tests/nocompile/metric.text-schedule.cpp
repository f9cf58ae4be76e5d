// refused: [fulgurite.metric.text] a metric is watched by the model's constant, not by its name as a text, and what ctx.log_dynamic logs cannot be watched: declare `static constexpr Metric<"val/loss"> val_loss{}` and pass Net::val_loss
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/schedule/schedule.hpp>

using namespace fulgurite;

struct Net : toy::P {
#ifdef LEGAL
  auto configure_optimizers() {
    return scheduled(toy::Sgd{{ p }}, schedule::ReduceOnPlateau{loss});
  }
#else
  auto configure_optimizers() { return scheduled(toy::Sgd{{p}}, schedule::ReduceOnPlateau{"loss"}); }
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
