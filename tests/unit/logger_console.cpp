#include <fulgurite/logger/console_logger.hpp>

#include "callback_run.hpp"
#include "callback_stream.hpp"
#include "models.hpp"

using namespace fulgurite;

namespace {
std::string printed(long every_n_steps, int epochs = 2) {
  Stream stream;
  Scripted model{.script = {5, 4}};
  auto options = quick(epochs);
  options.log_every_n_steps = 2;
  fitted(model, options, 4, ConsoleLogger{{.every_n_steps = every_n_steps, .stream = stream.file}});
  return stream.all();
}
}  // namespace

TEST_CASE("console: a line for each row") {
  CHECK(printed(0) == "epoch 0, step 1: loss 1.000\n"
                      "epoch 0, step 3: loss 3.000\n"
                      "epoch 0, step 3: vl 5.000, val/acc 0.250\n"
                      "epoch 1, step 5: loss 1.000\n"
                      "epoch 1, step 7: loss 3.000\n"
                      "epoch 1, step 7: vl 4.000, val/acc 0.250\n");
}

TEST_CASE("console: a line every so many steps, with the step of what is older") {
  CHECK(printed(4) == "epoch 0, step 1: loss 1.000\n"
                      "epoch 1, step 5: loss 1.000, vl 5.000 (step 3), val/acc 0.250 (step 3)\n"
                      "epoch 1, step 7: loss 3.000, vl 4.000, val/acc 0.250\n");
  CHECK(printed(1000) == "epoch 0, step 1: loss 1.000\n"
                         "epoch 1, step 7: loss 3.000, vl 4.000, val/acc 0.250\n");
}

TEST_CASE("console: a line an epoch") {
  CHECK(printed(-1) == "epoch 0, step 3: loss 3.000, vl 5.000, val/acc 0.250\n"
                       "epoch 1, step 7: loss 3.000, vl 4.000, val/acc 0.250\n");
}

TEST_CASE("console: results of a validation alone, and the options that it refuses") {
  Stream stream;
  Scripted model{.script = {5}};
  auto trainer = make_trainer<Scripted>(quick(1), SavingDevice{}, Float32{}, Automatic{},
                                        ConsoleLogger{{.every_n_steps = -1, .stream = stream.file}});
  trainer.validate(model, toy::batches(1));
  CHECK(stream.take().ends_with("step 0: vl 5.000, val/acc 0.250\n"));
  CHECK(toy::refusal([] { ConsoleLogger{{.every_n_steps = -2}}; }) == "fulgurite.logger.console_steps");
  CHECK(toy::refusal([] { ConsoleLogger{{.stream = nullptr}}; }) == "fulgurite.logger.console_stream");
}
