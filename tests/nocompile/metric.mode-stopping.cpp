// refused: [fulgurite.metric.mode] which way a metric gets better is a constant, not a text: write .mode = Mode::max or .mode = Mode::min
#include <toy.hpp>

#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  EarlyStopping callback{toy::P::loss, {.mode = Mode::min}};
#else
  EarlyStopping callback{toy::P::loss, {.mode = "min"}};
#endif
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, callback);
  trainer.fit(net, toy::batches(4));
}
