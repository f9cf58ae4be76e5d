// refused: [fulgurite.data.loader_twice] two evaluation loaders have the same name, so their metrics would be one: give each its own
#include <toy.hpp>

#include <fulgurite/data/combined.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  void test_step(double) {}
  double predict_step(double batch) { return batch; }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{}, toy::Device{}, Float32{}, Automatic{});
#ifdef LEGAL
  trainer.test(net, std::tuple(data::named<"clean">(toy::batches(4)), data::named<"noisy">(toy::batches(2))));
#else
  trainer.test(net, std::tuple(data::named<"clean">(toy::batches(4)), data::named<"clean">(toy::batches(2))));
#endif
}
