#pragma once
// A toy tensor: one number with reverse-mode gradients. Enough to run every loop of the library, and to count what it
// does.

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_set>
#include <utility>
#include <vector>

namespace toy {

struct Node {
  enum class Op : std::uint8_t { leaf, add, multiply };
  double value = 0;
  double grad = 0;
  bool has_grad = false;
  bool requires_grad = false;
  Op op = Op::leaf;
  std::shared_ptr<Node> a, b;
};

inline constinit thread_local bool grad_enabled = true;

/// While a step is recorded, what was done to tensors, to be done again: values, clearing, backward.
using Tape = std::vector<std::function<void()>>;
inline Tape* tape = nullptr;

class Tensor {
 public:
  Tensor() = default;
  Tensor(double value) : node_(std::make_shared<Node>()) { node_->value = value; }
  static Tensor parameter(double value) {
    Tensor t(value);
    t.node_->requires_grad = true;
    return t;
  }

  bool defined() const { return node_ != nullptr; }
  double value() const { return node_->value; }
  double grad() const { return node_->has_grad ? node_->grad : 0.0; }
  bool has_grad() const { return node_->has_grad; }
  bool requires_grad() const { return node_->requires_grad; }
  void set_requires_grad(bool on) const { node_->requires_grad = on; }
  void set(double value) const { node_->value = value; }
  void set_grad(double grad) const {
    node_->grad = grad;
    node_->has_grad = true;
  }
  void clear_grad() const {
    node_->grad = 0;
    node_->has_grad = false;
    record([n = node_] {
      n->grad = 0;
      n->has_grad = false;
    });
  }
  Tensor detach() const {
    Tensor t(value());
    record([to = t.node_, from = node_] { to->value = from->value; });
    return t;
  }
  std::shared_ptr<Node> const& node() const { return node_; }

  void backward(double seed = 1.0) const {
    record([t = *this, seed] { t.backward(seed); });
    if (node_->op == Node::Op::leaf) return accumulate(node_.get(), seed);
    std::vector<Node*> order;
    std::unordered_set<Node*> seen;
    visit(node_.get(), order, seen);
    for (Node* n : order) n->op == Node::Op::leaf ? void() : void(n->grad = 0);
    node_->grad = seed;
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      Node* n = *it;
      if (n->op == Node::Op::add) {
        accumulate(n->a.get(), n->grad);
        accumulate(n->b.get(), n->grad);
      } else if (n->op == Node::Op::multiply) {
        accumulate(n->a.get(), n->grad * n->b->value);
        accumulate(n->b.get(), n->grad * n->a->value);
      }
    }
  }

  friend Tensor operator+(Tensor const& x, Tensor const& y) { return made(Node::Op::add, x.value() + y.value(), x, y); }
  friend Tensor operator*(Tensor const& x, Tensor const& y) {
    return made(Node::Op::multiply, x.value() * y.value(), x, y);
  }
  friend Tensor operator-(Tensor const& x) { return x * Tensor(-1.0); }
  friend Tensor operator-(Tensor const& x, Tensor const& y) { return x + -y; }

 private:
  template <class F>
  static void record(F&& again) {
    if (tape) tape->emplace_back(std::forward<F>(again));
  }
  static Tensor made(Node::Op op, double value, Tensor const& x, Tensor const& y) {
    Tensor t(value);
    record([to = t.node_, a = x.node_, b = y.node_, op] {
      to->value = op == Node::Op::add ? a->value + b->value : a->value * b->value;
    });
    if (!grad_enabled) return t;
    t.node_->op = op;
    t.node_->a = x.node_;
    t.node_->b = y.node_;
    return t;
  }
  static void visit(Node* n, std::vector<Node*>& order, std::unordered_set<Node*>& seen) {
    if (!n || !seen.insert(n).second) return;
    visit(n->a.get(), order, seen);
    visit(n->b.get(), order, seen);
    order.push_back(n);
  }
  static void accumulate(Node* n, double by) {
    if (n->op != Node::Op::leaf) {
      n->grad += by;
    } else if (n->requires_grad) {
      n->grad = (n->has_grad ? n->grad : 0.0) + by;
      n->has_grad = true;
    }
  }

  std::shared_ptr<Node> node_;
};

}  // namespace toy
