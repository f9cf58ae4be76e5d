// refused: [fulgurite.data.pointer] loaders and data modules are given as objects, not by pointer: pass *loader
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

#include <memory>

int main() {
  toy::P net;
  auto loader = std::make_unique<std::vector<double>>(toy::batches(4));
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
#ifdef LEGAL
  trainer.fit(net, *loader);
#else
  trainer.fit(net, loader);
#endif
}
