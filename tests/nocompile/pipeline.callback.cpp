// refused: [fulgurite.pipeline.callback] a callback reads the weights or gradients of the whole model, and with this strategy each process has those of its own stages: leave the callback out, or use DistributedDataParallel
#include <toy.hpp>

#include <fulgurite/callback/learning_rate_monitor.hpp>
#include <fulgurite/logger/csv_logger.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Split : toy::Several {
#ifndef LEGAL
  static constexpr bool splits_model = true;
  template <class Model>
  static constexpr bool splits = true;
  template <class Optimizer>
  static constexpr bool gathers = true;
#endif
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Split{}, Float32{}, Automatic{}, GradientNorm{},
                                      CSVLogger{"."});
  trainer.fit(net, toy::OwnPart<double>{toy::batches(4)});
}
