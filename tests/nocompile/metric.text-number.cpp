// refused: [fulgurite.metric.text] a metric is watched by the model's constant, not by its name as a text, and what ctx.log_dynamic logs cannot be watched: declare `static constexpr Metric<"val/loss"> val_loss{}` and pass Net::val_loss
#include <toy.hpp>

#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  EarlyStopping callback{toy::P::loss, {.patience = 3}};
#else
  EarlyStopping callback{"loss", 3};
#endif
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, callback);
  trainer.fit(net, toy::batches(4));
}
