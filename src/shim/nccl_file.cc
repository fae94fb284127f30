// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "shim/nccl_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/unique_fd.h"
#include "hook/elf_view.h"

namespace amem {
namespace {

/// A whole file, mapped read-only. Only the pages that are looked at are read from disk: libnccl
/// has 190 MB.
class MappedFile {
 public:
  MappedFile(void* address, size_t size_bytes) : address_(address), size_bytes_(size_bytes) {}
  MappedFile(MappedFile&& other) noexcept
      : address_(std::exchange(other.address_, nullptr)), size_bytes_(other.size_bytes_) {}
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile() {
    if (address_ != nullptr) munmap(address_, size_bytes_);
  }

  std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte*>(address_), size_bytes_};
  }

 private:
  void* address_;
  size_t size_bytes_;
};

Result<MappedFile> map_file(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status;
  if (!fd.valid() || fstat(fd.get(), &status) != 0)
    return os_error(errno, "%s cannot be read", path.c_str());
  if (!S_ISREG(status.st_mode) || status.st_size == 0)
    return make_error(ErrorKind::unsupported, 0, "%s is not a file with contents", path.c_str());
  const auto size_bytes = static_cast<size_t>(status.st_size);
  void* address = mmap(nullptr, size_bytes, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (address == MAP_FAILED) return os_error(errno, "mmap(%s, read)", path.c_str());
  return MappedFile(address, size_bytes);
}

}  // namespace

Result<NcclFileKind> inspect_nccl_file(const std::string& path) {
  auto file = map_file(path);
  if (!file.ok()) return std::move(file.error());
  auto view = ElfView::of_file(file.value().bytes());
  if (!view.ok()) {
    view.error().message = path + " " + view.error().message;
    return std::move(view.error());
  }
  // resolve.c's marker is in each libnccl.so.2 of ours, amemForward in libamem_nccl.so.
  if (view.value().exports("amemShimMarker") || view.value().exports("amemForward"))
    return NcclFileKind::amem;
  return view.value().exports("ncclCommInitRank") ? NcclFileKind::nccl : NcclFileKind::other;
}

}  // namespace amem
