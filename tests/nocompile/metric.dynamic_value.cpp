// refused: [fulgurite.metric.dynamic_value] ctx.log_dynamic takes a number, since a tensor would have to be waited for: pass tensor.item<double>(), and do it seldom
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  void on_train_epoch_end(auto& ctx) {
#ifdef LEGAL
    ctx.log_dynamic("norm", 1.0);
#else
    ctx.log_dynamic("norm", toy::Tensor(1.0));
#endif
  }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
