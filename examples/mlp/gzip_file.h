// A file read from front to back, plain or gzip alike, that knows where it is: every fault names file and byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mlp {

class GzipFile {
 public:
  explicit GzipFile(const std::string& path);
  GzipFile(const GzipFile&) = delete;
  ~GzipFile();

  const std::string& path() const { return path_; }
  std::uint64_t offset() const { return offset_; }  // bytes handed out so far, after decompression

  // Up to `wanted` bytes; fewer only at the end of the file. Throws for a damaged or cut gzip stream.
  std::size_t read(void* data, std::size_t wanted);
  // Exactly `wanted` bytes. `what` is for the error of a file that ends before. The memory grows with what is there,
  // not with what a header promises.
  std::vector<std::uint8_t> read_exactly(std::uint64_t wanted, const std::string& what);
  // The next line without its end ("\n" or "\r\n"); false at the end of the file.
  bool read_line(std::string& line);

  // Throws Error(invalid_argument): "<path>: byte <offset>: <fault>".
  [[noreturn]] void fail(const std::string& fault) const;

 private:
  struct Stream;
  std::string path_;
  std::unique_ptr<Stream> stream_;
  std::uint64_t offset_ = 0;
  std::vector<char> buffer_;  // of read_line
  std::size_t next_ = 0;
};

}  // namespace mlp
