// refused: [fulgurite.callback.dirpath] OnExceptionCheckpoint's folder is an option: OnExceptionCheckpoint{{.dirpath = "runs"}}
#include <toy.hpp>

#include <fulgurite/callback/signals.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  OnExceptionCheckpoint callback{{.dirpath = "runs"}};
#else
  OnExceptionCheckpoint callback{"runs"};
#endif
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, callback);
  trainer.fit(net, toy::batches(4));
}
