// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// NCCL's driver calls as they land in the hooks, on a driver that only counts.
#include "clients/nccl/driver_calls/entry_points.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <vector>

#include "clients/nccl/driver_calls/testdata/hooked_calls.h"
#include "memory/registered_range.h"
#include "tests/support/nccl_objects.h"
#include "tests/support/no_exchange.h"

namespace amem {
namespace {

constexpr DriverHandle kReal = 0x7f0000001000;
int g_creates, g_releases, g_maps, g_unmaps, g_binds;

class Hooks : public testing::Test {
 protected:
  Hooks() {
    g_creates = g_releases = g_maps = g_unmaps = g_binds = 0;
    driver_.cuMemCreate = [](DriverHandle* handle, size_t, const AllocationProperties*,
                             unsigned long long) {
      *handle = kReal + static_cast<DriverHandle>(g_creates++);
      return 0;
    };
    driver_.cuMemRelease = [](DriverHandle) { return g_releases++, 0; };
    driver_.cuMemMap = [](DeviceAddress, size_t, size_t, DriverHandle, unsigned long long) {
      return g_maps++, 0;
    };
    driver_.cuMemUnmap = [](DeviceAddress, size_t) { return g_unmaps++, 0; };
    driver_.cuMemSetAccess = [](DeviceAddress, size_t, const Access*, size_t) { return 0; };
    driver_.cuMulticastBindMem = [](DriverHandle, size_t, DriverHandle memory, size_t, size_t,
                                    unsigned long long) {
      g_binds += memory == kReal ? 1 : 100;
      return 0;
    };
    driver_.cuMulticastBindAddr = [](DriverHandle, size_t, DeviceAddress, size_t,
                                     unsigned long long) { return 0; };
    driver_.cuMemGetHandleForAddressRange = [](void*, DeviceAddress, size_t, int,
                                               unsigned long long) { return 0; };
    driver_.cuMemGetAllocationPropertiesFromHandle = [](AllocationProperties*, DriverHandle) {
      return 0;
    };
    driver_.cuCtxGetCurrent = [](DriverContext* context) {
      return *context = nullptr, driver_result::kSuccess;
    };
    rebuild({});
  }

  void rebuild(const VirtualMemory::Settings& settings) {
    objects_.emplace(driver_, registry_, exchange_, peers_, settings);
    objects_->activate();
  }

  DriverHandle create() {
    AllocationProperties properties{};
    properties.requested_handle_types = kHandleTypeFd;
    properties.location = {kLocationDevice, 0};
    DriverHandle handle = 0;
    EXPECT_EQ(hooked_cuMemCreate(&handle, kSize, &properties, 0), 0);
    return handle;
  }
  DriverHandle create_mapped() {
    const DriverHandle handle = create();
    EXPECT_EQ(hooked_cuMemMap(kAddress, kSize, 0, handle, 0), 0);
    return handle;
  }
  Allocation& find(DriverHandle handle) {
    MutexLock lock(registry_.mutex);
    return *registry_.find_handle(handle);
  }

  static constexpr size_t kSize = 2 << 20;
  static constexpr DeviceAddress kAddress = 0x10000000;
  Driver driver_;
  Registry registry_;
  PeerTable peers_;
  NoExchange exchange_;
  std::optional<NcclObjects> objects_;
};

TEST_F(Hooks, CreateGivesATaggedHandleAndReleaseGivesTheMemoryBack) {
  const DriverHandle handle = create();

  EXPECT_TRUE(is_our_handle(handle));
  EXPECT_EQ(hooked_cuMemRelease(handle), 0);
  EXPECT_EQ(g_releases, 1);
  EXPECT_EQ(hooked_cuMemRelease(handle), driver_result::kInvalidValue);
}

// ncclCuMemFree: Retain, Release, GetAddressRange, Unmap, Release (alloc.h:334@v2.30.7-1).
TEST_F(Hooks, NcclsOrderOfFreeingWorksWhileResidentAndWhileAway) {
  for (const bool away : {false, true}) {
    const DriverHandle handle = create_mapped();
    if (away) {
      MutexLock lock(registry_.mutex);
      Backing& backing = registry_.backing_of(*registry_.find_handle(handle));
      backing.state = BackingState::released;
      backing.handle = 0;
      backing.placements[0].mapped = backing.placements[0].accessible = false;
    }
    const int unmaps = g_unmaps, releases = g_releases;
    DriverHandle retained = 0;
    DeviceAddress base = 0;
    size_t size_bytes = 0;

    EXPECT_EQ(
        hooked_cuMemRetainAllocationHandle(&retained, reinterpret_cast<void*>(kAddress + 4097)), 0);
    EXPECT_EQ(retained, handle);
    EXPECT_EQ(hooked_cuMemRelease(handle), 0);
    EXPECT_EQ(hooked_cuMemGetAddressRange_v2(&base, &size_bytes, kAddress + 5), 0);
    EXPECT_EQ(base, kAddress);
    EXPECT_EQ(hooked_cuMemUnmap(kAddress, size_bytes), 0);
    EXPECT_EQ(hooked_cuMemRelease(retained), 0);

    EXPECT_EQ(g_unmaps - unmaps, away ? 0 : 1);
    EXPECT_EQ(g_releases - releases, away ? 0 : 1);
  }
}

TEST_F(Hooks, WhatLeavesTheTablesIsPinned) {
  const DriverHandle bound = create();
  EXPECT_EQ(hooked_cuMulticastBindMem(1, 0, bound, 0, kSize, 0), 0);
  EXPECT_EQ(g_binds, 1);
  EXPECT_EQ(find(bound).kind, Kind::persistent);

  const DriverHandle by_address = create_mapped();
  EXPECT_EQ(hooked_cuMulticastBindAddr(1, 0, kAddress, kSize, 0), 0);
  EXPECT_EQ(find(by_address).kind, Kind::persistent);

  static DriverHandle g_endpoint_memory;
  driver_.cuLogicalEndpointBindMem = [](uint32_t, int, uint64_t, DriverHandle memory, uint64_t,
                                        uint64_t, unsigned long long) {
    g_endpoint_memory = memory;
    return driver_result::kSuccess;
  };
  driver_.cuLogicalEndpointBindAddr = [](uint32_t, int, uint64_t, DeviceAddress, uint64_t,
                                         unsigned long long) { return driver_result::kSuccess; };
  const DriverHandle endpoint = create();
  EXPECT_EQ(hooked_cuLogicalEndpointBindMem(7, 0, 0, endpoint, 0, kSize, 0), 0);
  EXPECT_FALSE(is_our_handle(g_endpoint_memory)) << "the driver knows its own handles alone";
  EXPECT_EQ(find(endpoint).kind, Kind::persistent);
  EXPECT_EQ(hooked_cuLogicalEndpointBindMem(7, 0, 0, 4711, 0, kSize, 0), 0);
  EXPECT_EQ(g_endpoint_memory, 4711u);
  EXPECT_EQ(hooked_cuMemUnmap(kAddress, kSize), 0);
  const DriverHandle endpoint_address = create_mapped();
  EXPECT_EQ(hooked_cuLogicalEndpointBindAddr(7, 0, 0, kAddress, kSize, 0), 0);
  EXPECT_EQ(find(endpoint_address).kind, Kind::persistent);

  driver_.cuMemExportToShareableHandle = [](void*, DriverHandle, int type, unsigned long long) {
    return type == kHandleTypeFabric ? driver_result::kSuccess : driver_result::kInvalidValue;
  };
  const DriverHandle exported = create();
  char shareable[64];
  EXPECT_EQ(hooked_cuMemExportToShareableHandle(shareable, exported, kHandleTypeFabric, 0), 0);
  EXPECT_EQ(find(exported).kind, Kind::persistent);
}

/// Memory for fabric handles, of which the last one is kept.
class FabricHooks : public Hooks {
 protected:
  FabricHooks() {
    g_driver_exports = 0;
    driver_.cuMemCreate = [](DriverHandle* handle, size_t, const AllocationProperties* properties,
                             unsigned long long) {
      *handle = 0x7f5500001000;
      g_types = properties->requested_handle_types;
      return driver_result::kSuccess;
    };
    driver_.cuMemExportToShareableHandle = [](void* bytes, DriverHandle, int, unsigned long long) {
      ++g_driver_exports;
      std::memset(bytes, 0xd7, kIpcHandleBytes);
      return driver_result::kSuccess;
    };
  }
  DriverHandle create_for(int types) {
    AllocationProperties properties{};
    properties.location.type = kLocationDevice;
    properties.requested_handle_types = types;
    DriverHandle handle = 0;
    EXPECT_EQ(hooked_cuMemCreate(&handle, kSize, &properties, 0), 0);
    return handle;
  }
  DriverResult export_fabric(DriverHandle handle) {
    return hooked_cuMemExportToShareableHandle(bytes_.data(), handle, kHandleTypeFabric, 0);
  }
  DriverResult import_fabric(DriverHandle* handle) {
    return hooked_cuMemImportFromShareableHandle(handle, bytes_.data(), kHandleTypeFabric);
  }

  IpcHandleBytes bytes_{};
  static inline int g_driver_exports = 0, g_types = 0;
};

TEST_F(FabricHooks, MemoryIsExportedAsATokenIfAllImportersAreHere) {
  exchange_.fabric_handle = IpcHandleBytes{1, 2, 3};
  const DriverHandle handle = create_for(kHandleTypeFabric);
  EXPECT_EQ(g_types, kHandleTypeFabric | kHandleTypeFd) << "processes of this host use descriptors";
  EXPECT_EQ(export_fabric(handle), 0);
  EXPECT_EQ(bytes_, *exchange_.fabric_handle);
  EXPECT_EQ(g_driver_exports, 0);
  EXPECT_EQ(find(handle).kind, Kind::keep);
}

TEST_F(FabricHooks, OtherwiseTheHandleIsTheDriversAndTheMemoryStays) {
  const DriverHandle handle = create_for(kHandleTypeFabric);
  EXPECT_EQ(export_fabric(handle), 0);
  EXPECT_EQ(bytes_.back(), 0xd7);
  EXPECT_EQ(find(handle).kind, Kind::persistent);
  EXPECT_STREQ(find(handle).persistent_because, "exported as a fabric handle");
}

TEST_F(FabricHooks, MemoryWithoutFabricHandlesIsLeftToTheDriver) {
  exchange_.fabric_handle = IpcHandleBytes{1, 2, 3};
  for (const int types : {0, kHandleTypeFd}) {
    const DriverHandle handle = create_for(types);
    EXPECT_EQ(g_types, types);
    EXPECT_EQ(export_fabric(handle), 0);
    EXPECT_EQ(bytes_.back(), 0xd7) << types;
  }
}

TEST_F(FabricHooks, ImportOfAHandleOfTheDriverIsTheDrivers) {
  driver_.cuMemImportFromShareableHandle = [](DriverHandle* handle, void* bytes, int type) {
    EXPECT_EQ(type, kHandleTypeFabric);
    EXPECT_NE(bytes, nullptr);
    *handle = 4711;
    return driver_result::kSuccess;
  };
  DriverHandle handle = 0;
  EXPECT_EQ(import_fabric(&handle), 0);
  EXPECT_EQ(handle, 4711u);
  exchange_.imported = DriverHandle{kHandleTag | 5};
  EXPECT_EQ(import_fabric(&handle), 0);
  EXPECT_EQ(handle, kHandleTag | 5);
  exchange_.imported = make_error(ErrorKind::driver, driver_result::kInvalidValue, "it has ended");
  EXPECT_EQ(import_fabric(&handle), driver_result::kInvalidValue);
  exchange_.imported = make_error(ErrorKind::os, EMFILE, "no descriptors");
  EXPECT_EQ(import_fabric(&handle), driver_result::kUnknown);
}

/// With AMEM_RELEASE_MULTICAST=1.
class BoundHooks : public Hooks {
 protected:
  BoundHooks() {
    g_unbinds = 0;
    rebuild({.releases_multicast = true});
    driver_.cuMulticastUnbind = [](DriverHandle, int, size_t, size_t) {
      return ++g_unbinds, driver_result::kSuccess;
    };
  }
  DriverHandle create_bound(size_t object_offset = 0) {
    const DriverHandle handle = create();
    EXPECT_EQ(hooked_cuMulticastBindMem(kObject, object_offset, handle, 0, kSize, 0), 0);
    EXPECT_EQ(find(handle).kind, Kind::keep);
    EXPECT_EQ(find(handle).registering, 0);
    return handle;
  }
  size_t binds(DriverHandle handle) {
    MutexLock lock(registry_.mutex);
    return registry_.backing_of(*registry_.find_handle(handle)).multicast_binds.size();
  }
  /// As a pause does.
  void release(DriverHandle handle) {
    MutexLock lock(registry_.mutex);
    Backing& backing = registry_.backing_of(*registry_.find_handle(handle));
    backing.state = BackingState::released;
    backing.handle = 0;
    for (MulticastBind& bind : backing.multicast_binds) bind.bound = false;
  }

  static constexpr DriverHandle kObject = 1;
  static inline int g_unbinds = 0;
};

TEST_F(BoundHooks, UnbindRemovesTheBindsInItsRange) {
  const DriverHandle first = create_bound(), second = create_bound(kSize);
  EXPECT_EQ(hooked_cuMulticastUnbind(kObject, 0, 2 * kSize, kSize), 0) << "of something else";
  EXPECT_EQ(hooked_cuMulticastUnbind(kObject + 1, 0, 0, 2 * kSize), 0) << "of another object";
  EXPECT_EQ(binds(first) + binds(second), 2u);
  EXPECT_EQ(hooked_cuMulticastUnbind(kObject, 0, 0, 2 * kSize), 0);
  EXPECT_EQ(binds(first) + binds(second), 0u);
  EXPECT_EQ(g_unbinds, 3);
}

TEST_F(BoundHooks, UnbindOfReleasedMemoryDoesNotReachTheDriver) {
  for (const bool is_freed : {false, true}) {
    const DriverHandle handle = create_bound();
    release(handle);
    if (is_freed) {
      EXPECT_EQ(hooked_cuMemRelease(handle), 0);
    }
    EXPECT_EQ(hooked_cuMulticastUnbind(kObject, 0, 0, kSize), 0);
    EXPECT_EQ(g_unbinds, 0);
    if (!is_freed) {
      EXPECT_EQ(binds(handle), 0u);
    }
  }
  EXPECT_EQ(hooked_cuMulticastUnbind(kObject, 0, 0, kSize), 0);
  EXPECT_EQ(g_unbinds, 1) << "it was answered once";
}

TEST_F(BoundHooks, MemoryForFabricHandlesStays) {
  const DriverHandle handle = create();
  {
    MutexLock lock(registry_.mutex);
    registry_.backing_of(*registry_.find_handle(handle)).properties.requested_handle_types = 8;
  }
  EXPECT_EQ(hooked_cuMulticastBindMem(kObject, 0, handle, 0, kSize, 0), 0);
  EXPECT_EQ(find(handle).kind, Kind::persistent);
}

TEST_F(BoundHooks, MemoryStaysWhenItsClientHasReleasedTheMulticastObject) {
  const DriverHandle bound = create_bound();
  EXPECT_EQ(hooked_cuMemRelease(kObject + 1), 0);
  EXPECT_EQ(find(bound).kind, Kind::keep);
  EXPECT_EQ(hooked_cuMemRelease(kObject), 0);
  EXPECT_EQ(find(bound).kind, Kind::persistent);
}

TEST_F(Hooks, CaptureThatNcclAsksForIsRemembered) {
  static int status_now = kCaptureStatusNone;
  driver_.cuStreamGetCaptureInfo_v2 = [](DriverStream, int* status, uint64_t*, void*, void*,
                                         size_t*) {
    *status = status_now;
    return driver_result::kSuccess;
  };
  driver_.cuStreamGetCaptureInfo_v3 = [](DriverStream, int* status, uint64_t*, void*, void*, void*,
                                         size_t*) {
    *status = status_now;
    return driver_result::kSuccess;
  };
  driver_.cuStreamIsCapturing = [](DriverStream, int* status) {
    *status = status_now;
    return driver_result::kSuccess;
  };
  int answer = -1;
  EXPECT_EQ(hooked_cuStreamGetCaptureInfo_v2(nullptr, &answer, nullptr, nullptr, nullptr, nullptr),
            0);
  EXPECT_FALSE(objects_->client.captures.any(driver_));

  status_now = 1;
  hooked_cuStreamGetCaptureInfo_v2(nullptr, &answer, nullptr, nullptr, nullptr, nullptr);
  EXPECT_EQ(answer, 1);
  EXPECT_TRUE(objects_->client.captures.any(driver_));

  status_now = kCaptureStatusNone;
  EXPECT_FALSE(objects_->client.captures.any(driver_)) << "its capture has ended";

  status_now = 1;
  hooked_cuStreamGetCaptureInfo_v3(nullptr, &answer, nullptr, nullptr, nullptr, nullptr, nullptr);
  EXPECT_TRUE(objects_->client.captures.any(driver_));
}

// The application may destroy it then, and the driver may not be asked about it any more.
TEST_F(Hooks, StreamThatNcclIsToldIsNotCapturedAnyMoreIsForgotten) {
  static std::vector<DriverStream> asked;
  asked.clear();
  driver_.cuStreamIsCapturing = [](DriverStream stream, int* status) {
    asked.push_back(stream);
    *status = 1;
    return driver_result::kSuccess;
  };
  char names[2] = {};
  const auto ended = reinterpret_cast<DriverStream>(&names[0]);
  const auto captured = reinterpret_cast<DriverStream>(&names[1]);
  const auto per_thread = reinterpret_cast<DriverStream>(uintptr_t{2});

  EXPECT_TRUE(objects_->client.captures.note(ended, kCaptureStatusNone, 0, 0).ok());
  EXPECT_FALSE(objects_->client.captures.any(driver_));
  EXPECT_TRUE(objects_->client.captures.note(ended, 1, 1, 0).ok());
  EXPECT_TRUE(objects_->client.captures.note(captured, 1, 2, 0).ok());
  EXPECT_TRUE(objects_->client.captures.note(ended, kCaptureStatusNone, 0, 0).ok());
  EXPECT_TRUE(objects_->client.captures.any(driver_));
  EXPECT_EQ(asked, std::vector{captured});

  EXPECT_TRUE(objects_->client.captures.note(captured, kCaptureStatusNone, 0, 0).ok());
  asked.clear();
  EXPECT_FALSE(objects_->client.captures.any(driver_));
  EXPECT_TRUE(asked.empty());

  EXPECT_TRUE(objects_->client.captures.note(per_thread, 1, 3, 0).ok());
  EXPECT_TRUE(objects_->client.captures.note(per_thread, kCaptureStatusNone, 0, 0).ok());
  EXPECT_TRUE(objects_->client.captures.any(driver_)) << "two threads' streams go by this name";
}

// NCCL makes streams for a capture, asks about them without asking for its number, and destroys
// them.
TEST_F(Hooks, OnlyTheCallersStreamOfACaptureIsRemembered) {
  static std::vector<DriverStream> asked;
  asked.clear();
  static constexpr auto kCapturing = [](uint64_t* id, int* status) {
    *status = 1;
    if (id != nullptr) *id = 7;
    return driver_result::kSuccess;
  };
  driver_.cuStreamGetCaptureInfo_v2 = [](DriverStream, int* status, uint64_t* id, void*, void*,
                                         size_t*) { return kCapturing(id, status); };
  driver_.cuStreamGetCaptureInfo_v3 = [](DriverStream, int* status, uint64_t* id, void*, void*,
                                         void*, size_t*) { return kCapturing(id, status); };
  driver_.cuStreamIsCapturing = [](DriverStream stream, int* status) {
    asked.push_back(stream);
    *status = 1;
    return driver_result::kSuccess;
  };
  char names[3] = {};
  const auto stream = [&](int i) { return reinterpret_cast<DriverStream>(&names[i]); };
  int status = 0;
  uint64_t id = 0;

  hooked_cuStreamGetCaptureInfo_v3(stream(0), &status, &id, nullptr, nullptr, nullptr, nullptr);
  hooked_cuStreamGetCaptureInfo_v3(stream(1), &status, nullptr, nullptr, nullptr, nullptr, nullptr);
  hooked_cuStreamGetCaptureInfo_v2(stream(2), &status, nullptr, nullptr, nullptr, nullptr);

  EXPECT_EQ(id, 7u);
  EXPECT_TRUE(objects_->client.captures.any(driver_));
  EXPECT_EQ(asked, std::vector{stream(0)});
}

TEST_F(Hooks, NicRegistrationPins) {
  const DriverHandle handle = create_mapped();
  int fd = -1;
  EXPECT_EQ(hooked_cuMemGetHandleForAddressRange(&fd, kAddress, kSize, 1, 0), 0);
  EXPECT_EQ(find(handle).kind, Kind::persistent);
  EXPECT_STREQ(find(handle).persistent_because, "registered with a NIC");
}

TEST_F(Hooks, ExportHandsOutATokenAndForkedChildrenOnlyForward) {
  const DriverHandle handle = create();
  int fd = -1;
  EXPECT_EQ(hooked_cuMemExportToShareableHandle(&fd, handle, kHandleTypeFd, 0), 0);
  EXPECT_EQ(fd, 77);

  Entry<&Driver::cuMemRelease, hooks::cuMemRelease>::real =
      reinterpret_cast<uintptr_t>(driver_.cuMemRelease);
  objects_->activate(false);
  EXPECT_EQ(hooked_cuMemRelease(handle), 0);
  EXPECT_EQ(g_releases, 1);
  EXPECT_EQ(find(handle).handle_references, 1);
}

TEST_F(Hooks, ExportWithoutATokenFailsAndCanBeMadeAgain) {
  const DriverHandle handle = create();
  int fd = -1;
  exchange_.file_numbers_left = false;
  EXPECT_EQ(hooked_cuMemExportToShareableHandle(&fd, handle, kHandleTypeFd, 0),
            driver_result::kUnknown);
  EXPECT_EQ(fd, -1);

  exchange_.file_numbers_left = true;
  EXPECT_EQ(hooked_cuMemExportToShareableHandle(&fd, handle, kHandleTypeFd, 0), 0);
  EXPECT_EQ(fd, 77);
}

// Multicast objects, of which the driver does not say where they are, and host memory are not.
TEST_F(Hooks, MemoryOfAProcessWithoutAmemIsNoticed) {
  static DriverResult result;
  static int location;
  driver_.cuMemImportFromShareableHandle = [](DriverHandle* handle, void*, int) {
    return *handle = kReal, 0;
  };
  driver_.cuMemGetAllocationPropertiesFromHandle = [](AllocationProperties* properties,
                                                      DriverHandle) {
    properties->location.type = location;
    return result;
  };
  const auto noticed = [&](DriverResult code, int where) {
    result = code;
    location = where;
    exchange_.foreign = 0;
    DriverHandle handle = 0;
    EXPECT_EQ(hooked_cuMemImportFromShareableHandle(&handle, nullptr, kHandleTypeFd), 0);
    return exchange_.foreign;
  };

  EXPECT_EQ(noticed(driver_result::kSuccess, kLocationDevice + 1), 0);
  EXPECT_EQ(noticed(driver_result::kInvalidValue, kLocationDevice), 0);
  Entry<&Driver::cuMemImportFromShareableHandle, hooks::cuMemImportFromShareableHandle>::real =
      reinterpret_cast<uintptr_t>(driver_.cuMemImportFromShareableHandle);
  objects_->activate(false);
  EXPECT_EQ(noticed(driver_result::kSuccess, kLocationDevice), 0);
  objects_->activate();
  EXPECT_EQ(noticed(driver_result::kSuccess, kLocationDevice), 1);
  EXPECT_EQ(noticed(driver_result::kSuccess, kLocationDevice), 0) << "once a process";
}

TEST_F(Hooks, UserMemoryIsTheApplicationsOwn) {
  t_in_mem_alloc = true;
  EXPECT_EQ(find(create()).kind, Kind::persistent);
  t_in_mem_alloc = false;
}

}  // namespace
}  // namespace amem
