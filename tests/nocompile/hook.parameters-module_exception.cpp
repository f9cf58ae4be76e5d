// refused: [fulgurite.hook.parameters] on_exception cannot be called: make it a public function, on_exception(std::exception const& error, auto& ctx)
#include <stdexcept>

#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

/// A data module.
struct Data {
  auto train_dataloader() { return toy::batches(4); }
#ifdef LEGAL
  void on_exception(std::exception const&, auto&) {}
#else
  void on_exception(std::runtime_error const&) {}
#endif
};

int main() {
  toy::P net;
  Data data;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, data);
}
