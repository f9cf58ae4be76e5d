// refused: [fulgurite.trainer.ckpt_path] the file to resume from is the last argument of a call, and no option: write trainer.fit(model, data, CkptPath{"last"})
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  void test_step(double, auto&) {}
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
#ifdef LEGAL
  trainer.test(net, toy::batches(4), {});
#else
  trainer.test(net, toy::batches(4), {.ckpt_path = "best"});
#endif
}
