// refused: [fulgurite.optimizer.copied] scheduled() and optimizers() take optimizers over, and one that was passed by its name cannot be copied: write std::move(optimizer)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Unique : toy::Sgd {
  explicit Unique(toy::Tensor const& p) : Sgd{{p}} {}
  Unique(Unique&&) = default;
};

struct Net : toy::P {
  void training_step(double, auto& ctx) { ctx.minimize(std::get<0>(ctx.optimizers()), -p); }
  auto configure_optimizers() {
    Unique sgd{p};
#ifdef LEGAL
    return optimizers(toy::Sgd{{ p }}, std::move(sgd));
#else
    return optimizers(toy::Sgd{{p}}, sgd);
#endif
  }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Manual{});
  trainer.fit(net, toy::batches(4));
}
