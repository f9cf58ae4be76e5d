#pragma once
// The layer types that a chain is made of.

#include <fulgurite/torch/chain/convolution.hpp>
#include <fulgurite/torch/chain/linear.hpp>
#include <fulgurite/torch/chain/norm.hpp>
#include <fulgurite/torch/chain/pointwise.hpp>
#include <fulgurite/torch/chain/pooling.hpp>
