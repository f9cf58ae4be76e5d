// refused: [fulgurite.data.state] the trainer's checkpoints would forget where this loader was: add `resume_at(long batch)` or `state(auto& archive)`; or `using Stateless = fulgurite::ByChoice`, and it is read from its beginning
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
/// Batches are made on the way, others in each pass.
struct Stream {
#ifdef LEGAL
  using Stateless = ByChoice;
#endif
  struct Iterator {
    using difference_type = std::ptrdiff_t;
    using value_type = double;
    long* at;
    double operator*() const { return static_cast<double>(*at); }
    Iterator& operator++() { return ++*at, *this; }
    void operator++(int) { ++*at; }
    bool operator==(std::default_sentinel_t) const { return *at % 5 == 4; }
  };
  long at = 0;
  Iterator begin() { return {&at}; }
  std::default_sentinel_t end() const { return {}; }
};

struct Validated : toy::P {
  void validation_step(double) {}
};

int main() {
  Validated net;
  Stream stream;
  auto trainer =
      make_trainer<Validated>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Keeps{});
  trainer.fit(net, toy::batches(4), stream);
}
