// refused: [fulgurite.model.foreign_hook] before_save is never asked of a model: move it to a callback
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Saves {
  void before_save(auto&) {}
};
#ifdef LEGAL
struct Net : toy::P {};
#else
struct Net : toy::P, Saves {};
#endif

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Saves{});
  trainer.fit(net, toy::batches(4));
}
