// refused: [fulgurite.data.batch] validation_step cannot be called with the loader's batch: write validation_step(auto const& batch, auto& ctx), public; indices are ctx.batch_idx() and ctx.loader()
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
#ifdef LEGAL
  void validation_step(double, auto& ctx) { seen.push_back(static_cast<double>(ctx.loader())); }
#else
  void validation_step(double, long batch_idx, long dataloader_idx) {
    seen.push_back(double(batch_idx + dataloader_idx));
  }
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4), std::tuple(toy::batches(2), toy::batches(2)));
}
