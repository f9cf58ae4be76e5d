// refused: [fulgurite.context.manual_only] only a manual training_step has ctx.step: return the loss, or use Manual{}
#include <toy.hpp>

#include <fulgurite/loop/run_context.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Watcher {
#ifdef LEGAL
  void on_train_batch_end(auto&) {}
#else
  void on_train_batch_end(auto& ctx) { ctx.step(std::get<0>(ctx.optimizers())); }
#endif
};

int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Watcher{});
  trainer.fit(net, toy::batches(4));
}
