// refused: [fulgurite.optimizer.copied] scheduled() and optimizers() take optimizers over, and one that was passed by its name cannot be copied: write std::move(optimizer)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Unique : toy::Sgd {
  explicit Unique(toy::Tensor const& p) : Sgd{{p}} {}
  Unique(Unique&&) = default;
};

struct Net : toy::P {
  auto configure_optimizers() {
    Unique sgd{p};
    auto const schedule = [](long moves) { return 1.0 / static_cast<double>(1 + moves); };
#ifdef LEGAL
    return scheduled(std::move(sgd), schedule);
#else
    return scheduled(sgd, schedule);
#endif
  }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
