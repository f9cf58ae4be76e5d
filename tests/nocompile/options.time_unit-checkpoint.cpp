// refused: [fulgurite.options.time_unit] a number alone has no unit: write std::chrono::seconds{60}, or "00:00:01:00" (days, hours, minutes, seconds)
#include <toy.hpp>

#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  ModelCheckpoint callback{{.train_time_interval = std::chrono::seconds{600}}};
#else
  ModelCheckpoint callback{{.train_time_interval = 600}};
#endif
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, callback);
  trainer.fit(net, toy::batches(4));
}
