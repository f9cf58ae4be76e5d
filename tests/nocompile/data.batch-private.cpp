// refused: [fulgurite.data.batch] training_step cannot be called with the loader's batch: write training_step(auto const& batch, auto& ctx), public; indices are ctx.batch_idx() and ctx.loader()
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

class Net : public toy::P {
#ifdef LEGAL
 public:
#else
 private:
#endif
  toy::Tensor training_step(double) { return -p; }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
