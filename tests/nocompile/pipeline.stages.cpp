// refused: [fulgurite.pipeline.stages] this strategy runs a part of the model in each process, and the model does not name its parts: add `auto& stages()` that returns its torch::nn::Sequential, Chain, or tuple of modules, and call through_stages(*this, x) in its steps
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Split : toy::Several {
  template <class Model>
#ifdef LEGAL
  static constexpr bool splits = true;
#else
  static constexpr bool splits = requires(Model& model) { model.stages(); };
  static constexpr bool splits_model = true;
#endif
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Split{}, Float32{}, Automatic{});
  trainer.fit(net, toy::OwnPart<double>{toy::batches(4)});
}
