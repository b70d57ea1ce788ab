#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "examples/mlp/mlp.h"
#include "tutti/error.h"

namespace {

struct Batch {
  std::vector<float> rows;
  std::vector<std::uint32_t> labels;
};

Batch random_batch(std::size_t samples, std::size_t features, std::size_t classes) {
  std::mt19937 random(11);
  std::uniform_real_distribution<float> value(-1, 1);
  Batch batch;
  for (std::size_t i = 0; i < samples * features; ++i) batch.rows.push_back(value(random));
  for (std::size_t i = 0; i < samples; ++i) batch.labels.push_back(static_cast<std::uint32_t>(random() % classes));
  return batch;
}

}  // namespace

TEST_CASE("the gradients are the slopes of the loss") {
  mlp::Mlp model({5, 7, 6, 4}, 4);  // a seed that leaves no unit on the kink of its ReLU
  const Batch batch = random_batch(9, 5, 4);
  const auto mean_loss = [&] { return model.forward(batch.rows, batch.labels).loss / 9; };
  mean_loss();
  std::vector<std::size_t> order;
  model.backward([&](std::size_t p) { order.push_back(p); });
  CHECK(order == std::vector<std::size_t>{5, 4, 3, 2, 1, 0});
  for (const tutti::Parameter& parameter : model.parameters()) {
    auto* data = static_cast<float*>(parameter.data);
    const auto* gradient = static_cast<const float*>(parameter.gradient);
    const std::vector<float> computed(gradient, gradient + parameter.count());
    for (std::size_t i = 0; i < parameter.count(); ++i) {
      const float kept = data[i], h = 1e-3f;
      data[i] = kept + h;
      const double above = mean_loss();
      data[i] = kept - h;
      const double below = mean_loss();
      data[i] = kept;
      CAPTURE(parameter.name, i);
      CHECK(computed[i] == Approx((above - below) / (2 * h)).margin(1e-3).epsilon(0.01));
    }
  }
}

TEST_CASE("the loss is right and stays finite for great outputs") {
  mlp::Mlp model({2, 3}, 0);
  auto* weight = static_cast<float*>(model.parameters()[0].data);
  const float values[] = {1, 2, 3, 0, 0, 0};
  std::copy(values, values + 6, weight);
  const std::vector<std::uint32_t> label = {1};
  const auto score = model.forward(std::vector<float>{1, 5}, label);
  CHECK(score.loss == Approx(std::log(std::exp(1.0) + std::exp(2.0) + std::exp(3.0)) - 2).epsilon(1e-6));
  CHECK(score.correct == 0);
  CHECK(model.forward(std::vector<float>{1000, 0}, label).loss == Approx(1000));
  CHECK(model.forward(std::vector<float>{-1000, 0}, label).loss == Approx(1000));
  model.backward([](std::size_t) {});
  const auto* gradient = static_cast<const float*>(model.parameters()[0].gradient);
  for (int i = 0; i < 6; ++i) CHECK(std::isfinite(gradient[i]));
}

TEST_CASE("a batch without samples has no loss and gradients of 0") {
  mlp::Mlp model({3, 4, 2}, 1);
  const auto score = model.forward({}, {});
  CHECK(score.loss == 0);
  model.backward([](std::size_t) {});
  for (const tutti::Parameter& parameter : model.parameters())
    for (std::size_t i = 0; i < parameter.count(); ++i) CHECK(static_cast<const float*>(parameter.gradient)[i] == 0);
}

TEST_CASE("weights are drawn as He says, biases are 0, and the seed decides") {
  mlp::Mlp model({200, 300, 2}, 5), same({200, 300, 2}, 5), other({200, 300, 2}, 6);
  const auto weights = [](mlp::Mlp& m) {
    const tutti::Parameter p = m.parameters()[0];
    return std::vector<float>(static_cast<float*>(p.data), static_cast<float*>(p.data) + p.count());
  };
  const std::vector<float> drawn = weights(model);
  CHECK(drawn == weights(same));
  CHECK(drawn != weights(other));
  double sum = 0, squares = 0;
  for (const float w : drawn) {
    sum += w;
    squares += double{w} * w;
  }
  const double n = static_cast<double>(drawn.size());
  CHECK(sum / n == Approx(0).margin(0.002));
  CHECK(std::sqrt(squares / n) == Approx(std::sqrt(2.0 / 200)).epsilon(0.01));
  for (int i = 0; i < 300; ++i) CHECK(static_cast<float*>(model.parameters()[1].data)[i] == 0);
}

TEST_CASE("SGD adds up momentum, and the rate falls along a cosine") {
  float data = 10, gradient = 1;
  mlp::Sgd sgd({{"x", &data, &gradient, {}}}, 0.5f);
  sgd.step(1);
  CHECK(data == 9);
  sgd.step(1);
  CHECK(data == 7.5f);
  sgd.step(2);
  CHECK(data == 4);
  CHECK(mlp::cosine_rate(0.2f, 0, 100) == 0.2f);
  CHECK(mlp::cosine_rate(0.2f, 50, 100) == Approx(0.1));
  CHECK(mlp::cosine_rate(0.2f, 100, 100) == Approx(0).margin(1e-9));
}

TEST_CASE("widths and batches that do not fit are refused") {
  CHECK_THROWS_AS(mlp::Mlp({3}, 0), tutti::Error);
  CHECK_THROWS_AS(mlp::Mlp({3, 0, 2}, 0), tutti::Error);
  mlp::Mlp model({3, 2}, 0);
  CHECK_THROWS_AS(model.forward(std::vector<float>(4), std::vector<std::uint32_t>{1}), tutti::Error);
}
