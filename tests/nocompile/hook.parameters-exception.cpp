// refused: [fulgurite.hook.parameters] on_exception cannot be called: make it a public function, on_exception(std::exception const& error, auto& ctx)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Watcher {
#ifdef LEGAL
  void on_exception(std::exception const&, auto&) {}
#else
  void on_exception(int, auto&) {}
#endif
};

int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Watcher{});
  trainer.fit(net, toy::batches(4));
}
