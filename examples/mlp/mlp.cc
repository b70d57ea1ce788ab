#include "examples/mlp/mlp.h"

#include <cblas.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tutti/error.h"

namespace mlp {
namespace {

// Normal numbers by Box and Muller: the same on every platform, which std::normal_distribution is not.
class Normal {
 public:
  explicit Normal(std::uint64_t seed) : random_(seed) {}
  float next() {
    const double u = 1.0 - uniform(), v = uniform();
    return static_cast<float>(std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * 3.14159265358979323846 * v));
  }

 private:
  double uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  std::mt19937_64 random_;
};

// c (rows x columns) = a b + beta c, of row-major matrices; `inner` is the extent that is summed over.
void multiply(CBLAS_TRANSPOSE transpose_a, CBLAS_TRANSPOSE transpose_b, std::size_t rows, std::size_t columns,
              std::size_t inner, const float* a, const float* b, float beta, float* c) {
  const auto n = [](std::size_t extent) { return static_cast<blasint>(extent); };
  cblas_sgemm(CblasRowMajor, transpose_a, transpose_b, n(rows), n(columns), n(inner), 1.0f, a,
              n(transpose_a == CblasNoTrans ? inner : rows), b, n(transpose_b == CblasNoTrans ? columns : inner), beta,
              c, n(columns));
}

// Turns one row of outputs into its softmax minus the one-hot label, scaled: the gradient of the loss. Returns the
// loss.
double softmax_loss(float* row, std::size_t classes, std::uint32_t label, float scale) {
  const float greatest = *std::max_element(row, row + classes);
  double sum = 0;
  for (std::size_t k = 0; k < classes; ++k) sum += std::exp(static_cast<double>(row[k]) - greatest);
  const double log_sum = greatest + std::log(sum);
  const double loss = log_sum - row[label];
  for (std::size_t k = 0; k < classes; ++k)
    row[k] = static_cast<float>(std::exp(row[k] - log_sum) - (k == label ? 1.0 : 0.0)) * scale;
  return loss;
}

}  // namespace

Mlp::Mlp(std::vector<std::size_t> widths, std::uint64_t seed) : widths_(std::move(widths)) {
  if (widths_.size() < 2 || std::count(widths_.begin(), widths_.end(), 0u) > 0)
    throw tutti::Error(tutti::ErrorCode::invalid_argument,
                       "Mlp: the widths are inputs, hidden layers, classes: at least two numbers, each at least 1.");
  Normal normal(seed);
  for (std::size_t l = 0; l + 1 < widths_.size(); ++l) {
    Layer layer{widths_[l], widths_[l + 1], {}, {}, {}, {}, {}};
    layer.weight.resize(layer.inputs * layer.outputs);
    const float deviation = std::sqrt(2.0f / static_cast<float>(layer.inputs));
    for (float& w : layer.weight) w = deviation * normal.next();
    layer.bias.resize(layer.outputs);
    layer.weight_gradient.resize(layer.weight.size());
    layer.bias_gradient.resize(layer.outputs);
    layers_.push_back(std::move(layer));
  }
}

std::vector<tutti::Parameter> Mlp::parameters() {
  std::vector<tutti::Parameter> all;
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    Layer& layer = layers_[l];
    const std::string name = "layer" + std::to_string(l);
    all.push_back({name + ".weight", layer.weight.data(), layer.weight_gradient.data(), {layer.inputs, layer.outputs}});
    all.push_back({name + ".bias", layer.bias.data(), layer.bias_gradient.data(), {layer.outputs}});
  }
  return all;
}

Mlp::Score Mlp::forward(std::span<const float> rows, std::span<const std::uint32_t> labels) {
  const std::size_t samples = labels.size();
  if (rows.size() != samples * widths_.front())
    throw tutti::Error(tutti::ErrorCode::invalid_argument,
                       "Mlp: " + std::to_string(samples) + " labels come with " + std::to_string(rows.size()) +
                           " inputs; valid: " + std::to_string(widths_.front()) + " each.");
  input_.assign(rows.begin(), rows.end());
  labels_.assign(labels.begin(), labels.end());
  const std::vector<float>* input = &input_;
  for (Layer& layer : layers_) {
    layer.output.resize(samples * layer.outputs);
    for (std::size_t i = 0; i < samples; ++i)
      std::copy(layer.bias.begin(), layer.bias.end(),
                layer.output.begin() + static_cast<std::ptrdiff_t>(i * layer.outputs));
    if (samples > 0)
      multiply(CblasNoTrans, CblasNoTrans, samples, layer.outputs, layer.inputs, input->data(), layer.weight.data(), 1,
               layer.output.data());
    if (&layer != &layers_.back())
      for (float& h : layer.output) h = std::max(h, 0.0f);
    input = &layer.output;
  }
  Score score;
  const std::size_t classes = widths_.back();
  for (std::size_t i = 0; i < samples; ++i) {
    float* row = layers_.back().output.data() + i * classes;
    const auto best = static_cast<std::uint32_t>(std::max_element(row, row + classes) - row);
    score.correct += best == labels[i];
    score.loss += softmax_loss(row, classes, labels[i], 1.0f / static_cast<float>(samples));
  }
  return score;
}

void Mlp::backward(const std::function<void(std::size_t)>& ready) {
  const std::size_t samples = labels_.size();
  for (std::size_t l = layers_.size(); l-- > 0;) {
    Layer& layer = layers_[l];
    const std::vector<float>& delta = layer.output;  // the loss's gradient by this layer's output
    std::fill(layer.bias_gradient.begin(), layer.bias_gradient.end(), 0.0f);
    for (std::size_t i = 0; i < samples; ++i)
      for (std::size_t k = 0; k < layer.outputs; ++k) layer.bias_gradient[k] += delta[i * layer.outputs + k];
    ready(2 * l + 1);
    std::vector<float>& input = l > 0 ? layers_[l - 1].output : input_;
    if (samples > 0)
      multiply(CblasTrans, CblasNoTrans, layer.inputs, layer.outputs, samples, input.data(), delta.data(), 0,
               layer.weight_gradient.data());
    else
      std::fill(layer.weight_gradient.begin(), layer.weight_gradient.end(), 0.0f);
    ready(2 * l);
    if (l == 0 || samples == 0) continue;
    std::vector<float> passed(input.size());
    multiply(CblasNoTrans, CblasTrans, samples, layer.inputs, layer.outputs, delta.data(), layer.weight.data(), 0,
             passed.data());
    for (std::size_t i = 0; i < passed.size(); ++i) passed[i] = input[i] > 0 ? passed[i] : 0.0f;
    input = std::move(passed);
  }
}

Sgd::Sgd(std::vector<tutti::Parameter> parameters, float momentum)
    : parameters_(std::move(parameters)), momentum_(momentum) {
  for (const tutti::Parameter& parameter : parameters_) velocity_.emplace_back(parameter.count());
}

void Sgd::step(float rate) {
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    auto* data = static_cast<float*>(parameters_[p].data);
    const auto* gradient = static_cast<const float*>(parameters_[p].gradient);
    std::vector<float>& velocity = velocity_[p];
    for (std::size_t i = 0; i < velocity.size(); ++i) {
      velocity[i] = momentum_ * velocity[i] + gradient[i];
      data[i] -= rate * velocity[i];
    }
  }
}

float cosine_rate(float rate, std::size_t step, std::size_t steps) {
  const double done = static_cast<double>(step) / static_cast<double>(std::max<std::size_t>(steps, 1));
  return static_cast<float>(rate * 0.5 * (1.0 + std::cos(3.14159265358979323846 * done)));
}

int share_cores(int local_ranks) {
  cpu_set_t set;
  const int cores = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  const int threads = std::max(1, cores / std::max(1, local_ranks));
  openblas_set_num_threads(threads);
  return threads;
}

}  // namespace mlp
