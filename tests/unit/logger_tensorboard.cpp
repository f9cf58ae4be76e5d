#include <zlib.h>

#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <fulgurite/callback/signals.hpp>
#include <fulgurite/logger/tensorboard_logger.hpp>

#include "logger_run.hpp"
#include "loose_context.hpp"
#include "models.hpp"

using namespace fulgurite;
using namespace logged;
using logger::EventFile, logger::EventRecord;

namespace {

double fixed_time() { return 2.0; }
TensorBoardLogger on_the_clock(std::filesystem::path const& in = {}, bool log_graph = false) {
  return TensorBoardLogger{in, {.log_graph = log_graph, .now = &fixed_time}};
}

std::string hex(std::string_view bytes) {
  std::string text;
  for (char const one : bytes) {
    auto const c = static_cast<unsigned char>(one);
    text += "0123456789abcdef"[c >> 4];
    text += "0123456789abcdef"[c & 15];
  }
  return text;
}

/// CRC-32C bit by bit, so that the library's own is not judged by itself.
std::uint32_t checksum(std::string_view bytes) {
  std::uint32_t sum = ~0U;
  for (char const c : bytes) {
    sum ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit != 8; ++bit) sum = (sum >> 1) ^ ((sum & 1U) != 0 ? 0x82F63B78U : 0U);
  }
  sum = ~sum;
  return ((sum >> 15) | (sum << 17)) + 0xa282ead8U;
}
template <class T>
T as(std::string_view bytes) {
  T value{};
  REQUIRE(bytes.size() >= sizeof(T));
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

/// The events of a file, each of them checked.
std::vector<std::string> events_of(std::string_view file) {
  std::vector<std::string> events;
  while (!file.empty()) {
    auto const length = as<std::uint64_t>(file);
    REQUIRE(as<std::uint32_t>(file.substr(8)) == checksum(file.substr(0, 8)));
    REQUIRE(file.size() >= length + 16);
    events.emplace_back(file.substr(12, length));
    REQUIRE(as<std::uint32_t>(file.substr(12 + length)) == checksum(events.back()));
    file.remove_prefix(length + 16);
  }
  return events;
}

std::uint64_t varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    REQUIRE_FALSE(bytes.empty());
    auto const byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= std::uint64_t{byte & 127U} << shift;
    if (byte < 128) return value;
  }
}
/// A message's fields, in order; numbers as the bytes that they have.
using Fields = std::multimap<unsigned, std::string>;
Fields fields_of(std::string_view message) {
  Fields fields;
  while (!message.empty()) {
    auto const head = varint(message);
    auto const wire = head & 7;
    std::uint64_t size = wire == 1 ? 8 : wire == 5 ? 4 : 0;
    std::string number;
    if (wire == 0) {
      auto const value = varint(message);
      number.assign(reinterpret_cast<char const*>(&value), 8);
    } else if (wire == 2) {
      size = varint(message);
    }
    REQUIRE((wire == 0 || wire == 1 || wire == 2 || wire == 5));
    REQUIRE(size <= message.size());
    fields.emplace(static_cast<unsigned>(head >> 3), wire == 0 ? number : std::string(message.substr(0, size)));
    message.remove_prefix(size);
  }
  return fields;
}
std::string field(Fields const& fields, unsigned number) {
  REQUIRE(fields.count(number) == 1);
  return fields.find(number)->second;
}
std::string field(std::string_view message, unsigned number) { return field(fields_of(message), number); }

/// What a row's event says: "step: tag=value ..."; of any other value its tag alone.
std::string told(std::string const& event) {
  auto const all = fields_of(event);
  if (all.count(3) != 0) return field(all, 3);
  auto text = (all.count(2) == 0 ? std::string("0") : std::to_string(as<std::int64_t>(field(all, 2)))) + ":";
  auto const summary = fields_of(field(all, 5));
  for (auto const& [number, bytes] : summary) {
    auto const value = fields_of(bytes);
    text += " " + field(value, 1);
    if (value.count(2) != 0) text += "=" + exact_number(as<float>(field(value, 2)));
  }
  return text;
}
std::vector<std::string> told_of(std::string const& file) {
  std::vector<std::string> lines;
  for (auto const& event : events_of(file)) lines.push_back(told(event));
  return lines;
}
/// The one event file of a folder.
std::filesystem::path event_file(std::filesystem::path const& folder) {
  std::vector<std::filesystem::path> found;
  for (auto const& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().filename().string().starts_with("events.out.tfevents.")) found.push_back(entry.path());
  REQUIRE(found.size() == 1);
  return found.front();
}
std::string events_in(Folder const& folder) { return content(event_file(folder / "lightning_logs/version_0")); }

using Ctx = toy::LooseContext;

struct Settings {
  double lr = 0.5;
  int layers = 4;
  bool bias = true;
  std::string optimizer = "adam";
  void hyperparameters(auto& list) const { list("lr", lr)("layers", layers)("bias", bias)("optimizer", optimizer); }
};
struct Net : Scripted {
  Settings hparams{};
};
/// Logs a histogram in each step, as a program would that holds its logger.
struct Spreads {
  using Stateless = ByChoice;
  TensorBoardLogger** logger = nullptr;
  void on_train_batch_end(auto& ctx) {
    double const values[] = {0, static_cast<double>(ctx.batch_idx())};
    (*logger)->log_histogram("spread", values, ctx.logged_steps());
  }
};
template <class... Cs>
std::string spread_fit(Folder const& folder, std::optional<CkptPath> from, Cs... more) {
  Net model;
  model.script = {3, 2, 1};
  return said([&] {
    TensorBoardLogger* held = nullptr;
    auto trainer =
        trainer_of<Net>(below(folder.path), on_the_clock(), Spreads{&held}, every_second(), std::move(more)...);
    held = &trainer.template callback<TensorBoardLogger>();
    trainer.fit(model, toy::batches(4), toy::batches(1), from);
  });
}

struct Summarizing : SavingBackend {
  template <class Model>
  static std::vector<report::ModelRow> summarize(Model const&, int) {
    return {{"", "Net", 10, 4, 40, true}, {"a", "Linear", 10, 4, 40, false}};
  }
};
struct Summarized : toy::Device {
  using Backend = Summarizing;
};

}  // namespace

TEST_CASE("tensorboard: a record of one number, byte for byte") {
  auto const event = logger::event::summary(2.0, 400, logger::event::scalar("loss", 0.5));
  CHECK(hex(EventRecord::of(event)) ==
        "1b000000000000001a0d9e130900000000000000401090032a0d0a0b0a046c6f7373150000003f7c2c89ca");
  CHECK(checksum("123456789") == protobuf::checksum("123456789"));
  CHECK(hex(EventRecord::of(logger::event::version(2.0))).find(hex("brain.Event:2")) != std::string::npos);
}

TEST_CASE("tensorboard: a fit writes its rows, one record each, behind the version and the hyper-parameters") {
  Folder const folder;
  Net model;
  model.script = {5, 4};
  auto options = below(folder.path, 2);
  options.log_every_n_steps = 2;
  fit(model, options, {}, on_the_clock());
  CHECK(told_of(events_in(folder)) == std::vector<std::string>{"brain.Event:2", "0: _hparams_/session_start_info",
                                                               "1: loss=1 epoch=0", "3: loss=3 epoch=0",
                                                               "3: vl=5 val/acc=0.25 epoch=0", "5: loss=1 epoch=1",
                                                               "7: loss=3 epoch=1", "7: vl=4 val/acc=0.25 epoch=1"});
  auto const name = event_file(folder / "lightning_logs/version_0").filename().string();
  CHECK(name.starts_with("events.out.tfevents.0000000002."));
  CHECK(name.ends_with("." + std::to_string(::getpid()) + ".0.fulgurite"));
  for (auto const& event : events_of(events_in(folder))) CHECK(as<double>(field(event, 1)) == 2.0);
  CHECK(content(folder / "lightning_logs/version_0/hparams.yaml").starts_with("\"lr\": 0.5\n"));
  CHECK(folder.files().size() == 5);  // with four texts; no lock is left
}

TEST_CASE("tensorboard: hyper-parameters are what the hparams plugin reads") {
  Folder const folder;
  Net model;
  fit(model, below(folder.path, 1), {}, on_the_clock());
  auto const value = fields_of(field(field(events_of(events_in(folder)).at(1), 5), 1));
  auto const meta = fields_of(field(value, 9));
  CHECK(field(field(meta, 1), 1) == "hparams");
  auto const session = fields_of(field(field(field(meta, 1), 2), 3));
  CHECK(as<double>(field(session, 5)) == 2.0);
  std::map<std::string, Fields> settings;
  for (auto [at, end] = session.equal_range(1); at != end; ++at)
    settings[field(at->second, 1)] = fields_of(field(at->second, 2));
  CHECK(settings.size() == 4);
  CHECK(as<double>(field(settings["lr"], 2)) == 0.5);
  CHECK(as<double>(field(settings["layers"], 2)) == 4);
  CHECK(as<std::uint64_t>(field(settings["bias"], 4)) == 1);
  CHECK(field(settings["optimizer"], 3) == "adam");
}

TEST_CASE("tensorboard: a file that was cut at any byte is gone on with behind its last whole record", "[long]") {
  Folder const folder;
  auto const clock = logger::EventClock{&fixed_time};
  {
    EventFile file(folder.path, clock);
    file.add({{"step", 0, true}, {"loss", 0.5}});
    file.add({{"step", 1, true}, {"loss", 0.25}, {"epoch", 0}});
    file.add_values(logger::event::text("note", "hello"), 1);
  }
  auto const path = event_file(folder.path);
  auto const whole = content(path);
  std::vector<std::size_t> ends{0};
  for (auto const& event : events_of(whole)) ends.push_back(ends.back() + event.size() + 16);
  REQUIRE(ends.size() == 5);
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    auto const records = static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), size) - ends.begin() - 1);
    for (std::size_t const lost : {0U, 3U, 60U}) {  // bytes that never reached the disk
      put(path, whole.substr(0, size) + std::string(lost, '\0'));
      EventFile file(folder.path, clock);
      REQUIRE(file.rows() == static_cast<long>(records));
      REQUIRE(std::filesystem::file_size(path) == ends[records]);
      file.add({{"step", 7, true}, {"loss", 1}});
      auto const lines = told_of(content(path));
      REQUIRE(lines.size() == std::max<std::size_t>(records, 1) + 1);
      REQUIRE(lines.back() == "7: loss=1");
    }
  }
}

TEST_CASE("tensorboard: a power cut's zeros are cut off, and damage in the middle is refused") {
  Folder const folder;
  auto const clock = logger::EventClock{&fixed_time};
  {
    EventFile file(folder.path, clock);
    for (double step = 0; step != 4; ++step) file.add({{"step", step, true}, {"loss", 0.5}});
  }
  auto const path = event_file(folder.path);
  auto const whole = content(path);
  put(path, whole + std::string(5000, '\0'));
  CHECK(EventFile(folder.path, clock).rows() == 5);
  CHECK(content(path) == whole);
  put(path, whole.substr(0, whole.size() - 20) + std::string(20, '\0'));
  CHECK(EventFile(folder.path, clock).rows() == 4);
  for (std::size_t const at : {std::size_t{3}, std::size_t{9}, std::size_t{50}, whole.size() / 2}) {
    auto broken = whole;
    broken[at] = static_cast<char>(broken[at] ^ 1);
    put(path, broken);
    CHECK(error_of([&] {
            EventFile{folder.path, clock};
          }).starts_with("[fulgurite.logger.damaged] " + path.string() + ", byte "));
    CHECK(content(path) == broken);
  }
}

TEST_CASE("tensorboard: a file of another program is left alone, and a lock keeps a second logger away") {
  Folder const folder;
  auto const version = folder / "lightning_logs/version_3";
  std::filesystem::create_directories(version);
  put(version / "events.out.tfevents.1.host.1.0", "somebody else's");
  Ctx ctx;
  TensorBoardLogger logger(folder.path, {.version = 3, .now = &fixed_time}), second(folder.path, {.version = 3});
  logger.setup(ctx);
  std::vector<Scalar> const row{{"loss", 1}};
  logger.log_metrics(row, 4);
  CHECK(content(version / "events.out.tfevents.1.host.1.0") == "somebody else's");
  CHECK(folder.files().size() == 4);  // with hparams.yaml and the lock
  CHECK(toy::refusal([&] { second.setup(ctx); }) == "fulgurite.logger.version_in_use");
  logger.finalize(0);
  second.setup(ctx);
  second.log_metrics(row, 5);
  CHECK(folder.files().size() == 4);  // it goes on in the file of the first
}

TEST_CASE("tensorboard: a run that was killed goes on in its file, which is that of an unbroken run") {
  Folder const other;
  spread_fit(other, {}, Kills{});
  auto const whole = events_in(other);
  CHECK(told_of(whole).at(2).starts_with("0: began=1"));
  CHECK(events_of(whole).size() == 2 + 1 + 12 + 12 + 3);
  for (long const steps : {3, 5, 8, 11}) {
    CAPTURE(steps);
    Folder const folder;
    auto const child = ::fork();
    if (child == 0) {
      spread_fit(folder, {}, Kills{steps});
      ::_exit(1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    REQUIRE(WIFSIGNALED(status));
    auto const left = events_in(folder);
    CHECK(left != whole);
    auto const warnings = spread_fit(folder, CkptPath{"last"}, Kills{});
    CHECK(events_in(folder) == whole);
    CHECK(warnings.find("TensorBoardLogger: the last ") != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(folder / "lightning_logs/version_1"));
  }
}

TEST_CASE("tensorboard: a batch that failed is done again with its window, and none of their rows is there twice") {
  for (long const fails_at : {0, 3, 5, 8}) {
    CAPTURE(fails_at);
    Folder const folder, other;
    auto const run = [](Folder const& in, long fails) {
      Net model;
      model.script = {3, 2, 1};
      model.fails_at = fails;
      return error_of([&] {
        auto trainer =
            make_trainer<Net>(below(in.path), SavingDevice{}, Float32{}, Automatic{.accumulate_grad_batches = 2},
                              PostsEach{}, on_the_clock(), OnExceptionCheckpoint{{.dirpath = in.path}});
        trainer.fit(model, toy::batches(4), toy::batches(1));
      });
    };
    said([&] {
      CHECK(run(other, -1).empty());
      CHECK(run(folder, fails_at).starts_with("[fulgurite.test.step]"));
      CHECK(run(folder, -1).empty());
    });
    CHECK(told_of(events_in(folder)) == told_of(events_in(other)));
    CHECK(events_in(folder) == events_in(other));
  }
}

TEST_CASE("tensorboard: a file that lacks rows is refused") {
  Folder const folder;
  spread_fit(folder, {}, Kills{});
  auto const path = event_file(folder / "lightning_logs/version_0");
  auto const whole = content(path);
  put(path, whole.substr(0, whole.size() / 2));
  CHECK(
      error_of([&] { spread_fit(folder, CkptPath{"last"}, Kills{}); }).starts_with("[fulgurite.logger.rows_missing]"));
}

TEST_CASE("tensorboard: a histogram counts all values, and those that are none apart") {
  std::vector<double> values;
  for (int i = 0; i <= 300; ++i) values.push_back(i / 10.0);
  auto const all = logger::histogram(values);
  CHECK(all.limits.size() == 30);
  CHECK(all.limits.back() == 30.0);
  CHECK(all.counts.front() == 10);
  CHECK(all.counts.back() == 11);  // the upper end is inside
  CHECK(all.finite == 301);
  double const same[] = {7, 7, NAN, -INFINITY};
  auto const one = logger::histogram(same);
  CHECK(one.limits == std::vector<double>{7});
  CHECK(one.counts == std::vector<double>{2});
  CHECK(one.not_finite == 2);
  double const far[] = {std::numeric_limits<double>::lowest(), 0, std::numeric_limits<double>::max()};
  auto const wide = logger::histogram(far);
  CHECK(wide.counts.front() + wide.counts[15] + wide.counts.back() == 3);

  auto const events = fields_of(logger::event::histogram("h", one));
  REQUIRE(events.count(1) == 2);
  auto const histo = fields_of(field(events.find(1)->second, 5));
  CHECK(as<double>(field(histo, 1)) == 7);
  CHECK(as<double>(field(histo, 3)) == 2);
  CHECK(as<double>(field(histo, 5)) == 98);
  CHECK(as<double>(field(histo, 6)) == 7);
  auto const beside = fields_of(std::next(events.find(1))->second);
  CHECK(field(beside, 1) == "h/not_finite");
  CHECK(as<float>(field(field(beside, 8), 5)) == 2);
}

TEST_CASE("tensorboard: a picture is a PNG that zlib unpacks to its pixels") {
  std::vector<std::uint8_t> pixels(2 * 3 * 3);
  for (std::size_t i = 0; i != pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i * 13);
  auto const image = fields_of(field(field(logger::event::image("x", pixels, {2, 3, 3}), 1), 4));
  CHECK(as<std::int64_t>(field(image, 1)) == 2);
  CHECK(as<std::int64_t>(field(image, 2)) == 3);
  CHECK(as<std::int64_t>(field(image, 3)) == 3);
  auto const kept = field(image, 4);
  std::string_view const file = kept;
  CHECK(file.substr(0, 8) == "\x89PNG\r\n\x1a\n");
  CHECK(hex(file.substr(8, 25))
            .starts_with("0000000d49484452"
                         "00000003"
                         "00000002"
                         "0802000000"));
  auto const length = static_cast<std::size_t>(static_cast<unsigned char>(file[36]));
  CHECK(file.substr(37, 4) == "IDAT");
  std::string lines(2 * 10, 'x');
  uLongf size = lines.size();
  auto const data = std::string(file.substr(41, length));
  REQUIRE(::uncompress(reinterpret_cast<Bytef*>(lines.data()), &size, reinterpret_cast<Bytef const*>(data.data()),
                       data.size()) == Z_OK);
  std::string expected;
  for (std::size_t row = 0; row != 2; ++row)
    expected += '\0' + std::string(pixels.begin() + static_cast<long>(row * 9),
                                   pixels.begin() + static_cast<long>(row * 9 + 9));
  CHECK(lines == expected);
  CHECK(hex(file.substr(file.size() - 12)) == "0000000049454e44ae426082");
  constexpr std::size_t much = std::size_t{1} << 33;
  logger::PixelShape const wrong[] = {{2, 3, 2}, {0, 3, 3}, {1, 1, 18}, {1, 18, 0}, {much, much, 4}};
  for (auto const& shape : wrong)
    CHECK(toy::refusal([&] { logger::event::image("x", pixels, shape); }) == "fulgurite.logger.image");
}

TEST_CASE("tensorboard: texts, names that are no UTF-8, a metric called step, a prefix") {
  Folder const folder;
  Ctx ctx;
  TensorBoardLogger logger(folder.path, {.prefix = "a", .now = &fixed_time});
  logger.setup(ctx);
  std::vector<Scalar> const row{{"loss", 0.5},
                                {"epoch", 2},
                                {"b\xff"
                                 "d",
                                 NAN},
                                {"step", 9}};
  logger.log_metrics(row, 4);
  logger.log_text("note", "# hello\xff", 5);
  int const values[] = {1, 2};
  logger.log_histogram("weights", values, 6);
  std::uint8_t const black[] = {0};
  logger.log_image("black", black, {1, 1}, 7);
  auto const file = events_in(folder);
  CHECK(told_of(file) == std::vector<std::string>{"brain.Event:2",
                                                  "9: a-loss=0.5 epoch=2 a-b\xEF\xBF\xBD"
                                                  "d=nan",
                                                  "5: a-note", "6: a-weights", "7: a-black"});
  auto const text = fields_of(field(field(events_of(file).at(2), 5), 1));
  CHECK(field(field(field(text, 9), 1), 1) == "text");
  CHECK(field(field(text, 8), 8) == "# hello\xEF\xBF\xBD");
}

TEST_CASE("tensorboard: the model's table is a text, once a run") {
  Folder const folder;
  Scripted model{.script = {3, 2, 1}};
  for (int i = 0; i != 2; ++i)
    said([&] {
      auto trainer = make_trainer<Scripted>(below(folder.path, 1 + i), Summarized{}, Float32{}, Automatic{},
                                            on_the_clock({}, true), ModelCheckpoint{});
      trainer.fit(model, toy::batches(2), toy::batches(1), i == 0 ? std::nullopt : std::optional(CkptPath{"last"}));
    });
  auto const lines = told_of(events_in(folder));
  CHECK(lines.at(1) == "0: model");
  CHECK(std::count(lines.begin(), lines.end(), "0: model") == 1);
  CHECK(events_in(folder).find("\n    0 | a    | Linear | 10     | 4         | 40 B | eval\n") != std::string::npos);
  Folder const other;
  CHECK(error_of([&] {
          fit(model, below(other.path), {}, on_the_clock({}, true));
        }).starts_with("[fulgurite.logger.no_table]"));
}

TEST_CASE("tensorboard: bad options and calls are refused; other ranks write nothing") {
  CHECK(toy::refusal([] { TensorBoardLogger("runs", {.name = "../x"}); }) == "fulgurite.logger.name");
  CHECK(error_of([] { TensorBoardLogger("runs", {.version = -1}); }) ==
        "[fulgurite.logger.version] TensorBoardLogger: version = -1: versions begin with 0");
  CHECK(toy::refusal([] { TensorBoardLogger("runs", {.now = nullptr}); }) == "fulgurite.logger.clock");
  Folder const folder;
  TensorBoardLogger logger(folder.path);
  CHECK(error_of([&] {
          logger.log_text("a", "b", 0);
        }).starts_with("[fulgurite.logger.no_run] TensorBoardLogger: log_text "));
  Ctx ctx;
  ctx.run.number = 1;
  logger.setup(ctx);
  std::vector<Scalar> const row{{"loss", 1}};
  logger.log_metrics(row, 0);
  logger.log_text("a", "b", 0);
  CHECK(folder.files().empty());
  ctx.run.number = 0;
  logger.setup(ctx);
  std::vector<double> const none;
  CHECK(toy::refusal([&] { logger.log_histogram("w", none, 0); }) == "fulgurite.logger.histogram");
}

TEST_CASE("tensorboard: a message that ends too early has no field") {
  using protobuf::find;
  std::string message;
  protobuf::integer(message, 2, -1);
  protobuf::text(message, 5, "hello");
  CHECK(find(message, 5) == "hello");
  CHECK(find(message, 2)->size() == 10);
  CHECK_FALSE(find(message, 3));
  for (std::size_t size = 0; size != message.size(); ++size) CHECK_FALSE(find(message.substr(0, size), 5));
  CHECK_FALSE(find("\x0b", 1));  // a group, which no message of ours has
}

TEST_CASE(
    "tensorboard: where max_steps has cut an epoch short, a run that goes on leaves the events of an unbroken one") {
  leaves_the_unbroken_one_where_cut<Net>([] { return on_the_clock(); }, [](Folder const& in) { return events_in(in); });
}
