// Ranks as threads of a test, with collectives that are right by their plainness: everybody copies everything.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "src/ddp/group.h"

namespace tutti::test {

class ThreadGroups {
 public:
  explicit ThreadGroups(int size) : size_(size) {}

  struct Call {
    char what;          // 's' sum, 'b' broadcast, 'g' gather
    std::size_t count;  // elements
    bool operator==(const Call&) const = default;
  };

  // The calls that a rank has started, in order.
  std::vector<Call> calls(int rank) {
    const std::lock_guard lock(mutex_);
    return started_[rank];
  }

  std::shared_ptr<ddp::Group> group(int rank) { return std::make_shared<Member>(*this, rank); }

  // Runs f(rank, group) on a thread per rank; returns each rank's exception text, "" for none.
  std::vector<std::string> run(const std::function<void(int, std::shared_ptr<ddp::Group>)>& f) {
    std::vector<std::string> errors(static_cast<std::size_t>(size_));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size_; ++rank)
      threads.emplace_back([&, rank] {
        try {
          f(rank, group(rank));
        } catch (const std::exception& error) {
          errors[static_cast<std::size_t>(rank)] = error.what();
        }
      });
    for (std::thread& thread : threads) thread.join();
    return errors;
  }

 private:
  struct Operation {
    std::map<int, std::vector<std::byte>> inputs;
    std::map<int, Call> by;
  };

  // Contributes to this rank's next operation and returns its number.
  std::size_t start(int rank, Call call, const void* data, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const std::size_t number = started_[rank].size();
    started_[rank].push_back(call);
    const auto* first = static_cast<const std::byte*>(data);
    operations_[number].inputs[rank].assign(first, first + bytes);
    operations_[number].by[rank] = call;
    changed_.notify_all();
    return number;
  }

  bool complete(std::size_t number) {
    const std::lock_guard lock(mutex_);
    return operations_[number].inputs.size() == static_cast<std::size_t>(size_);
  }

  // The inputs of all ranks, once they are there.
  std::map<int, std::vector<std::byte>> wait(std::size_t number) {
    std::unique_lock lock(mutex_);
    const auto there = [&] { return operations_[number].inputs.size() == static_cast<std::size_t>(size_); };
    if (!changed_.wait_for(lock, std::chrono::seconds(30), there)) throw std::runtime_error("a rank never came");
    for (const auto& [rank, call] : operations_[number].by)
      if (!(call == operations_[number].by.at(0))) throw std::runtime_error("the ranks' calls differ");
    return operations_[number].inputs;
  }

  class Sum final : public ddp::PendingSum {
   public:
    Sum(ThreadGroups& all, std::size_t number, void* data, std::size_t count, DataType type)
        : all_(all), number_(number), data_(data), count_(count), type_(type) {}
    bool test() override { return all_.complete(number_); }
    void wait() override {
      const auto inputs = all_.wait(number_);
      if (type_ == DataType::float32)
        add<float>(inputs);
      else
        add<double>(inputs);
    }

   private:
    template <class T>
    void add(const std::map<int, std::vector<std::byte>>& inputs) {
      std::vector<T> sum(count_), one(count_);
      for (const auto& [rank, bytes] : inputs) {
        std::memcpy(one.data(), bytes.data(), bytes.size());
        for (std::size_t i = 0; i < count_; ++i) sum[i] = rank == 0 ? one[i] : sum[i] + one[i];
      }
      std::memcpy(data_, sum.data(), count_ * sizeof(T));
    }
    ThreadGroups& all_;
    std::size_t number_;
    void* data_;
    std::size_t count_;
    DataType type_;
  };

  class Member final : public ddp::Group {
   public:
    Member(ThreadGroups& all, int rank) : all_(all), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return all_.size_; }
    std::unique_ptr<ddp::PendingSum> start_sum(void* data, std::size_t count, DataType type) override {
      const std::size_t number = all_.start(rank_, {'s', count}, data, count * size_of(type));
      return std::make_unique<Sum>(all_, number, data, count, type);
    }
    void broadcast(std::span<std::byte> data, int root) override {
      const auto inputs = all_.wait(all_.start(rank_, {'b', data.size()}, data.data(), data.size()));
      if (!data.empty()) std::memcpy(data.data(), inputs.at(root).data(), data.size());
    }
    void all_gather(std::span<const std::byte> input, std::span<std::byte> output) override {
      for (const auto& [rank, bytes] : all_.wait(all_.start(rank_, {'g', input.size()}, input.data(), input.size())))
        std::memcpy(output.data() + static_cast<std::size_t>(rank) * bytes.size(), bytes.data(), bytes.size());
    }

   private:
    ThreadGroups& all_;
    int rank_;
  };

  int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, std::vector<Call>> started_;
  std::map<std::size_t, Operation> operations_;
};

}  // namespace tutti::test
