// refused: [fulgurite.schedule.interval] an interval is a constant, not a text: write Interval::step or Interval::epoch
#include <toy.hpp>

#include <fulgurite/callback/learning_rate_monitor.hpp>
#include <fulgurite/logger/csv_logger.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  LearningRateMonitor callback{{.logging_interval = Interval::epoch}};
#else
  LearningRateMonitor callback{{.logging_interval = "epoch"}};
#endif
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{},
                                      std::move(callback), CSVLogger{"logs"});
  trainer.fit(net, toy::batches(4));
}
