// refused: [fulgurite.data.const] a loader or data module is changed by a run: pass a variable that is not const
#include <toy.hpp>

#include <fulgurite/data/loader.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Numbers {
  std::size_t size() const { return 4; }
  double get(std::size_t i) const { return static_cast<double>(i); }
};
struct Net : toy::P {
  toy::Tensor training_step(std::vector<double> const&) { return -p; }
};

int main() {
  Net net;
  data::Loader loader{Numbers{}, {.batch_size = 2}};
#ifdef LEGAL
  auto& given = loader;
#else
  auto const& given = loader;
#endif
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, given);
}
