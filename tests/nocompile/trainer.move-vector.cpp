// refused: [fulgurite.trainer.move] a trainer stays where it was made, since its callbacks and runs refer to it: return make_trainer<Net>(...) itself, or keep `new auto(make_trainer<Net>(...))` in a std::unique_ptr
#include <memory>

#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

auto made() { return make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}); }

int main() {
  toy::P net;
#ifdef LEGAL
  std::vector<std::unique_ptr<decltype(made())>> trainers;
  trainers.emplace_back(new auto(made()));
#else
  std::vector<decltype(made())> trainers;
  trainers.push_back(made());
#endif
}
