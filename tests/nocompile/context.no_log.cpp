// refused: [fulgurite.context.no_log] ctx.log does not work here: log in a step, or in a hook of training, validation or test
#include <toy.hpp>

#include <fulgurite/loop/run_context.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Watcher {
#ifdef LEGAL
  void on_train_epoch_start(auto& ctx) { ctx.log(toy::P::loss, 1.0); }
#else
  void on_fit_start(auto& ctx) { ctx.log(toy::P::loss, 1.0); }
#endif
};

int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Watcher{});
  trainer.fit(net, toy::batches(4));
}
