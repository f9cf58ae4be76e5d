// refused: [fulgurite.callback.needs_logger] a callback writes to the loggers, and there is none: add CSVLogger{}
#include <toy.hpp>

#include <fulgurite/callback/learning_rate_monitor.hpp>
#include <fulgurite/logger/csv_logger.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{},
                                      LearningRateMonitor{}, CSVLogger{"logs"});
#else
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{},
                                      LearningRateMonitor{});
#endif
  trainer.fit(net, toy::batches(4));
}
