// Nineteen ways to write one hook: which are seen, and in which form; which are botched; whose answers are refused.
#include <catch2/catch_test_macros.hpp>

#include <exception>
#include <vector>

#include <fulgurite/concept/concepts.hpp>
#include <fulgurite/hook/faults.hpp>

using namespace fulgurite;

namespace {

using Batch = std::vector<double>;
struct Outputs {
  double loss = 0;
};
struct Ctx {};

using End = hook::on_train_batch_end;

/// How many of (outputs, batch, ctx) the spelling takes; -1: it cannot be called.
template <class T>
constexpr int taken = arity<End, T, Outputs, Batch, Ctx>();
template <class T>
constexpr HookFault fault = hook::event_fault<End, T, true, Outputs, Batch, Ctx>();
/// Seen, called with `Arguments` of the three, and nothing wrong with it.
template <class T, int Arguments>
constexpr bool seen = End::named<T> && taken<T> == Arguments && fault<T> == HookFault::none;
/// The name is there, no call fits: never silence, always an error.
template <class T>
constexpr bool botched = End::named<T> && taken<T> == -1 && fault<T> == HookFault::parameters;

// 1 to 12: those of ensmallen, of which its detection ignored nine without a word.
struct Documented {
  template <class O, class B, class C>
  void on_train_batch_end(O const&, B const&, C&) {}
};
struct AllAuto {
  void on_train_batch_end(auto&, auto&, auto&) {}
};
struct Concrete {
  void on_train_batch_end(Outputs const&, Batch const&, Ctx&) {}
};
struct Const {
  void on_train_batch_end(auto&, auto&, auto&) const {}
};
struct Static {
  static void on_train_batch_end(auto&, auto&, auto&) {}
};
struct OtherBatch {
  void on_train_batch_end(auto&, std::vector<int> const&, auto&) {}
};
struct Converted {
  struct Loss {
    Loss(Outputs from) : value(from.loss) {}
    double value;
  };
  void on_train_batch_end(Loss, Batch const&, auto&) {}
};
struct Fewer {
  void on_train_batch_end(auto&) {}
};
struct Mutable {  // of what is handed out as const
  void on_exception(std::exception&, auto&) {}
};
struct Defaulted {
  void on_train_batch_end(auto&, auto&, auto&, int = 0) {}
};
struct Number {
  int on_train_batch_end(auto&, auto&, auto&) { return 0; }
};
struct Misspelt {
  void on_train_bach_end(auto&, auto&, auto&) {}
};

// 13 to 19: what else people write.
struct Reversed {
  void on_train_batch_end(Ctx&, Batch&, Outputs&) {}
};
class Private {
  void on_train_batch_end() {}
};
struct DataMember {
  bool on_train_batch_end = true;
};
struct Lambda {
  static constexpr auto on_train_batch_end = [](auto&, auto&) {};
};
struct Overloaded {
  void on_train_batch_end() {}
  void on_train_batch_end(Batch&, Ctx&) {}
};
struct Inherited : Fewer {};
struct Skips {
  Flow on_train_batch_end() { return Flow::skip_epoch; }
};

}  // namespace

TEST_CASE("spellings that are seen, and with what they are called", "[hook]") {
  STATIC_REQUIRE(seen<Documented, 3>);
  STATIC_REQUIRE(seen<AllAuto, 3>);
  STATIC_REQUIRE(seen<Concrete, 3>);
  STATIC_REQUIRE(seen<Const, 3>);
  STATIC_REQUIRE(seen<Static, 3>);
  STATIC_REQUIRE(seen<Converted, 3>);
  STATIC_REQUIRE(seen<Defaulted, 3>);
  STATIC_REQUIRE(seen<Lambda, 2>);
  STATIC_REQUIRE(seen<Overloaded, 2>);
  STATIC_REQUIRE(seen<Fewer, 1>);
  STATIC_REQUIRE(seen<Inherited, 1>);
}

TEST_CASE("spellings that have the name and cannot be called", "[hook]") {
  STATIC_REQUIRE(botched<OtherBatch>);
  STATIC_REQUIRE(botched<Reversed>);
  STATIC_REQUIRE(botched<Private>);
  STATIC_REQUIRE(botched<DataMember>);
  STATIC_REQUIRE(hook::event_fault<hook::on_exception, Mutable, true, std::exception const, Ctx>() ==
                 HookFault::parameters);
}

TEST_CASE("spellings whose answer means nothing", "[hook]") {
  STATIC_REQUIRE(fault<Number> == HookFault::result);
  STATIC_REQUIRE(fault<Skips> == HookFault::skip_epoch);
}

TEST_CASE("a misspelt name is no hook, and nothing of this file hides one", "[hook]") {
  STATIC_REQUIRE(!End::named<Misspelt>);
  STATIC_REQUIRE(taken<Misspelt> == -1);
  STATIC_REQUIRE(fault<Misspelt> ==
                 HookFault::none);  // the callback is inert, or breaks its promise: see tests/nocompile
}

namespace {

template <class T>
constexpr HookId taken_for_a_hook = judge::misspelt<T>().hook;

struct Nothing {};
struct Loaders {
  int val_loader() { return 0; }
  auto val_dataloader() { return 0; }
};
struct Meant {
  auto val_loader() { return 0; }
};
struct Kept {
  int on_epoch_end = 0;
};
struct Constant {
  static constexpr struct {
  } on_epoch_end{};
};
struct Enumerator {
  enum { on_epoch_end };
};
struct Reference {
  int& on_epoch_end;
};
struct Called {
  void on_epoch_end() {}
};
struct StaticCalled {
  static void on_epoch_end() {}
};
class Hidden {
  void on_epoch_end() {}
};
struct Template {
  template <class T>
  void on_epoch_end(T&) {}
};
struct Several {
  void on_epoch_end() {}
  void on_epoch_end(int) {}
};
class Child : Called {};
class Used : Called {
 public:
  using Called::on_epoch_end;
};
struct Other {
  void on_epoch_end() {}
};
struct Twice : Called, Other {};
struct Abstract {
  virtual ~Abstract() = default;
  virtual void on_epoch_end() = 0;
};
struct Implemented : Abstract {
  void on_epoch_end() final {}
};
struct Left : virtual Called {};
struct Right : virtual Called {};
struct Diamond : Left, Right {};
struct KeptAndCalled : Kept {
  void OnTrainBatchEnd() {}
};

}  // namespace

TEST_CASE("near misses: functions of every kind, but no data members", "[hook]") {
  STATIC_REQUIRE(taken_for_a_hook<Nothing> == HookId::none);
  STATIC_REQUIRE(taken_for_a_hook<Kept> == HookId::none);
  STATIC_REQUIRE(taken_for_a_hook<Constant> == HookId::none);
  STATIC_REQUIRE(taken_for_a_hook<Enumerator> == HookId::none);
  STATIC_REQUIRE(taken_for_a_hook<Reference> == HookId::none);
  STATIC_REQUIRE(taken_for_a_hook<Loaders> == HookId::none);
  STATIC_REQUIRE(taken_for_a_hook<Meant> == HookId::val_loader);
  STATIC_REQUIRE(taken_for_a_hook<Called> == HookId::on_epoch_end);
  STATIC_REQUIRE(taken_for_a_hook<StaticCalled> == HookId::on_epoch_end);
  STATIC_REQUIRE(taken_for_a_hook<Hidden> == HookId::on_epoch_end);
  STATIC_REQUIRE(taken_for_a_hook<Template> == HookId::on_epoch_end);
  STATIC_REQUIRE(taken_for_a_hook<Several> == HookId::on_epoch_end);
  STATIC_REQUIRE(taken_for_a_hook<Child> == HookId::on_epoch_end);
  STATIC_REQUIRE(taken_for_a_hook<Used> == HookId::on_epoch_end);
  STATIC_REQUIRE(taken_for_a_hook<Twice> == HookId::on_epoch_end);
  STATIC_REQUIRE(taken_for_a_hook<Abstract> == HookId::on_epoch_end);
  STATIC_REQUIRE(taken_for_a_hook<Implemented> == HookId::on_epoch_end);
  STATIC_REQUIRE(taken_for_a_hook<Diamond> == HookId::on_epoch_end);
  STATIC_REQUIRE(taken_for_a_hook<KeptAndCalled> == HookId::OnTrainBatchEnd);
}

namespace {
// What a model, a data module or a callback may well have for its own purposes.
struct OwnNames {
  void forward() {}
  void step() {}
  void loss() {}
  void train() {}
  void eval() {}
  void fit() {}
  void clip() {}
  void parameters() {}
  void set_up() {}
  void train_start() {}
  void training_steps() {}
  void configure_schedule() {}
  void state_dict() {}
  struct TrainDataloader {};
};
}  // namespace

TEST_CASE("names of one's own are no near misses", "[hook]") {
  STATIC_REQUIRE(taken_for_a_hook<OwnNames> == HookId::none);
}
