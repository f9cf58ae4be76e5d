// refused: [fulgurite.callback.no_such_option] this class has no such option, or its value has another type: the options of ProgressBar{{.leave = true}} are the members of ProgressBarOptions, and likewise for other classes
// g++: [with fulgurite_callback_no_such_option_of = fulgurite::CSVLoggerOptions]
#include <toy.hpp>

#include <fulgurite/logger/csv_logger.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  CSVLogger callback{"logs", {.name = "mlp"}};
#else
  CSVLogger callback{"logs", {.run_name = "mlp"}};
#endif
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, std::move(callback));
  trainer.fit(net, toy::batches(4));
}
