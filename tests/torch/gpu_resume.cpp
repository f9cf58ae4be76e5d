// Fits on a GPU that are stopped and gone on with: the same bits, random numbers of the GPU among them; and files that
// were written on a GPU, on the CPU.

#include "gpu.hpp"
#include "resumed.hpp"

#include <filesystem>
#include <optional>
#include <string>

using namespace gpu;
using namespace resumed;

namespace {

/// How many of the files of a fit do not lead to its end, and how many there are.
template <class Make, class Precision, class Source>
Wrong wrong_fits(Make strategy, Precision precision, Source const& loader) {
  auto const make = [&](Watches const& watching) {
    return make_trainer<Ours>(TrainerOptions{.max_epochs = 3, .val_check_interval = 4, .log_every_n_steps = 1},
                              strategy(), precision, Automatic{.accumulate_grad_batches = 3, .clip = ClipNorm{0.5}},
                              EMAWeightAveraging(), watching, NoDefaults{});
  };
  auto const fit = [&](auto& trainer, auto& net, auto const& file) {
    auto const validation = batches(1, 5);
    auto train = loader();
    trainer.fit(net, train, validation, file);
  };
  return wrong_files(
      [&](Watches const& watches, std::optional<CkptPath> const& from) { return run<Ours>(watches, from, make, fit); },
      decltype(strategy())::captures);
}

auto rows() { return std::pair(torch::linspace(-2, 2, 33 * 6).reshape({33, 6}).sin(), torch::arange(33) % 3); }
/// 7 batches an epoch, so that the last window has one.
auto gathered() {
  auto const [x, y] = rows();
  return data::TensorLoader{x, y, {.batch_size = 5, .shuffle = true, .seed = 3}};
}
auto on_device() {
  auto const [x, y] = rows();
  return data::TensorLoader{x.cuda(), y.cuda(), {.batch_size = 5, .shuffle = true, .seed = 3}};
}
auto pinned() {
  auto const [x, y] = rows();
  return data::TensorLoader{x, y, {.batch_size = 5, .shuffle = true, .seed = 3, .pin_memory = true}};
}

auto const none_wrong = Wrong(0, 27);

}  // namespace

TEST_CASE("on a GPU a fit that is stopped anywhere ends with the bits of the unbroken one") {
  if (absent()) SKIP(none);
  auto const eager = [] { return SingleDevice{cuda}; };
  CHECK(wrong_fits(eager, Float32{}, gathered) == none_wrong);
  CHECK(wrong_fits(eager, Fp16Mixed{.init_scale = 16777216.0, .growth_interval = 3}, pinned) == none_wrong);
  CHECK(wrong_fits([] { return SingleDevice{automatic}; }, Bf16Mixed{}, on_device) == none_wrong);
}

TEST_CASE("on a GPU a captured fit that is stopped anywhere ends with the bits of the unbroken one") {
  if (absent()) SKIP(none);
  auto const captured = [] { return Captured{SingleDevice{cuda}}; };
  CHECK(wrong_fits(captured, Float32{}, gathered) == none_wrong);
  CHECK(wrong_fits(captured, Fp16Mixed{.init_scale = 16777216.0, .growth_interval = 3}, pinned) == none_wrong);
}

TEST_CASE("a file that was written on a GPU is loaded and gone on with on the CPU, and the other way round") {
  if (absent()) SKIP(none);
  auto const path = of_this_process("gpu.ckpt");
  auto const train = batches(6, 8), validation = batches(1, 8);
  auto const across = [&](auto from, auto to) {
    auto model = fresh<Ours>(), loaded = fresh<Ours>(), gone_on = fresh<Ours>();
    auto trainer =
        make_trainer<Ours>({.max_epochs = 2}, from, Float32{}, Automatic{}, EMAWeightAveraging(), NoDefaults{});
    trainer.fit(model, train, validation);
    trainer.save_checkpoint(path);
    for (auto& weight : loaded.parameters()) weight.detach().zero_();
    load_weights(loaded, path);
    CHECK(same(loaded, model));
    auto second = make_trainer<Ours>({.max_epochs = 3}, to, Float32{}, Automatic{}, EMAWeightAveraging(), NoDefaults{});
    second.fit(gone_on, train, validation, CkptPath{path});
    CHECK(second.progress().global_step == 18);
    for (auto const& weight : gone_on.parameters()) CHECK(torch::isfinite(weight).all().item<bool>());
    fs::remove(path);
  };
  across(SingleDevice{cuda}, SingleDevice{cpu});
  across(SingleDevice{cpu}, SingleDevice{cuda});
  across(Captured{SingleDevice{cuda}}, Captured{SingleDevice{cpu}});
}

TEST_CASE("on a GPU a snapshot in memory leads to the bits that a file of its moment leads to") {
  if (absent()) SKIP(none);
  auto const options = [](int epochs) {
    return TrainerOptions{.max_epochs = epochs, .num_sanity_val_steps = 0, .log_every_n_steps = 1};
  };
  auto const make = [&](int epochs) {
    return make_trainer<Ours>(options(epochs), SingleDevice{cuda}, Float32{}, Automatic{}, EMAWeightAveraging(),
                              NoDefaults{});
  };
  auto const path = of_this_process("moment.ckpt");
  auto model = fresh<Ours>(), other = fresh<Ours>();
  auto trainer = make(1), again = make(3);
  auto first = gathered(), second = gathered();
  auto const validation = batches(1, 8);
  trainer.fit(model, first, validation);
  auto const kept = snapshot(trainer);
  trainer.save_checkpoint(path);
  trainer.set_options(options(3));
  trainer.fit(model, first, validation, kept);
  again.fit(other, second, validation, CkptPath{path});
  fs::remove(path);
  CHECK(hash_of(model, trainer) == hash_of(other, again));
}
