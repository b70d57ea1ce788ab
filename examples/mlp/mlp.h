// A multi-layer perceptron for classification: dense layers with ReLU between them, softmax cross-entropy at the end.
// The products are OpenBLAS's; everything else is here to be read.
//
//   layer l:  h[l+1] = relu(h[l] W[l] + b[l]),  the last without relu
//   loss:     mean over the samples of  log(sum of exp(z)) - z[label]
//
// Thread safety: none; one model per rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "tutti/ddp.h"

namespace mlp {

class Mlp {
 public:
  struct Score {
    double loss = 0;          // sum over the samples
    std::size_t correct = 0;  // samples whose greatest output is the label's
  };

  // widths: inputs, hidden layers, classes. He initialisation from the seed, biases 0.
  Mlp(std::vector<std::size_t> widths, std::uint64_t seed);

  // First layer first: weight (inputs x outputs), bias. The backward pass finishes them in reverse.
  std::vector<tutti::Parameter> parameters();
  const std::vector<std::size_t>& widths() const { return widths_; }

  // Runs the network on rows of widths()[0] numbers.
  Score forward(std::span<const float> rows, std::span<const std::uint32_t> labels);
  // The gradients of the mean loss of the samples of the last forward(); calls ready(p) as soon as that of parameter p
  // is complete. Without samples gradients are 0. Once per forward(), whose results it uses up.
  void backward(const std::function<void(std::size_t)>& ready);

 private:
  struct Layer {
    std::size_t inputs, outputs;
    std::vector<float> weight, bias, weight_gradient, bias_gradient;
    std::vector<float> output;  // of the last forward(), and later the loss's gradient by it
  };

  std::vector<std::size_t> widths_;
  std::vector<Layer> layers_;
  std::vector<float> input_;
  std::vector<std::uint32_t> labels_;
};

// Stochastic gradient descent: velocity = momentum * velocity + gradient; data -= rate * velocity.
class Sgd {
 public:
  Sgd(std::vector<tutti::Parameter> parameters, float momentum);
  void step(float rate);

 private:
  std::vector<tutti::Parameter> parameters_;
  std::vector<std::vector<float>> velocity_;
  float momentum_;
};

// From `rate` at the first step down to 0 after the last, along half a cosine.
float cosine_rate(float rate, std::size_t step, std::size_t steps);

// Lets OpenBLAS use the cores of this process's ranks and no more: max(1, cores / ranks on this host). Returns that.
int share_cores(int local_ranks);

}  // namespace mlp
