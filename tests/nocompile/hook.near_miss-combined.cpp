// refused: [fulgurite.hook.near_miss] resumeAt is not a hook and would never be called: use resume_at
#include <toy.hpp>

#include <fulgurite/data/combined.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Numbers : toy::Unsized {
  using toy::Unsized::Unsized;
#ifdef LEGAL
  void resume_at(long) {}
#else
  void resumeAt(long) {}
#endif
};

struct Net : toy::P {
  toy::Tensor training_step(std::tuple<double>&) { return -p; }
};

int main() {
  Net net;
  Numbers numbers{4};
  auto named = data::named<"numbers">(std::ref(numbers));
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, data::combined<data::CombineMode::min_size>(std::ref(named)));
}
