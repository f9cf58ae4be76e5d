// refused: [fulgurite.callback.one_eval_loader] this callback tries evaluation on one loader, and several were given: pass one, or leave it out
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  void test_step(double) {}
  double predict_step(double batch) { return batch; }
};
struct Search {
  static constexpr bool needs_one_eval_loader = true;
  void on_test_start() {}
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{}, toy::Device{}, Float32{}, Automatic{}, Search{});
#ifdef LEGAL
  trainer.test(net, toy::batches(4));
#else
  trainer.test(net, std::tuple(toy::batches(4), toy::batches(2)));
#endif
}
