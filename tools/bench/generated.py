"""The sources whose compile time P10 compares: a trainer with n callbacks, and its dynamic twin with the same ones, on
the toy tensor.

Every callback is a class of its own with hooks for two events of six. All of one kind include the same headers,
whatever n is."""

# An event, and its arguments for the twin's callbacks.
EVENTS = [
    ('on_fit_start', ''),
    ('on_train_epoch_start', ''),
    ('on_train_batch_start', ', double const&'),
    ('on_train_batch_end', ', toy::Tensor const&, double const&'),
    ('on_train_epoch_end', ''),
    ('on_validation_end', ''),
]

OURS = '''#include <toy.hpp>
#include <fulgurite/loop/trainer.hpp>

struct Net {{
  toy::Tensor p = toy::Tensor::parameter(0.5);
  toy::Tensor training_step(double batch) {{ return p * toy::Tensor(batch); }}
  void validation_step(double) {{}}
  toy::Sgd configure_optimizers() {{ return toy::Sgd{{.params = {{p}}, .rate = 0.01}}; }}
}};
{classes}
int main() {{
  Net net;
  auto trainer = fulgurite::make_trainer<Net>(fulgurite::TrainerOptions{{.max_epochs = 1}}, toy::Device{{}}, fulgurite::Float32{{}}, fulgurite::Automatic{{}}, {uses});
  trainer.fit(net, toy::batches(4), toy::batches(2));
}}
'''
TWINS = '''#include "on_toy.hpp"

struct Net final : twin::Module<twin::Toy> {{
  toy::Tensor p = toy::Tensor::parameter(0.5);
  toy::Tensor training_step(Trainer&, double const& batch) override {{ return p * toy::Tensor(batch); }}
  std::unique_ptr<twin::Optimizer> configure_optimizer() override {{
    return std::make_unique<twin::ToyOptimizer<toy::Sgd>>(toy::Sgd{{.params = {{p}}, .rate = 0.01}});
  }}
}};
{classes}
int main() {{
  Net net;
  twin::Trainer<twin::Toy> trainer({{.max_epochs = 1}});
{uses}
  auto train = toy::batches(4), validation = toy::batches(2);
  twin::RangeLoader<twin::Toy, std::vector<double>> batches(train), val_batches(validation);
  trainer.fit(net, batches, &val_batches);
}}
'''


def events_of(number: int):
    return EVENTS[number % 6], EVENTS[(number + 1 + number // 6 % 5) % 6]


def ours(n: int) -> str:
    classes = []
    for i in range(n):
        hooks = ' '.join(f'void {event}(auto&) {{ ++calls; }}' for event, _ in events_of(i))
        classes.append(f'struct Callback{i} {{ using Stateless = fulgurite::ByChoice; long calls = 0; {hooks} }};')
    return OURS.format(classes='\n'.join(classes), uses=', '.join(f'Callback{i}{{}}' for i in range(n)))


def twins(n: int) -> str:
    classes = []
    for i in range(n):
        hooks = ' '.join(f'void {event}(Trainer&{given}) override {{ ++calls; }}' for event, given in events_of(i))
        classes.append(f'struct Callback{i} final : twin::Callback<twin::Toy> {{ long calls = 0; {hooks} }};')
    return TWINS.format(
        classes='\n'.join(classes), uses='\n'.join(f'  trainer.add(std::make_unique<Callback{i}>());' for i in range(n))
    )
