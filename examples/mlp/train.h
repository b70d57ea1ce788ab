// Trains an Mlp on a Split with the ranks of a communicator: the whole of a data-parallel program in one function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "examples/mlp/data.h"
#include "examples/mlp/mlp.h"
#include "tutti/communicator.h"
#include "tutti/ddp.h"

namespace mlp {

struct Settings {
  std::vector<std::size_t> hidden = {128, 64};
  std::size_t epochs = 10;
  std::size_t batch = 64;  // samples of all ranks together
  float rate = 0.05f;      // at the start; falls along a cosine
  float momentum = 0.9f;
  std::uint64_t seed = 0;  // of the weights and of the order of samples
  tutti::DdpOptions ddp;
  std::string save;       // file for the weights; empty: none
  std::size_t steps = 0;  // stop after so many; 0: after all epochs
};

struct Progress {
  std::size_t epoch = 0;  // from 1
  std::size_t step = 0;   // of this epoch, from 1
  std::size_t steps = 0;  // in an epoch
  double seconds = 0;     // of this epoch so far
  double samples_per_s = 0;
  tutti::DdpStatistics communication;  // of this epoch so far, on this rank
  // At the end of an epoch only, over the samples of all ranks:
  bool epoch_done = false;
  double loss = 0;
  double accuracy = 0;
};

struct Result {
  double test_accuracy = 0;
  double loss = 0;             // of the last epoch's training samples
  std::uint64_t checksum = 0;  // of the weights, the same on all ranks
  double seconds = 0;
};

// Every rank calls it with the same split and settings (checked). `report` is called after every step on this rank.
// Throws tutti::Error, also when the ranks' weights differ in any bit at the end. The weights stay in `model`.
Result train(tutti::Communicator& world, const Split& split, const Settings& settings, Mlp& model,
             const std::function<void(const Progress&)>& report);

// Text header ("tutti-mlp 1", "widths 64 128 64 10"), then the parameters in their order as float32 of this machine's
// byte order. The file appears whole or not at all.
void save_weights(const std::string& path, Mlp& model);

}  // namespace mlp
