// refused: [fulgurite.policy.state] this policy has members that the trainer's checkpoints would forget: add `void state(auto& archive)`, or `using Stateless = fulgurite::ByChoice`
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
struct Counts {
  using Backend = toy::Backend;
  static constexpr Known on_gpu = Known::no;
  static constexpr bool is_distributed = false, captures = false;
  long steps = 0;

  template <class M, class P>
  void setup(M&, P const&) {}
  template <class M>
  void teardown(M&) {}
  int device() const { return 0; }
  bool is_on_gpu() const { return false; }
  template <class B>
  B&& move(B&& batch) {
    return std::forward<B>(batch);
  }
  template <class B, class Board, class Body>
  auto gradients(StepKey, B& batch, Board&, Body&& body) {
    ++steps;
    return body(batch);
  }
  void backward(toy::Tensor& loss, double seed) { loss.backward(seed); }
  template <class O>
  void flush(O&, double) {}
  int rank() const { return 0; }
  int world() const { return 1; }
#ifdef LEGAL
  void state(auto& archive) { archive("steps", steps); }
#endif
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Counts{}, Float32{}, Automatic{}, Keeps{});
  trainer.fit(net, toy::batches(4));
}
