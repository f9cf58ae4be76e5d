// refused: [fulgurite.logger.save_dir] the folder is the first argument of a logger, before the options: CSVLogger{"logs", {.name = "mlp"}}
#include <toy.hpp>

#include <fulgurite/logger/csv_logger.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  CSVLogger callback{"logs", {.name = "mlp"}};
#else
  CSVLogger callback{{.name = "mlp", .save_dir = "logs"}};
#endif
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, std::move(callback));
  trainer.fit(net, toy::batches(4));
}
