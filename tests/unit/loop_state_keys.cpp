// Under which names callbacks keep their states in files: what they watch, and their types.
#include <catch2/catch_test_macros.hpp>

#include <string>

#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/loop/run_state.hpp>

#include "callback_run.hpp"
#include "callback_stderr.hpp"

using namespace fulgurite;

namespace {

/// Its steps log a value that is worst in an epoch's last batch.
struct Rising {
  static constexpr Metric<"t"> t{.on_epoch = Report::yes};
  using Metrics = MetricList<t>;
  toy::Tensor p = toy::Tensor::parameter(1.0);
  toy::Tensor training_step(double batch, auto& ctx) {
    auto loss = p * toy::Tensor(batch);
    ctx.log(t, toy::Tensor(batch));
    return loss;
  }
  toy::Sgd configure_optimizers() { return {.params = {p}, .rate = 0.125}; }
};

template <class Key>
struct Says {
  long ends = 0;
  Key key{};
  std::string state_key() const { return key.text; }
  void on_train_epoch_end() { ++ends; }
  void state(auto& archive) { archive("ends", ends); }
};
struct Plain {
  std::string text = "mine";
};
struct Another {
  std::string text = "mine";
};
/// A type of the same name as one that says its key.
struct Counting {
  long counted = 1;
  std::string state_key() const { return "counting"; }
  void on_train_end() {}
  void state(auto& archive) { archive("counted", counted); }
};
struct Naming {
  std::string name = "none";
  std::string state_key() const { return "counting"; }
  void on_train_end() { name = "ended"; }
  void state(auto& archive) { archive("named", name); }
};
/// Its name is the beginning of its key.
struct Early : EarlyStopping<Metric<"t">> {
  using EarlyStopping::EarlyStopping;
};
bool set_up = false;
struct Hears {
  using Stateless = ByChoice;
  void setup(auto&) { set_up = true; }
};

namespace theirs {
/// The type of another library has the same name.
struct Noting {
  using Stateless = ByChoice;
  long ends = 0;
  void on_train_end() { ++ends; }
};
}  // namespace theirs
struct Noting {
  long ends = 0;
  void on_train_end() { ++ends; }
  void state(auto& archive) { archive("ends", ends); }
};
/// Its last bytes are padding, in which another callback may lie.
struct Padded {
  using Stateless = ByChoice;
  double seconds = 0;
  int ends = 0;
  Padded() = default;
  Padded(Padded const& other) : seconds(other.seconds), ends(other.ends) {}
  void on_train_end() { ++ends; }
};
struct Small {
  using Stateless = ByChoice;
  bool ended = false;
  void on_train_end() { ended = true; }
};

template <class... Cs>
auto trainer_of(int epochs, Cs... callbacks) {
  return make_trainer<Rising>(quick(epochs), SavingDevice{}, Float32{}, Automatic{}, std::move(callbacks)...);
}

}  // namespace

TEST_CASE("keys of states: the library's callbacks say all of what they watch") {
  auto const t = Rising::t;
  CHECK(EarlyStopping{t}.state_key() == "EarlyStopping{t, min}");
  CHECK(EarlyStopping{t.last(), {.mode = Mode::max}}.state_key() == "EarlyStopping{t.last(), max}");
  CHECK(EarlyStopping{t.of("clean")}.state_key() == "EarlyStopping{t of loader 'clean', min}");
  CHECK(SpikeDetection{t}.state_key() == "SpikeDetection{t}");
  CHECK(SpikeDetection{t.last()}.state_key() == "SpikeDetection{t.last()}");
  CHECK(ModelCheckpoint{}.state_key() == "ModelCheckpoint{, min, -, -, -}");
  CHECK(ModelCheckpoint{t.last(), {.every_n_epochs = 2}}.state_key() == "ModelCheckpoint{t.last(), min, -, 2, -}");
  CHECK(ModelCheckpoint{t.of("clean")}.state_key() == "ModelCheckpoint{t of loader 'clean', min, -, -, -}");
}

TEST_CASE("keys of states: a key has its type, which is not said twice") {
  CHECK(loop::state_key_of(Counting{}) == "counting (Counting)");
  CHECK(loop::state_key_of(EarlyStopping{Rising::t}) == "EarlyStopping{t, min}");
  CHECK(loop::state_key_of(Early{Rising::t}) == "EarlyStopping{t, min} (Early)");
  CHECK(loop::state_key_of(Hears{}) == "Hears");
}

TEST_CASE("keys of states: two that watch one metric in two ways keep their own, whatever their order") {
  Folder const folder;
  EarlyStopping const mean{Rising::t, {.patience = 50}};
  EarlyStopping const last{Rising::t.last(), {.patience = 60}};
  Rising model;
  auto first = trainer_of(2, mean, last);
  first.fit(model, std::vector<double>{1, 3}, NoValidation{});
  first.save_checkpoint(folder / "x.safetensors");
  auto then = trainer_of(2, last, mean);
  then.fit(model, std::vector<double>{1, 3}, NoValidation{}, CkptPath{folder / "x.safetensors"});
  auto const score = [](auto& trainer, auto const& of) {
    return trainer.template callback<std::remove_cvref_t<decltype(of)>>().best_score();
  };
  CHECK(score(first, mean) == 2);
  CHECK(score(first, last) == 3);
  CHECK(score(then, mean) == 2);
  CHECK(score(then, last) == 3);
}

TEST_CASE("keys of states: two types that say one key keep their own") {
  Folder const folder;
  Rising model;
  auto first = trainer_of(1, Counting{.counted = 5}, Naming{});
  first.fit(model, std::vector<double>{1}, NoValidation{});
  first.save_checkpoint(folder / "x.safetensors");
  auto then = trainer_of(1, Naming{}, Counting{});
  then.fit(model, std::vector<double>{1}, NoValidation{}, CkptPath{folder / "x.safetensors"});
  CHECK(then.template callback<Counting>().counted == 5);
  CHECK(then.template callback<Naming>().name == "ended");
}

TEST_CASE("keys of states: callbacks that say one key are refused before the run begins (C152)") {
  set_up = false;
  Rising model;
  auto trainer = trainer_of(1, Says<Plain>{}, Says<Another>{}, Hears{});
  auto const error = error_of([&] { trainer.fit(model, std::vector<double>{1}, NoValidation{}); });
  CHECK(error.starts_with("[fulgurite.callback.state_key] "));
  CHECK(error.find("'mine (Says)'") != std::string::npos);
  CHECK(error.find("state_key()") != std::string::npos);
  CHECK_FALSE(set_up);
  CHECK(model.p.value() == 1);
  auto apart = trainer_of(1, Says<Plain>{}, Says<Another>{.key = {"hers"}}, Hears{});
  apart.fit(model, std::vector<double>{1}, NoValidation{});
  CHECK(set_up);
}

TEST_CASE("keys of states: a callback is found at its address, and has the name of its state") {
  Pack<Hears, theirs::Noting, Noting, Padded, Small> pack{
      Slots<Hears, theirs::Noting, Noting, Padded, Small>(Hears{}, theirs::Noting{}, Noting{}, Padded{}, Small{})};
  auto const all = loop::callbacks_of(pack);
  CHECK(loop::names_of_callbacks(all) == std::vector<std::string>{"Hears", "Noting #2", "Noting", "Padded", "Small"});
  auto const name = [&]<class T>(T const& callback) { return loop::name_of_callback(all, &callback); };
  CHECK(name(pack.slots.get<theirs::Noting>()) == "Noting #2");  // at the address of the one without members
  CHECK(name(pack.slots.get<Noting>()) == "Noting");
  CHECK(name(pack.slots.get<Padded>()) == "Padded");
  CHECK(name(pack.slots.get<Padded>().ends) == "Padded");
  CHECK(name(pack.slots.get<Small>()) == "Small");
  CHECK(name(set_up).empty());

  Pack<Hears> alone{Slots<Hears>(Hears{})};
  CHECK(loop::name_of_callback(loop::callbacks_of(alone), &alone.slots.get<Hears>()) == "Hears");
}
