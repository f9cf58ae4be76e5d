// refused: [fulgurite.data.combined_predict] predict takes loaders one after the other: pass them as a std::tuple instead of combining them
#include <toy.hpp>

#include <fulgurite/data/combined.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  double predict_step(double batch) { return batch; }
  double predict_step(std::tuple<double, double> const& batch) { return std::get<0>(batch); }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{}, toy::Device{}, Float32{}, Automatic{});
#ifdef LEGAL
  trainer.predict(net, std::tuple(toy::batches(4), toy::batches(2)));
#else
  trainer.predict(net, data::combined(toy::batches(4), toy::batches(2)));
#endif
}
