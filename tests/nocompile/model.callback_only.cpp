// refused: [fulgurite.model.callback_only] before_save, after_save and before_statistics_pass are asked of callbacks alone, and the model has one of them: move it to a callback
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
