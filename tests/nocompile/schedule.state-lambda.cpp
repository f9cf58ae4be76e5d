// refused: [fulgurite.schedule.state] a schedule changes when it is asked, and the trainer's checkpoints would forget that: add `void state(auto& archive)`, or make its operator() const
#include <filesystem>
#include <vector>

#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

/// A callback that leaves files.
struct Keeps {
  using Stateless = ByChoice;
  void on_train_start() {}
  std::vector<std::filesystem::path> last_checkpoints() const { return {}; }
};
struct Net {
  toy::Tensor p = toy::Tensor::parameter(0.0);
  toy::Tensor training_step(double) { return -p; }
  auto configure_optimizers() {
#ifdef LEGAL
    return scheduled(toy::Sgd{{p}}, [base = 0.9](long moves) { return base / static_cast<double>(1 + moves); });
#else
    return scheduled(toy::Sgd{{p}}, [factor = 1.0](long) mutable { return factor *= 0.9; });
#endif
  }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Keeps{});
  trainer.fit(net, toy::batches(4));
}
