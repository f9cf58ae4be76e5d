// refused: [fulgurite.data.state_of_part] the trainer's checkpoints would forget where one of these combined loaders was: add `resume_at(long batch)` to it; or `using Stateless = fulgurite::ByChoice`, and it is read from its beginning
#include <filesystem>
#include <vector>

#include <toy.hpp>

#include <fulgurite/data/combined.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

/// A callback that leaves files.
struct Keeps {
  using Stateless = ByChoice;
  void on_train_start() {}
  std::vector<std::filesystem::path> last_checkpoints() const { return {}; }
};
/// Batches are made on the way.
struct Stream {
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
#ifdef LEGAL
  void resume_at(long batch) { at = at / 5 * 5 + batch; }
#else
  void state(auto& archive) { archive("at", at); }
#endif
};

struct Net : toy::P {
  toy::Tensor training_step(std::tuple<double, double>&) { return -p; }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Keeps{});
  trainer.fit(net, data::combined<data::CombineMode::min_size>(toy::batches(4), Stream{}));
}
