// refused: [fulgurite.callback.single_process] a callback searches by trial, and processes would find different answers: search with SingleDevice first, then train with what was found
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Many : toy::Device {
#ifndef LEGAL
  static constexpr bool is_distributed = true;
#endif
};
/// Finds the largest batch that fits.
struct Search {
  static constexpr bool needs_single_process = true;
  void on_fit_start() {}
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Many{}, Float32{}, Automatic{}, Search{});
  trainer.fit(net, toy::batches(4));
}
