#pragma once
// Names that users forward-declare or specialise; includes nothing.

namespace fulgurite {

struct TrainerOptions;
struct Automatic;
struct Manual;
struct Float32;
struct Float64;
struct Bf16Mixed;
struct Fp16Mixed;
struct Bf16True;
struct Fp16True;
struct NoValidation;
struct ByChoice;

template <class Device>
class SingleDevice;
template <class Model, class Strategy, class Precision, class Optimization, class... Callbacks>
class Trainer;
template <class Run, class Phase>
class RunContext;
template <class... Hooks>
struct Implements;
template <auto... Metrics>
struct MetricList;
template <class... Metrics>
struct MetricTypes;

}  // namespace fulgurite
