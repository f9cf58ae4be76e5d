// refused: [fulgurite.data.copied] combined(), named() and of_this_rank() take loaders over, and one that was passed by its name cannot be copied: write std::move(loader), or std::ref(loader) to borrow it
#include <toy.hpp>

#include <functional>

#include <fulgurite/data/combined.hpp>
#include <fulgurite/data/loader.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  toy::Tensor training_step(std::tuple<std::vector<double>, double>&, auto& ctx) {
    ctx.log(loss, -p, {.batch_size = 1});
    return -p;
  }
};

int main() {
  Net net;
  data::Loader samples{std::vector{1.0, 2.0}};
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
#ifdef LEGAL
  auto both = data::combined(std::ref(samples), toy::batches(4));
#else
  auto both = data::combined(samples, toy::batches(4));
#endif
  trainer.fit(net, both);
}
