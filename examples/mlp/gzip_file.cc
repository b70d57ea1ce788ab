#include "examples/mlp/gzip_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tutti/error.h"

namespace mlp {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 20;
constexpr std::size_t kLongestLine = std::size_t{4} << 20;

[[noreturn]] void fail_to_open(const std::string& path, int number) {
  throw tutti::Error(tutti::ErrorCode::invalid_argument,
                     path + ": cannot be read: " + std::strerror(number) + " (errno " + std::to_string(number) + ").");
}

}  // namespace

struct GzipFile::Stream {
  gzFile file;
};

GzipFile::GzipFile(const std::string& path) : path_(path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail_to_open(path, errno);
  struct stat status {};
  if (::fstat(fd, &status) != 0 || S_ISDIR(status.st_mode)) {
    const int number = S_ISDIR(status.st_mode) ? EISDIR : errno;
    ::close(fd);
    fail_to_open(path, number);
  }
  const gzFile file = ::gzdopen(fd, "rb");
  if (file == nullptr) {
    ::close(fd);
    fail_to_open(path, ENOMEM);
  }
  ::gzbuffer(file, 256 * 1024);
  stream_ = std::make_unique<Stream>(Stream{file});
}

GzipFile::~GzipFile() {
  if (stream_) ::gzclose(stream_->file);
}

void GzipFile::fail(const std::string& fault) const {
  throw tutti::Error(tutti::ErrorCode::invalid_argument, path_ + ": byte " + std::to_string(offset_) + ": " + fault);
}

std::size_t GzipFile::read(void* data, std::size_t wanted) {
  std::size_t done = 0;
  while (done < wanted) {
    const auto part = static_cast<unsigned>(std::min(wanted - done, kChunk));
    const int n = ::gzread(stream_->file, static_cast<char*>(data) + done, part);
    if (n > 0) {
      done += static_cast<std::size_t>(n);
      offset_ += static_cast<std::uint64_t>(n);
    }
    if (n == static_cast<int>(part)) continue;
    int number = Z_OK;
    const char* text = ::gzerror(stream_->file, &number);
    if (number == Z_BUF_ERROR) fail("the gzip stream is cut off; get the file again.");
    if (number == Z_ERRNO) fail(std::string("cannot be read: ") + std::strerror(errno) + ".");
    if (n < 0) fail(std::string("the gzip stream is damaged (") + text + "); get the file again.");
    break;
  }
  return done;
}

std::vector<std::uint8_t> GzipFile::read_exactly(std::uint64_t wanted, const std::string& what) {
  std::vector<std::uint8_t> bytes;
  while (bytes.size() < wanted) {
    const std::size_t before = bytes.size();
    const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(wanted - before, std::max(kChunk, before)));
    bytes.resize(before + part);
    const std::size_t n = read(bytes.data() + before, part);
    if (n < part)
      fail("the file ends here, in " + what + ", of which " + std::to_string(wanted - before - n) + " of " +
           std::to_string(wanted) + " bytes are missing.");
  }
  return bytes;
}

bool GzipFile::read_line(std::string& line) {
  line.clear();
  for (;;) {
    if (next_ == buffer_.size()) {
      buffer_.resize(kChunk);
      buffer_.resize(read(buffer_.data(), kChunk));
      next_ = 0;
      if (buffer_.empty()) return !line.empty();
    }
    const auto from = buffer_.begin() + static_cast<std::ptrdiff_t>(next_);
    const auto end = std::find(from, buffer_.end(), '\n');
    line.append(from, end);
    if (line.size() > kLongestLine) fail("a line is longer than " + std::to_string(kLongestLine) + " bytes.");
    next_ = static_cast<std::size_t>(end - buffer_.begin());
    if (end == buffer_.end()) continue;
    ++next_;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    return true;
  }
}

}  // namespace mlp
