// refused: [fulgurite.callback.no_such_option] a name, or the type of a value, is none of this class's options: those of ProgressBar{{.leave = true}} are the members of ProgressBarOptions, and so for each class
// g++: [with options_are_named_as_in = fulgurite::CSVLoggerOptions]
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
