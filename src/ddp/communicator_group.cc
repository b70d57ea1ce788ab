#include "src/ddp/group.h"
#include "tutti/communicator.h"
#include "tutti/ddp.h"

namespace tutti::ddp {
namespace {

class CommunicatorSum final : public PendingSum {
 public:
  explicit CommunicatorSum(Work work) : work_(std::move(work)) {}
  void wait() override { work_.wait(); }
  bool test() override { return work_.test(); }

 private:
  Work work_;
};

class CommunicatorGroup final : public Group {
 public:
  explicit CommunicatorGroup(Communicator& communicator) : communicator_(communicator) {}
  int rank() const override { return communicator_.rank(); }
  int size() const override { return communicator_.size(); }
  std::unique_ptr<PendingSum> start_sum(void* data, std::size_t count, DataType type) override {
    return std::make_unique<CommunicatorSum>(communicator_.all_reduce_async(data, data, count, type, ReduceOp::sum));
  }
  void broadcast(std::span<std::byte> data, int root) override {
    communicator_.broadcast(data.data(), data.size(), DataType::uint8, root);
  }
  void all_gather(std::span<const std::byte> input, std::span<std::byte> output) override {
    communicator_.all_gather(input.data(), output.data(), input.size(), DataType::uint8);
  }

 private:
  Communicator& communicator_;
};

}  // namespace

std::shared_ptr<Group> group_of(Communicator& communicator) {
  return std::make_shared<CommunicatorGroup>(communicator);
}

}  // namespace tutti::ddp

namespace tutti {

Ddp::Ddp(Communicator& communicator, std::vector<Parameter> parameters, DdpOptions options)
    : Ddp(ddp::group_of(communicator), std::move(parameters), options) {}

}  // namespace tutti
