// Training as a guest in a control loop: a pendulum is swung up at 500 Hz while a small net learns, from what the loop
// observes, how the pendulum accelerates. Of each tick of 2 ms, training may take half.
//   embedded --seconds 10
// Prints the error of the net before and after, and the time that training took of the ticks.

#include <chrono>
#include <cmath>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include <fulgurite/fulgurite.hpp>

#include "helpers/arguments.hpp"

namespace nn = torch::nn;
using namespace fulgurite;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Batch = std::pair<torch::Tensor, torch::Tensor>;

/// Predicts the acceleration from the angle's sine and cosine, the speed and the torque.
struct Dynamics : nn::Module {
  nn::Sequential body = register_module("body", nn::Sequential(nn::Linear(4, 64), nn::Tanh(), nn::Linear(64, 1)));

  torch::Tensor training_step(Batch const& batch) { return torch::mse_loss(body->forward(batch.first), batch.second); }
  auto configure_optimizers() { return optim::Adam(parameters(), {.lr = 1e-3}); }
};

/// A pendulum of 1 m and 1 kg with friction; the angle is 0 at the bottom.
struct Pendulum {
  double angle = 0.1, speed = 0;
  double acceleration(double torque) const { return torque - 9.81 * std::sin(angle) - 0.05 * speed; }
  void step(double torque, double seconds) {
    speed += acceleration(torque) * seconds;
    angle += speed * seconds;
  }
  /// Pushes in the direction of the swing until the energy is that of standing upright.
  double control() const {
    double const missing = 2 * 9.81 - (speed * speed / 2 + 9.81 * (1 - std::cos(angle)));
    return std::clamp(missing * (speed < 0 ? -1.0 : 1.0), -3.0, 3.0);
  }
};

/// What was observed, in batches of 32. A loader without an end, in random order.
class Memory {
 public:
  static constexpr long size = 32;

  void add(Pendulum const& p, double torque) {
    for (double x : {std::sin(p.angle), std::cos(p.angle), p.speed, torque}) inputs_.push_back(static_cast<float>(x));
    targets_.push_back(static_cast<float>(p.acceleration(torque)));
    if (targets_.size() != size) return;
    batches_.emplace_back(torch::tensor(std::exchange(inputs_, {})).view({size, 4}),
                          torch::tensor(std::exchange(targets_, {})).view({size, 1}));
  }
  bool batch_is_ready() const { return !batches_.empty(); }  // an open fit waits until then
  std::vector<Batch> const& batches() const { return batches_; }

  struct Iterator {
    Memory* memory;
    Batch const& operator*() const { return memory->batches_[memory->random_() % memory->batches_.size()]; }
    Iterator& operator++() { return *this; }
    bool operator!=(std::default_sentinel_t) const { return true; }
  };
  Iterator begin() { return {this}; }
  std::default_sentinel_t end() const { return {}; }

 private:
  std::vector<float> inputs_{}, targets_{};
  std::vector<Batch> batches_{};
  std::minstd_rand random_{1};
};

int main(int argc, char** argv) try {
  example::Arguments arguments(argc, argv, "Trains a small net inside of a control loop of 500 Hz.");
  int const seconds = arguments.value("--seconds", 10, "of the simulated time");
  bool const fast = arguments.flag("--fast", "does not wait for the next tick");
  arguments.done();

  torch::set_num_threads(1);
  torch::manual_seed(1);
  Dynamics net;
  Memory memory;
  auto trainer = make_trainer<Dynamics>(TrainerOptions{.max_epochs = 1}, Captured{SingleDevice{cpu}}, NoDefaults{});
  auto fit = trainer.open(net, memory);
  Pendulum pendulum;
  auto const observe_and_step = [&] {
    memory.add(pendulum, pendulum.control());
    pendulum.step(pendulum.control(), 0.002);
  };
  auto const error = [&] {
    torch::NoGradGuard const no_gradients;
    auto const& [inputs, accelerations] = memory.batches().back();
    return torch::mse_loss(net.body->forward(inputs), accelerations).item<double>();
  };
  // The first steps record what later ones replay, and take longer than a tick: they are made before the loop begins.
  while (!memory.batch_is_ready()) observe_and_step();
  double const first_error = error();
  for (int i = 0; i != 16; ++i) fit.advance();

  std::vector<double> took;
  auto next = Clock::now();
  for (int i = 0; i != seconds * 500; ++i, next += 2ms) {
    if (!fast) std::this_thread::sleep_until(next);
    observe_and_step();
    auto const began = Clock::now();
    fit.advance_for(1ms);
    took.push_back(std::chrono::duration<double, std::micro>(Clock::now() - began).count());
  }
  fit.close();
  std::ranges::sort(took);
  auto const at = [&](double share) { return took[static_cast<std::size_t>(share * double(took.size() - 1))]; };
  std::printf("%d s of a loop of 500 Hz; squared error of the acceleration: %.3f at first, %.3f at the end\n", seconds,
              first_error, error());
  std::printf("training took of each tick, with a budget of 1000 us: p50 %.0f us, p99 %.0f us, longest %.0f us\n",
              at(0.5), at(0.99), at(1));
} catch (std::exception const& error) { return example::failed(error); }
